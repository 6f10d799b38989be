"""What travels: an exchange with a server, and what it means.

A family is a wire format ("chat" is OpenAI's chat completions, spoken by many servers). Its
reader turns status, headers and body into a Reading; text and usage are views on the body, so
an improved reader re-reads everything ever kept at no cost.
"""

from __future__ import annotations

import email.utils
import importlib
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import orjson

from leakgrid.outcomes import Outcome
from leakgrid.types import NO_USAGE, Call, Usage
from leakgrid.value import value


@value(frozen=True, slots=True)
class Exchange:
    """One HTTP answer. ``status`` 0 is a connection that failed; then ``fault`` says how.

    ``sent`` is False when the request certainly never reached the server.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    latency_s: float
    fault: str = ""
    sent: bool = True


@value(frozen=True, slots=True, kw_only=True)
class Reading:
    """What an exchange means. ``wait_s`` is what the server asked for, None if it did not."""

    outcome: Outcome
    text: str = ""
    reasoning: str = ""
    finish: str = ""
    model: str = ""
    usage: Usage = NO_USAGE
    error: str = ""
    wait_s: float | None = None


class Provider(Protocol):
    """One way to reach one model: a call in, a body out; a body in, an exchange out."""

    name: str
    kind: str
    model: str
    family: str
    identity: str
    simulated: bool

    def body(self, call: Call) -> dict[str, Any]:
        """The request body as the provider's wire format wants it."""

    async def exchange(self, body: bytes) -> Exchange:
        """Send the body once. Never raises for what a network or a server can do."""

    def read(self, exchange: Exchange) -> Reading:
        """What the exchange means."""


TEXTS: dict[str, Callable[[Any], tuple[str, str]]] = {}
"""Family name to what finds (text, reasoning) in a parsed body; filled by provider modules."""

READERS = {
    "chat": "leakgrid.providers.openai",
    "responses": "leakgrid.providers.openai_responses",
    "gemini": "leakgrid.providers.google_read",
}
"""Family name to the module that fills its place in TEXTS when it is imported."""


def text_of(family: str, body: str) -> tuple[str, str]:
    """(text, reasoning) of a kept verbatim body; two empty strings if it cannot be read."""
    said = TEXTS.get(family)
    if said is None:
        module = READERS.get(family)
        if module is None:
            return "", ""
        importlib.import_module(module)  # registers its reader
        said = TEXTS[family]
    try:
        return said(parsed(body))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return "", ""


def parsed(body: bytes | str) -> Any:
    """A JSON body as a value; NaN and infinity, which some servers write, are let through.

    Raises ValueError where it is no JSON.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        try:
            return json.loads(body)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


_BY_STATUS = {
    400: Outcome.INVALID,
    401: Outcome.AUTH,
    402: Outcome.EXHAUSTED,
    403: Outcome.AUTH,
    404: Outcome.INVALID,
    408: Outcome.TRANSIENT,
    409: Outcome.TRANSIENT,
    413: Outcome.INVALID,
    422: Outcome.INVALID,
    429: Outcome.QUOTA,
    500: Outcome.TRANSIENT,
    502: Outcome.TRANSIENT,
    503: Outcome.OVERLOAD,
    504: Outcome.TRANSIENT,
    529: Outcome.OVERLOAD,
}


def by_status(status: int) -> Outcome:
    """The outcome of an HTTP error status; ``unknown`` for one that is not listed."""
    return _BY_STATUS.get(status, Outcome.UNKNOWN)


_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def span_seconds(text: str) -> float | None:
    """Seconds of a duration like ``1m2.5s``, ``120ms`` or ``7``; None if it is not one."""
    text = text.strip()
    try:
        return float(text)
    except ValueError:
        pass
    parts = _SPAN.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds the server asked to wait: retry-after-ms, then retry-after (seconds or a date)."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        seconds = span_seconds(value)
        if seconds is not None:
            return max(0.0, seconds * scale)
        when = email.utils.parsedate_tz(value)
        if when is not None:
            return max(0.0, email.utils.mktime_tz(when) - time.time())
    return None


@dataclass(frozen=True, slots=True)
class QuotaHeaders:
    """What a server says of its quotas; None where it does not say."""

    limit_requests: float | None
    remaining_requests: float | None
    limit_tokens: float | None
    remaining_tokens: float | None


def quota_headers(headers: Mapping[str, str]) -> QuotaHeaders | None:
    """The ``x-ratelimit-*`` headers as numbers; None if there are none."""
    if "x-ratelimit-limit-requests" not in headers and "x-ratelimit-limit-tokens" not in headers:
        return None

    def number(name: str) -> float | None:
        try:
            return float(headers[name])
        except (KeyError, ValueError):
            return None

    return QuotaHeaders(
        number("x-ratelimit-limit-requests"),
        number("x-ratelimit-remaining-requests"),
        number("x-ratelimit-limit-tokens"),
        number("x-ratelimit-remaining-tokens"),
    )


MOST_TAGS = 20
"""Closing tags behind which an object is looked for: a text full of them must not hold the loop."""

_DECODER = json.JSONDecoder(strict=False)
"""Guided decoding may leave a bare newline inside a string."""


def split_thinking(text: str) -> tuple[str, str]:
    """(reply, thinking) of text that may carry think tags.

    Handles whole ``<think>...</think>`` blocks wherever they stand, a closing tag alone (some
    templates open the block in the prompt), and a block that never closes: all after its tag is
    thinking. What stands before, between and after blocks is the reply. A JSON object that ends the
    text, as a response schema asks for, is reply as a whole: a tag that it quotes parts nothing.
    """
    if "<think>" not in text and "</think>" not in text:
        return text, ""
    start = _last_object(text)
    if start == 0:
        return text, ""
    reply, thinking = _parted(text[:start])
    return (_joined([reply, text[start:]]) if start is not None else reply), thinking


def _last_object(text: str) -> int | None:
    """Where a JSON object begins that is all of the text, or all that follows a closing tag."""
    ends = (found.end() for found in islice(re.finditer("</think>", text), MOST_TAGS))
    for start in (0, *ends):
        rest = text[start:].strip()
        if rest.startswith("{") and rest.endswith("}"):
            try:
                _DECODER.decode(rest)
            except (ValueError, RecursionError):
                continue
            return start
    return None


def _parted(text: str) -> tuple[str, str]:
    first, *blocks = text.split("<think>")
    thought, _, said = first.rpartition("</think>")
    replies, thinking = [said], [thought]
    for block in blocks:
        inside, closed, after = block.rpartition("</think>")
        thinking.append(inside if closed else after)
        replies.append(after if closed else "")
    return _joined(replies), _joined(thinking)


def _joined(parts: list[str]) -> str:
    return "\n\n".join(part.strip() for part in parts if part.strip())
