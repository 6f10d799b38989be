"""Chat completions at any base URL: OpenAI, vLLM, OpenRouter, llama.cpp, and the simulation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from leakgrid.outcomes import Outcome
from leakgrid.providers.deadlines import Deadlines
from leakgrid.providers.wire import (
    TEXTS,
    Exchange,
    Reading,
    asked_wait,
    by_status,
    span_seconds,
    split_thinking,
)
from leakgrid.types import Call, Usage

if TYPE_CHECKING:
    import aiohttp

FAMILY = "chat"

_EXHAUSTED = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "quota_exceeded"}
)
_FILTERED = frozenset({"content_filter", "content_policy_violation"})


class ChatCompletions:
    """One model at one base URL.

    ``params`` go into every body (``temperature``, ``max_completion_tokens``...); a key is only
    ever in the header. ``identity`` distinguishes servers that share a model name.
    """

    family = FAMILY

    def __init__(
        self,
        *,
        name: str,
        kind: str,
        model: str,
        base_url: str,
        session: aiohttp.ClientSession,
        identity: str,
        params: Mapping[str, Any],
        key: str = "",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 600.0,
        simulated: bool = False,
        shape: Callable[[dict[str, Any], int], dict[str, Any]] | None = None,
    ) -> None:
        """``shape(body, sample)`` gives a server what it needs beyond the common format."""
        from multidict import CIMultiDict  # aiohttp is here already: it made the session
        from yarl import URL

        self.name = name
        self.kind = kind
        self.model = model
        self.identity = identity
        self.simulated = simulated
        self._shape = shape
        self._url = URL(base_url.rstrip("/") + "/chat/completions")
        self._session = session
        self._deadlines = Deadlines(timeout_s)
        self._timeout_s = timeout_s
        self._params = dict(params)
        self._secret = key.encode()
        sent = {"content-type": "application/json", **(headers or {})}
        if key:
            sent["authorization"] = f"Bearer {key}"
        self._headers = CIMultiDict(sent)

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

    async def exchange(self, body: bytes) -> Exchange:
        """Send once; a failed connection is an Exchange with status 0 and its fault."""
        import aiohttp

        began = time.perf_counter()
        status, raw, fault, sent = 0, b"", "", True
        headers: Mapping[str, str] = {}
        deadline = self._deadlines.begin()
        response = None
        try:
            # Reading a body to its end gives the connection back; otherwise it is closed below.
            response = await self._session.post(self._url, data=body, headers=self._headers)
            raw = await response.read()
            status, headers = response.status, response.headers
        except asyncio.CancelledError:
            task = deadline.task
            # Late, and nobody else wants the task gone: that is a failed call, no cancellation.
            if not deadline.expired or task is None or task.uncancel():
                raise
            fault = f"no answer within {self._timeout_s:g} s"
        except aiohttp.ClientConnectorError as error:
            sent, fault = False, f"no connection ({error})"
        except TimeoutError as error:
            fault = f"no connection in time ({type(error).__name__})"
        except aiohttp.ClientPayloadError as error:
            fault = f"the answer broke off ({error})"
        except (aiohttp.ClientError, OSError) as error:
            fault = f"{type(error).__name__}: {error}"
        finally:
            self._deadlines.end(deadline)
            if response is not None and not status:
                response.close()
        if self._secret and self._secret in raw:
            raw = raw.replace(self._secret, b"[redacted]")
        return Exchange(status, headers, raw, time.perf_counter() - began, fault, sent)

    def read(self, exchange: Exchange) -> Reading:
        """What the exchange means, by status, error code and finish reason."""
        if exchange.status == 0:
            return Reading(outcome=Outcome.TRANSIENT, error=exchange.fault)
        if exchange.status == 200:
            try:
                return read_completion(orjson.loads(exchange.body))
            except (orjson.JSONDecodeError, TypeError, KeyError, IndexError, AttributeError) as bad:
                told = f"status 200 but no chat completion ({type(bad).__name__}: {bad})"
                return Reading(outcome=Outcome.MALFORMED, error=told)
        return read_error(exchange.status, exchange.headers, exchange.body)


def read_completion(body: Any) -> Reading:
    """The reading of a parsed chat completion.

    Raises KeyError, IndexError, TypeError or AttributeError where it is none.
    """
    if "choices" not in body and "error" in body:
        # Some routers answer 200 with the upstream's error inside.
        code = body["error"].get("code")
        return read_error(code if isinstance(code, int) else 500, {}, orjson.dumps(body))
    choice = body["choices"][0]
    finish = choice.get("finish_reason") or ""
    text, reasoning = said(body)
    if finish == "length":
        outcome = Outcome.TRUNCATED
    elif finish == "content_filter" or choice["message"].get("refusal"):
        outcome = Outcome.REFUSAL
    else:
        outcome = Outcome.ANSWER
    return Reading(
        outcome=outcome,
        text=text,
        reasoning=reasoning,
        finish=finish,
        model=body.get("model") or "",
        usage=_usage(body.get("usage") or {}),
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


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> Reading:
    """The reading of an error status, by its code where one is given."""
    code, message = _error_of(body)
    outcome = by_status(status)
    wait = asked_wait(headers)
    if code in _EXHAUSTED:
        outcome = Outcome.EXHAUSTED
    elif code in _FILTERED:
        outcome = Outcome.REFUSAL
    elif outcome is Outcome.QUOTA:
        if "request too large" in message.lower():
            outcome = Outcome.INVALID
        elif wait is None:
            wait = _reset(headers)
    told = f"status {status}" + (f", {code}" if code else "") + (f": {message}" if message else "")
    return Reading(outcome=outcome, finish=code, error=told[:1000], wait_s=wait)


def _reset(headers: Mapping[str, str]) -> float | None:
    """The reset time of a quota that is used up, where the server gives no retry-after."""
    waits = [
        span_seconds(headers.get(f"x-ratelimit-reset-{kind}", ""))
        for kind in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{kind}") == "0"
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def _error_of(body: bytes) -> tuple[str, str]:
    """(code, message) of an error body in any of the shapes that servers use."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return "", body[:300].decode("utf-8", "replace").strip()
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    if not isinstance(error, dict):
        return "", str(error)[:300]
    code = error.get("code") or error.get("type") or ""
    return str(code), str(error.get("message") or error.get("detail") or "")
