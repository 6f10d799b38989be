"""OpenAI's Responses API, and every server that speaks it (Azure, vLLM).

Messages become input items in their order, each with its role: a system message stays a system
item at its place. ``instructions`` would hold only one, and a second form of the same prompt
would be a second key. Nothing is stored at the provider unless the job says ``store = true``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leakgrid.outcomes import Outcome
from leakgrid.providers.openai_endpoint import Endpoint
from leakgrid.providers.openai_errors import failed_outcome, read_inner_error, told_wait
from leakgrid.providers.wire import TEXTS, Reading, split_thinking
from leakgrid.types import Call, Usage

FAMILY = "responses"
LIMIT = "max_output_tokens"
SAME_LIMIT = ("max_completion_tokens", "max_tokens")
"""What chat completions call the limit of output tokens; here they mean ``max_output_tokens``."""


class Responses(Endpoint):
    """One model behind POST /responses; parameters are those of that API.

    Takes the arguments of ChatCompletions.
    """

    family = FAMILY
    path = "/responses"
    speaks = "response"

    def __init__(self, *, params: Mapping[str, Any], **options: Any) -> None:
        super().__init__(params={"store": False, **_renamed(params)}, **options)

    def body(self, call: Call) -> dict[str, Any]:
        """The body: model, input items, parameters (the call's override the job's), schema."""
        body: dict[str, Any] = {
            "model": self.model,
            "input": [{"role": part.role, "content": part.text} for part in call.messages],
            **self._params,
            **_renamed(call.params),
        }
        if call.schema is not None:
            body["text"] = {
                **(body.get("text") or {}),
                "format": {
                    "type": "json_schema",
                    "name": call.schema.name,
                    "strict": True,
                    "schema": call.schema.definition,
                },
            }
        return body if self._shape is None else self._shape(body, call.sample)

    def completed(self, body: Any) -> Reading:
        """The reading of a parsed response."""
        return read_response(body)


def read_response(body: Any) -> Reading:
    """The reading of a parsed response.

    Raises KeyError, TypeError, AttributeError or ValueError where it is none.
    """
    if "status" not in body and "error" in body:
        return read_inner_error(body)
    status = body["status"]
    usage = _usage(body.get("usage") or {})
    model = body.get("model") or ""
    if status == "failed":
        error = body.get("error") or {}
        code, message = str(error.get("code") or ""), str(error.get("message") or "")
        outcome = failed_outcome(code)
        wait = told_wait(message) if outcome is Outcome.QUOTA else None
        told = f"response failed, {code}: {message}"[:1000]
        return Reading(
            outcome=outcome, finish=code, model=model, usage=usage, error=told, wait_s=wait
        )
    if status == "cancelled":
        return Reading(
            outcome=Outcome.TRANSIENT, finish=status, model=model, usage=usage,
            error="the response was cancelled",
        )  # fmt: skip
    text, reasoning, refusal = _output(body["output"])
    finish = status
    if status == "completed":
        outcome = Outcome.ANSWER if refusal is None else Outcome.REFUSAL
    elif status == "incomplete":
        finish = (body.get("incomplete_details") or {}).get("reason") or status
        outcome = Outcome.REFUSAL if finish == "content_filter" else Outcome.TRUNCATED
    else:
        raise ValueError(f"the status is {status!r}; a response that runs on cannot be read")
    return Reading(
        outcome=outcome,
        text=text or refusal or "",
        reasoning=reasoning,
        finish=finish,
        model=model,
        usage=usage,
    )


def said(body: Any) -> tuple[str, str]:
    """(reply, reasoning) of a parsed response; a refusal's words are its reply.

    Reasoning is the model's thoughts where they are shown, else their summaries. Raises
    KeyError, TypeError or AttributeError where it is no response.
    """
    text, reasoning, refusal = _output(body["output"])
    return text or refusal or "", reasoning


TEXTS[FAMILY] = said


def _output(items: Any) -> tuple[str, str, str | None]:
    """(text, reasoning, refusal) of the output items; refusal is None where there is none."""
    text, thoughts, summaries = "", [], []
    refusal = None
    for item in items:
        kind = item["type"]
        if kind == "message":
            for part in item["content"]:
                if part["type"] == "output_text":
                    text += part["text"] or ""
                elif part["type"] == "refusal":
                    refusal = (refusal or "") + (part["refusal"] or "")
        elif kind == "reasoning":
            thoughts += [part["text"] for part in item.get("content") or ()]
            summaries += [part["text"] for part in item.get("summary") or ()]
    reasoning = "\n\n".join(thoughts or summaries)
    if "think>" in text:
        text, thought = split_thinking(text)
        reasoning = reasoning or thought
    return text, reasoning, refusal


def _renamed(params: Mapping[str, Any]) -> dict[str, Any]:
    """``params`` with the limit of output tokens under this API's name."""
    named = {field: value for field, value in params.items() if field not in SAME_LIMIT}
    for field in SAME_LIMIT:
        if field in params:
            named.setdefault(LIMIT, params[field])
    return named


def _usage(usage: Mapping[str, Any]) -> Usage:
    inside = usage.get("input_tokens_details") or {}
    outside = usage.get("output_tokens_details") or {}
    return Usage(
        usage.get("input_tokens") or 0,
        inside.get("cached_tokens") or 0,
        usage.get("output_tokens") or 0,
        outside.get("reasoning_tokens") or 0,
    )
