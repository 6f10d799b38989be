"""What a generateContent exchange means: finish reasons, blocks, usage, and Google's errors.

Two tables decide, ``FINISHES`` for a finished reply and ``_BY_NAME`` for an error's status; what
they leave open follows from the HTTP status and the error's details.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from leakgrid.outcomes import Outcome
from leakgrid.providers.wire import TEXTS, Reading, asked_wait, by_status, parsed, span_seconds
from leakgrid.types import Usage

FAMILY = "gemini"

FINISHES = {
    "STOP": Outcome.ANSWER,
    # The reply broke off.
    "MAX_TOKENS": Outcome.TRUNCATED,
    "CONTINUATION": Outcome.TRUNCATED,
    # A filter stopped it.
    "SAFETY": Outcome.REFUSAL,
    "RECITATION": Outcome.REFUSAL,
    "LANGUAGE": Outcome.REFUSAL,
    "BLOCKLIST": Outcome.REFUSAL,
    "PROHIBITED_CONTENT": Outcome.REFUSAL,
    "SPII": Outcome.REFUSAL,
    "MODEL_ARMOR": Outcome.REFUSAL,
    "ESCALATION": Outcome.REFUSAL,
    "IMAGE_SAFETY": Outcome.REFUSAL,
    "IMAGE_PROHIBITED_CONTENT": Outcome.REFUSAL,
    "IMAGE_RECITATION": Outcome.REFUSAL,
    # What the model wrote is no message: a tool call, or nothing that parses.
    "MALFORMED_FUNCTION_CALL": Outcome.MALFORMED,
    "UNEXPECTED_TOOL_CALL": Outcome.MALFORMED,
    "TOO_MANY_TOOL_CALLS": Outcome.MALFORMED,
    "MALFORMED_RESPONSE": Outcome.MALFORMED,
    "MISSING_THOUGHT_SIGNATURE": Outcome.MALFORMED,
    # No reason to stop is given: the reply may be incomplete.
    "": Outcome.MALFORMED,
    "FINISH_REASON_UNSPECIFIED": Outcome.MALFORMED,
    # The account was limited for what was asked of it.
    "PUP_LIMITED_DISABLED": Outcome.AUTH,
}
"""Finish reason to outcome. OTHER and every reason not listed are ``unknown``: nobody can say
whether the reply is whole, so it is asked once more and then told by name."""

_BY_NAME = {
    "ABORTED": Outcome.TRANSIENT,
    "CANCELLED": Outcome.TRANSIENT,
    "DEADLINE_EXCEEDED": Outcome.TRANSIENT,
    "DATA_LOSS": Outcome.TRANSIENT,
    "INTERNAL": Outcome.TRANSIENT,
    "UNAVAILABLE": Outcome.OVERLOAD,
    "UNIMPLEMENTED": Outcome.INVALID,
    # The country, the billing or the organisation's policy: no request would be answered, and
    # an outcome that is kept would outlive the day it is mended.
    "FAILED_PRECONDITION": Outcome.AUTH,
}
"""Where the name of a status says more than its number."""

_REFUSED = frozenset(
    {
        "CONSUMER_INVALID",
        "CONSUMER_SUSPENDED",
        "CREDENTIALS_MISSING",
        "GCP_SUSPENDED",
        "SERVICE_DISABLED",
        "USER_PROJECT_DENIED",
    }
)
"""Error reasons that refuse the caller, beside all that begin with API_KEY_ and ACCESS_TOKEN_."""

_MONEY = re.compile(
    r"prepayment credits|credits are depleted|spend(?:ing)? cap|billing .*disabled|requires billing"
)
_CROWDED = re.compile(r"^resource exhausted\b|no capacity|provisioned throughput|overloaded")
_RETRY_IN = re.compile(r"retry in ([\d.]+(?:ms|s|m|h)(?:[\d.]+(?:ms|s|m))*)")
_NOTHING_ALLOWED = re.compile(r"\blimit: 0\b")
_UNREADABLE = (KeyError, IndexError, TypeError, AttributeError, ValueError)


def read_answer(raw: bytes) -> Reading:
    """The reading of a body that came with status 200."""
    try:
        return read_response(parsed(raw))
    except _UNREADABLE as bad:
        told = f"status 200 but no generateContent response ({type(bad).__name__}: {bad})"
        return Reading(outcome=Outcome.MALFORMED, error=told[:1000])


def read_response(body: Any) -> Reading:
    """The reading of a parsed response.

    Raises KeyError, IndexError, TypeError or AttributeError where it is none.
    """
    if isinstance(body, list) or "error" in body:
        return _error_reading(None, {}, _error_in(body))
    usage = _usage(body.get("usageMetadata") or {})
    model = body.get("modelVersion") or ""
    candidates = body.get("candidates")
    if not candidates:
        feedback = body["promptFeedback"]
        reason = feedback.get("blockReason") or "UNSPECIFIED"
        told = ": ".join(
            filter(None, (f"the prompt was blocked, {reason}", feedback.get("blockReasonMessage")))
        )
        return Reading(
            outcome=Outcome.REFUSAL,
            finish=f"PROMPT_{reason}",
            model=model,
            usage=usage,
            error=told[:1000],
        )
    candidate = candidates[0]
    finish = candidate.get("finishReason") or ""
    outcome = FINISHES.get(finish, Outcome.UNKNOWN)
    text, reasoning = said(body)
    told = ""
    if outcome is Outcome.ANSWER:
        if not (candidate.get("content") or {}).get("parts"):
            # Seen in the wild, and different when asked again: not what the model wanted to say.
            outcome, told = Outcome.MALFORMED, "finished with STOP but without any part"
    elif outcome is not Outcome.TRUNCATED:
        told = f"finish reason {finish or 'missing'}"
        if candidate.get("finishMessage"):
            told += f": {candidate['finishMessage']}"
    return Reading(
        outcome=outcome,
        text=text,
        reasoning=reasoning,
        finish=finish,
        model=model,
        usage=usage,
        error=told[:1000],
    )


def said(body: Any) -> tuple[str, str]:
    """(reply, thoughts) of a parsed response: the first candidate's text parts, joined.

    Raises KeyError, IndexError, TypeError or AttributeError where it is none.
    """
    candidates = body.get("candidates")
    if not candidates:
        return "", ""
    reply: list[str] = []
    thoughts: list[str] = []
    for part in (candidates[0].get("content") or {}).get("parts") or ():
        text = part.get("text")
        if text:
            (thoughts if part.get("thought") is True else reply).append(text)
    return "".join(reply), "".join(thoughts)


TEXTS[FAMILY] = said


def _usage(usage: Mapping[str, Any]) -> Usage:
    """Thoughts are counted beside the candidates but are output, and paid as such."""
    thoughts = usage.get("thoughtsTokenCount") or 0
    return Usage(
        (usage.get("promptTokenCount") or 0) + (usage.get("toolUsePromptTokenCount") or 0),
        usage.get("cachedContentTokenCount") or 0,
        (usage.get("candidatesTokenCount") or 0) + thoughts,
        thoughts,
    )


def read_error(status: int, headers: Mapping[str, str], raw: bytes) -> Reading:
    """The reading of an error status, by its name and details where they are given."""
    try:
        error = _error_in(parsed(raw))
    except _UNREADABLE:
        error = {"message": raw[:300].decode("utf-8", "replace").strip()}
    return _error_reading(status, headers, error)


def _error_in(body: Any) -> dict[str, Any]:
    """The error object, alone or in an array of one. Raises as reading a wrong shape does."""
    if isinstance(body, list):
        body = body[0]
    error = body["error"]
    return error if isinstance(error, dict) else {"message": str(error)}


def _error_reading(
    status: int | None, headers: Mapping[str, str], error: Mapping[str, Any]
) -> Reading:
    if status is None:  # an error inside a 200
        status = error["code"] if isinstance(error.get("code"), int) else 500
    name, message = str(error.get("status") or ""), str(error.get("message") or "")
    listed = error.get("details")
    details = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    reasons = [str(one["reason"]) for one in details if one.get("reason")]
    quotas = [
        violation
        for one in details
        for violation in one.get("violations") or ()
        if isinstance(violation, dict)
    ]
    outcome = _outcome(status, name, message.lower(), reasons, quotas)
    code = (reasons or [name])[0]
    told = f"status {status}" + (f", {code}" if code else "") + (f": {message}" if message else "")
    over = ", ".join(str(one["quotaId"]) for one in quotas if one.get("quotaId"))
    return Reading(
        outcome=outcome,
        finish=code,
        error=(told + (f" (over: {over})" if over else ""))[:1000],
        wait_s=_wait(headers, details, message),
    )


def _outcome(
    status: int,
    name: str,
    message: str,
    reasons: list[str],
    quotas: list[dict[str, Any]],
) -> Outcome:
    if "BILLING_DISABLED" in reasons or (status in (402, 403, 429) and _MONEY.search(message)):
        return Outcome.EXHAUSTED
    if "RATE_LIMIT_EXCEEDED" in reasons or status == 429:
        if "MODEL_CAPACITY_EXHAUSTED" in reasons or (not quotas and _CROWDED.search(message)):
            return Outcome.OVERLOAD
        told = quotas or [{"description": message if "quota exceeded" in message else ""}]
        used_up = any(_refills_tomorrow(one) or one.get("quotaValue") == "0" for one in told)
        return Outcome.EXHAUSTED if used_up or _NOTHING_ALLOWED.search(message) else Outcome.QUOTA
    refused = any(
        reason.startswith(("API_KEY_", "ACCESS_TOKEN_")) or reason in _REFUSED for reason in reasons
    )
    if refused or (status == 400 and message.startswith("api key ")):
        return Outcome.AUTH
    return _BY_NAME.get(name) or by_status(status)


def _refills_tomorrow(violation: Mapping[str, Any]) -> bool:
    """Whether the quota is one per day (or longer), so that waiting in this run is no use."""
    words = " ".join(
        str(violation.get(field) or "") for field in ("quotaId", "quotaMetric", "description")
    )
    plain = words.lower().replace("_", "").replace(" ", "")
    return any(span in plain for span in ("perday", "daily", "permonth"))


def _wait(headers: Mapping[str, str], details: list[dict[str, Any]], message: str) -> float | None:
    """Seconds to wait: RetryInfo in the body, then retry-after, then the message's own words."""
    for detail in details:
        delay = detail.get("retryDelay")
        if isinstance(delay, dict):
            return float(delay.get("seconds") or 0) + float(delay.get("nanos") or 0) / 1e9
        seconds = span_seconds(delay) if isinstance(delay, str) else None
        if seconds is not None:
            return max(0.0, seconds)
    asked = asked_wait(headers)
    if asked is not None:
        return asked
    found = _RETRY_IN.search(message)
    return None if found is None else span_seconds(found[1])
