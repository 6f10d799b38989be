"""What of an attempt goes into its journal row, however it was sent (``cache/tables.py``)."""

from __future__ import annotations

import time
from typing import Any

from leakgrid.lanes.values import Attempt
from leakgrid.providers.wire import Provider


def of_provider(provider: Provider, *, run: str, job: str, lane: str, tier: str) -> dict[str, Any]:
    """The columns that all attempts of one provider share in a run."""
    return {
        "run": run,
        "job": job,
        "lane": lane,
        "provider": provider.kind,
        "family": provider.family,
        "model": provider.model,
        "tier": tier,
        "simulated": provider.simulated,
    }


def of_attempt(kind: str, key: str, role: str, sample: int, attempt: Attempt) -> dict[str, Any]:
    """The columns of one attempt; ``kind`` is answer or attempt, ``key`` in hex digits."""
    reading, exchange = attempt.reading, attempt.exchange
    usage = reading.usage
    return {
        "kind": kind,
        "key": key,
        "role": role,
        "returned": reading.model,
        "sample": sample,
        "outcome": reading.outcome,
        "status": exchange.status,
        "attempt": attempt.number,
        "finish": reading.finish,
        "error": reading.error,
        "input": usage.input,
        "cached": usage.cached,
        "output": usage.output,
        "reasoning_tokens": usage.reasoning,
        "usd": attempt.usd,
        "latency_ms": round(exchange.latency_s * 1000, 3),
        "wait_ms": round(attempt.waited_s * 1000, 3),
        "ts": time.time(),
        "body": _readable(exchange.body),
    }


def _readable(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body.decode("latin-1")
