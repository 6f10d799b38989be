"""A token bucket that is reserved before sending, settled after, and corrected by the server.

It paces requests as well as tokens. asyncio-throttle, with its one waiter, keeps a lane from its
quota: its log of the last seconds lets a burst through and then nothing for as long, while this
bucket refills all the time (``python -m tests.bench.pacing``: 87 % of the ideal against 94 %).
"""

from __future__ import annotations


class Bucket:
    """A quota per minute that refills continuously; times are seconds of one monotonic clock.

    The level may go below zero: a call larger than the whole bucket waits for a full one and
    then leaves a debt, and a call that cost more than its estimate is charged afterwards.
    """

    __slots__ = ("_at", "capacity", "level", "per_second")

    def __init__(self, per_minute: float, burst_s: float, now: float) -> None:
        """``burst_s``: how many seconds of quota an idle bucket may hold."""
        self.per_second = per_minute / 60
        self.capacity = self.per_second * burst_s
        self.level = self.capacity
        self._at = now

    def _refill(self, now: float) -> None:
        if now > self._at:
            self.level = min(self.capacity, self.level + (now - self._at) * self.per_second)
            self._at = now

    def wait(self, amount: float, now: float) -> float:
        """Seconds until ``amount`` may be reserved; 0 when it may be now."""
        self._refill(now)
        short = min(amount, self.capacity) - self.level
        # A shortage below a millionth is rounding: waiting for it would never end.
        return short / self.per_second if short > 1e-6 else 0.0

    def saved(self, now: float) -> float:
        """What an idle time has saved up; 0 when in debt."""
        self._refill(now)
        return max(0.0, self.level)

    def reserve(self, amount: float, now: float) -> None:
        """Take ``amount``; the caller has seen that ``wait`` is 0."""
        self._refill(now)
        self.level -= amount

    def settle(self, estimate: float, actual: float, now: float) -> None:
        """Give back what was reserved too much, or charge what was too little."""
        self._refill(now)
        self.level = min(self.capacity, self.level + estimate - actual)

    def correct(self, remaining: float | None, limit: float | None, now: float) -> None:
        """Believe the server where it is stricter in level, and always in its limit per minute."""
        self._refill(now)
        if limit is not None and limit > 0 and abs(limit / 60 - self.per_second) > 1e-9:
            burst_s = self.capacity / self.per_second
            self.per_second = limit / 60
            self.capacity = self.per_second * burst_s
            self.level = min(self.level, self.capacity)
        if remaining is not None:
            self.level = min(self.level, remaining)
