"""Per-model token buckets for requests and tokens, with OpenAI's rate-limit headers.

Time is a monotonic clock in seconds that callers pass in; there is no clock in here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from leakgrid.providers.simulated.config import Quota


@dataclass(slots=True)
class Bucket:
    """A bucket that refills at ``per_minute``; ``level`` may go below 0 after a big call."""

    per_minute: float
    capacity: float
    level: float
    at: float

    def refill(self, now: float) -> None:
        """Bring the level up to this time."""
        gained = max(0.0, now - self.at) * self.per_minute / 60.0
        self.level = min(self.capacity, self.level + gained)
        self.at = now

    def wait_s(self, amount: float) -> float:
        """Seconds until the bucket would pay for this amount; 0 when it does now."""
        # More than a full bucket could never pass, so a full one lets it, and goes into debt.
        short = min(amount, self.capacity) - self.level
        return max(0.0, short * 60.0 / self.per_minute)

    def reset_s(self) -> float:
        """Seconds until the bucket is full."""
        return (self.capacity - self.level) * 60.0 / self.per_minute


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a call may not pass: which limit, its value per minute, and seconds to wait."""

    limit: str
    per_minute: float
    wait_s: float


class Gate:
    """One model's quota."""

    def __init__(self, quota: Quota, now: float) -> None:
        self.charge_rejected = quota.charge_rejected
        self.requests = _bucket(quota.rpm, quota.burst_s, now)
        self.tokens = _bucket(quota.tpm, quota.burst_s, now)

    def admit(self, tokens: int, now: float) -> Rejection | None:
        """Charge one call of so many tokens (input and output); None when it may pass."""
        worst: Rejection | None = None
        for name, bucket, amount in self._needs(tokens):
            bucket.refill(now)
            wait = bucket.wait_s(amount)
            if wait > (worst.wait_s if worst else 0.0):
                worst = Rejection(name, bucket.per_minute, wait)
        if worst is None:
            for _, bucket, amount in self._needs(tokens):
                bucket.level -= amount
        elif self.charge_rejected and self.requests is not None:
            self.requests.level = max(0.0, self.requests.level - 1.0)
        return worst

    def headers(self) -> dict[str, str]:
        """The x-ratelimit-* headers as of the last ``admit``."""
        headers: dict[str, str] = {}
        for name, bucket, _ in self._needs(0):
            headers[f"x-ratelimit-limit-{name}"] = str(int(bucket.per_minute))
            headers[f"x-ratelimit-remaining-{name}"] = str(max(0, math.floor(bucket.level)))
            headers[f"x-ratelimit-reset-{name}"] = duration(bucket.reset_s())
        return headers

    def _needs(self, tokens: int) -> list[tuple[str, Bucket, float]]:
        pairs = (("requests", self.requests, 1.0), ("tokens", self.tokens, float(tokens)))
        return [(name, bucket, amount) for name, bucket, amount in pairs if bucket is not None]


def _bucket(per_minute: float, burst_s: float, now: float) -> Bucket | None:
    if per_minute <= 0.0:
        return None
    capacity = max(1.0, per_minute * burst_s / 60.0)
    return Bucket(per_minute, capacity, capacity, now)


def duration(seconds: float) -> str:
    """Seconds as OpenAI writes them: "120ms", "6.2s", "1m2s", "2h0m1s"; rounded up to 1 ms."""
    millis = math.ceil(max(0.0, seconds) * 1000.0 - 1e-6)
    if millis < 1000:
        return f"{millis}ms"
    minutes, rest = divmod(millis, 60_000)
    text = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = (f"{hours}h" if hours else "") + f"{minutes}m{text}"
    return text


def retry_headers(wait_s: float) -> dict[str, str]:
    """retry-after (whole seconds, rounded up) and retry-after-ms."""
    return {
        "retry-after": str(max(1, math.ceil(wait_s))),
        "retry-after-ms": str(max(1, math.ceil(wait_s * 1000.0))),
    }
