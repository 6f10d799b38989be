"""Chat completions at any base URL: OpenAI, vLLM, OpenRouter, llama.cpp, and the simulation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leakgrid.outcomes import Outcome
from leakgrid.providers.openai_endpoint import Endpoint
from leakgrid.providers.openai_errors import filtered_by, read_error, read_inner_error
from leakgrid.providers.wire import TEXTS, Reading, split_thinking
from leakgrid.types import Call, Usage

__all__ = ["FAMILY", "ChatCompletions", "read_completion", "read_error", "said"]

FAMILY = "chat"


class ChatCompletions(Endpoint):
    """One model at one base URL.

    ``params`` go into every body (``temperature``, ``max_completion_tokens``...); a key is only
    ever in the header. ``identity`` distinguishes servers that share a model name.
    """

    family = FAMILY
    path = "/chat/completions"
    speaks = "chat completion"

    def body(self, call: Call) -> dict[str, Any]:
        """The body: model, messages, parameters (the call's override the job's), schema."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": part.role, "content": part.text} for part in call.messages],
            **self._params,
            **call.params,
        }
        if call.schema is not None:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {
                    "name": call.schema.name,
                    "strict": True,
                    "schema": call.schema.definition,
                },
            }
        return body if self._shape is None else self._shape(body, call.sample)

    def completed(self, body: Any) -> Reading:
        """The reading of a parsed chat completion."""
        return read_completion(body)


def read_completion(body: Any) -> Reading:
    """The reading of a parsed chat completion.

    Raises KeyError, IndexError, TypeError or AttributeError where it is none.
    """
    if "choices" not in body and "error" in body:
        return read_inner_error(body)
    choice = body["choices"][0]
    finish = choice.get("finish_reason") or ""
    text, reasoning = said(body)
    error = ""
    if finish == "length":
        outcome = Outcome.TRUNCATED
    elif finish == "content_filter" or choice["message"].get("refusal"):
        outcome = Outcome.REFUSAL
        filtered = filtered_by(choice.get("content_filter_results"))
        error = f"filtered: {', '.join(filtered)}" if filtered else ""
    else:
        outcome = Outcome.ANSWER
    return Reading(
        outcome=outcome,
        text=text,
        reasoning=reasoning,
        finish=finish,
        model=body.get("model") or "",
        usage=_usage(body.get("usage") or {}),
        error=error,
    )


def said(body: Any) -> tuple[str, str]:
    """(reply, reasoning) of a parsed chat completion; a refusal's words are its reply.

    Raises KeyError, IndexError, TypeError or AttributeError where it is none.
    """
    message = body["choices"][0]["message"]
    text = message.get("content") or ""
    if not isinstance(text, str):
        text = "".join(part.get("text", "") for part in text)
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    if "think>" in text:
        text, thought = split_thinking(text)
        reasoning = reasoning or thought
    return text or message.get("refusal") or "", reasoning


TEXTS[FAMILY] = said


def _usage(usage: Mapping[str, Any]) -> Usage:
    inside = usage.get("prompt_tokens_details") or {}
    outside = usage.get("completion_tokens_details") or {}
    return Usage(
        usage.get("prompt_tokens") or 0,
        inside.get("cached_tokens") or 0,
        usage.get("completion_tokens") or 0,
        outside.get("reasoning_tokens") or 0,
    )
