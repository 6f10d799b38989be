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

BASE_S = 0.25
MOST_S = 30.0

_NOTHING = tenacity.RetryCallState(None, None, (), {})  # type: ignore[arg-type]
"""What tenacity's strategies ask for and a uniform draw does not look at."""


def backoff(previous: float) -> float:
    """Seconds before the next attempt: decorrelated jitter, from 0.25 to 30.

    Drawn evenly from 0.25 to three times ``previous``, the wait before (0 where there was none),
    so that calls which failed together do not come back together.
    """
    span = tenacity.wait_random(BASE_S, 3 * max(previous, BASE_S))
    return float(min(span(_NOTHING), MOST_S))
