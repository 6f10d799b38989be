"""What OpenAI's errors mean, and those of Azure and of the many servers that imitate them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from leakgrid.outcomes import Outcome
from leakgrid.providers.wire import Reading, asked_wait, by_status, span_seconds

_EXHAUSTED = frozenset(
    {
        "insufficient_quota",
        "credit_balance_exhausted",
        "billing_hard_limit_reached",
        "billing_not_active",
        "quota_exceeded",
    }
)
_FILTERED = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "image_content_policy_violation",
        "invalid_prompt",
        "bio_policy",
        "misalignment_policy_violation",
        "ResponsibleAIPolicyViolation",
    }
)
_BUSY = frozenset(
    {
        "slow_down",
        "server_is_overloaded",
        "engine_overloaded",
        "resource_unavailable",
        "NoCapacity",
    }
)
"""Said with 429 or 503 alike: no quota is used up, the lane must go slower."""

_BUSY_WORDS = ("overloaded", "high demand")
_FAILED = {
    "server_error": Outcome.TRANSIENT,
    "vector_store_timeout": Outcome.TRANSIENT,
    "rate_limit_exceeded": Outcome.QUOTA,
    "data_residency_mismatch": Outcome.INVALID,
}
_TOLD_WAIT = re.compile(
    r"(?:try again in|retry after)\s+(\d[\d.hms]*)\s*(milliseconds?|seconds?|minutes?)?", re.I
)
_WORDS = {"milli": "ms", "second": "s", "minute": "m"}


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> Reading:
    """The reading of an error status, by its code where one is given."""
    code, kind, message, filtered = _error_of(body)
    outcome = _outcome(status, code, kind, message, filtered)
    wait = asked_wait(headers)
    if wait is None and outcome in (Outcome.QUOTA, Outcome.OVERLOAD):
        wait = _reset(headers)
        if wait is None:
            wait = told_wait(message)
    code = code or kind
    told = f"status {status}" + (f", {code}" if code else "") + (f": {message}" if message else "")
    if filtered:
        told += f" (filtered: {', '.join(filtered)})"
    return Reading(outcome=outcome, finish=code, error=told[:1000], wait_s=wait)


def read_inner_error(body: Any) -> Reading:
    """The reading of a 200 that carries an upstream's error, as some routers answer."""
    code = body["error"].get("code")
    return read_error(code if isinstance(code, int) else 500, {}, orjson.dumps(body))


def failed_outcome(code: str) -> Outcome:
    """What ended a response that has the status ``failed``."""
    if code in _FILTERED:
        return Outcome.REFUSAL
    if "image" in code:
        return Outcome.INVALID
    return _FAILED.get(code, Outcome.UNKNOWN)


def told_wait(message: str) -> float | None:
    """Seconds that an error message asks to wait ("try again in 1m2s"); None if it does not."""
    found = _TOLD_WAIT.search(message)
    if found is None:
        return None
    span = found[1].rstrip(".")
    unit = (found[2] or "").lower()
    return span_seconds(span + next((_WORDS[word] for word in _WORDS if unit.startswith(word)), ""))


def filtered_by(results: Any) -> tuple[str, ...]:
    """Which of Azure's content filters struck, by name; empty where none is told."""
    if not isinstance(results, Mapping):
        return ()
    return tuple(
        name
        for name, result in results.items()
        if isinstance(result, Mapping) and result.get("filtered")
    )


def _outcome(status: int, code: str, kind: str, message: str, filtered: tuple[str, ...]) -> Outcome:
    if code in _EXHAUSTED or kind in _EXHAUSTED:
        return Outcome.EXHAUSTED
    if code in _FILTERED or filtered:
        return Outcome.REFUSAL
    lowered = message.lower()
    if status in (429, 503) and (code in _BUSY or any(word in lowered for word in _BUSY_WORDS)):
        return Outcome.OVERLOAD
    if status == 429 and "request too large" in lowered:
        return Outcome.INVALID  # larger than a whole minute's quota: no wait will help
    if 520 <= status <= 524:
        return Outcome.TRANSIENT  # the proxy in front of the API lost it
    return by_status(status)


def _reset(headers: Mapping[str, str]) -> float | None:
    """The reset time of a quota that is used up, where the server gives no retry-after."""
    waits = [
        span_seconds(headers.get(f"x-ratelimit-reset-{kind}", ""))
        for kind in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{kind}") == "0"
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def _error_of(body: bytes) -> tuple[str, str, str, tuple[str, ...]]:
    """(code, type, message, filters) of an error body in any of the shapes that servers use."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return "", "", body[:300].decode("utf-8", "replace").strip(), ()
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    if not isinstance(error, dict):
        return "", "", str(error)[:300], ()
    inner = error.get("innererror") or error.get("inner_error")
    inner = inner if isinstance(inner, dict) else {}
    code = str(error.get("code") or "")
    if inner.get("code") in _FILTERED and code not in _FILTERED:
        code = str(inner["code"])
    message = str(error.get("message") or error.get("detail") or "")
    filtered = filtered_by(inner.get("content_filter_result"))
    return code, str(error.get("type") or ""), message, filtered
