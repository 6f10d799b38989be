"""How often each failure is tried, and how long to wait before the next time."""

from __future__ import annotations

import tenacity

from leakgrid.outcomes import Outcome

MOST_ATTEMPTS = {
    Outcome.TRANSIENT: 5,
    Outcome.MALFORMED: 2,
    Outcome.UNKNOWN: 2,
    Outcome.OVERLOAD: 20,
}
"""Attempts at one call that may end so. Quota answers are not counted: they only gate the lane."""

_wait = tenacity.wait_exponential(multiplier=0.25, max=30.0) + tenacity.wait_random(0.0, 0.5)


def backoff(failures: int) -> float:
    """Seconds before the next attempt after so many failures: growing and jittered."""
    state = tenacity.RetryCallState(None, None, (), {})  # type: ignore[arg-type]
    state.attempt_number = failures
    return float(_wait(state))
