"""From a job's words to a batch service and a deadline."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from leakgrid.batches.course import Pace
from leakgrid.batches.service import Service

PROVIDERS = ("openai", "gemini", "simulated")
"""Providers of a job that have a batch tier."""

QUICK = Pace(
    first_s=0.2,
    longest_s=2.0,
    settle_s=0.2,
    queue_s=0.5,
    longest_queue_s=5.0,
    retry_s=0.2,
    files_s=60.0,
)


def service_for(
    provider: str,
    *,
    family: str,
    model: str,
    base_url: str,
    key: str,
    headers: Mapping[str, str],
    timeout_s: float,
) -> Service:
    """The batch service of a model; blocking, because it imports an SDK. Raises JobError."""
    common: dict[str, Any] = {
        "base_url": base_url,
        "key": key,
        "headers": headers,
        "timeout_s": timeout_s,
    }
    if provider == "gemini":
        from leakgrid.providers.batch_google import GeminiBatches

        return GeminiBatches(model=model, **common)
    from leakgrid.providers.batch_openai import OpenAIBatches

    return OpenAIBatches(family=family, **common)


def pace_of(provider: str) -> Pace:
    """How often to look: a simulated batch takes seconds, all others hours."""
    return QUICK if provider == "simulated" else Pace()


def deadline_of(value: Any) -> tuple[float | None, float | None]:
    """(hours, seconds since 1970) of a job's ``deadline``; one of them is None.

    A number is hours after the first batch; a time (TOML's, or as text) without a zone is local.
    Raises ValueError for anything else.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value <= 0:
            raise ValueError("hours must be above 0")
        return float(value), None
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value)
    if not isinstance(value, datetime.datetime):
        raise ValueError(
            "give hours (20) or a time with its date (2026-12-24T08:00 or 2026-12-24T08:00:00Z)"
        )
    return None, value.timestamp()
