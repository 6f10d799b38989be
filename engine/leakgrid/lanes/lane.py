"""One lane: calls to one model through one account, and what becomes of each outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from leakgrid.lanes.admission import UNPROVEN, Admission, Reserved
from leakgrid.lanes.estimate import START_TOKENS_PER_BYTE, Estimator
from leakgrid.lanes.limit import Latency, Limit
from leakgrid.lanes.retry import MOST_ATTEMPTS, backoff
from leakgrid.lanes.values import Attempt, LaneStatistics, Parcel, Quota, Spending
from leakgrid.outcomes import KEPT, STOPPING, LaneStopped, Outcome
from leakgrid.providers.wire import Exchange, Reading, quota_headers
from leakgrid.types import Price

START_CONCURRENCY = 32
MOST_CONCURRENCY = 1000
FOLLOW_EVERY = 16
LOST_IN_A_ROW = 25

_STOP = {
    Outcome.AUTH: "the server refuses the key: check that it is set, valid, and allowed this model",
    Outcome.EXHAUSTED: "no quota or credit is left on this account",
    Outcome.INVALID: (
        f"the first {UNPROVEN} requests were all rejected as invalid: check the model's name and "
        "parameters in the job; once the server is mended, leakgrid forget --where "
        "\"outcome = 'invalid'\" --yes asks them again"
    ),
}


class Lane:
    """Run ``dispatch`` in a task group for as long as calls are sent."""

    def __init__(
        self,
        name: str,
        *,
        quota: Quota,
        price: Price | None = None,
        spending: Spending | None = None,
        on_failed: Callable[[Lane, Parcel, Attempt], None] | None = None,
        memory: Mapping[str, Any] | None = None,
        patience: float = 1.0,
    ) -> None:
        """``memory`` is what ``remember`` gave in an earlier run; ``patience`` scales the waits

        that leakgrid chooses itself, never those that a server asks for.
        """
        self.name = name
        self._clock = asyncio.get_running_loop().time
        self._price = price
        self._on_failed = on_failed
        self._patience = patience
        learned = memory or {}
        self._estimator = Estimator(learned.get("tokens_per_byte", START_TOKENS_PER_BYTE))
        self._latency = Latency(learned.get("latency_s", 0.0))
        self._fixed = quota.concurrency is not None
        start = quota.concurrency or learned.get("limit", START_CONCURRENCY)
        self._limit = Limit(start, quota.concurrency or MOST_CONCURRENCY, self._clock())
        self._admission = Admission(
            name,
            quota,
            self._limit,
            self._estimator,
            price=price,
            spending=spending,
            proven=bool(learned),
        )
        self.dispatch = self._admission.dispatch
        self.stop = self._admission.stop
        self._answered = self._unpriced = 0
        self._unfit: dict[str, int] = {}
        self._lost_row = 0
        self._outcomes: dict[Outcome, int] = {}
        self._in_tokens = self._out_tokens = 0
        self._usd = 0.0
        self._follow_quota()

    # --- what a call goes through ------------------------------------------------------------

    async def send(self, parcel: Parcel) -> Attempt:
        """The last attempt at a call: a kept outcome, or a failure after all its attempts.

        Raises LaneStopped when the lane will not send it, Parked while it is closed.
        """
        tries: dict[Outcome, int] = {}
        number, first_in_line, wait = 0, False, 0.0
        while True:
            number += 1
            asked = time.perf_counter()
            reserved = await self._admission.enter(parcel, first_in_line)
            waited = time.perf_counter() - asked
            exchange = None
            try:
                exchange = await parcel.provider.exchange(parcel.body)
            finally:
                if exchange is None:  # cancelled: nobody knows what it cost, so charge it whole
                    self._admission.leave(reserved, reserved.tokens, reserved.usd)
                    self._admission.let_in()
            reading = parcel.provider.read(exchange)
            attempt = self._settle(parcel, number, exchange, reading, reserved, waited)
            outcome = reading.outcome
            if outcome in KEPT:
                self._admission.let_in()
                return attempt
            if self._on_failed is not None:
                self._on_failed(self, parcel, attempt)
            if outcome in STOPPING:
                self._stop_for(reading)
                assert self.stopped is not None
                raise self.stopped
            first_in_line = outcome is Outcome.QUOTA
            if first_in_line:
                self._admission.close_gate(reading.wait_s, self._patience)
                continue
            self._admission.let_in()
            tries[outcome] = tries.get(outcome, 0) + 1
            if tries[outcome] >= MOST_ATTEMPTS[outcome]:
                self._count_lost(reading)
                return attempt
            wait = backoff(wait)
            await asyncio.sleep(max(wait * self._patience, reading.wait_s or 0.0))

    def _settle(
        self,
        parcel: Parcel,
        number: int,
        exchange: Exchange,
        reading: Reading,
        reserved: Reserved,
        waited_s: float,
    ) -> Attempt:
        """Refund or charge, learn, and correct from what the server said."""
        outcome, usage = reading.outcome, reading.usage
        used = float(usage.input + usage.output)
        paid = 0.0 if self._price is None else self._price.usd(usage)
        if outcome not in KEPT and exchange.sent and exchange.status in (0, 200):
            # It may have been answered and charged without our seeing it: count it as if.
            used, paid = max(used, reserved.tokens), max(paid, reserved.usd)
        self._admission.leave(reserved, used, paid)
        said = quota_headers(exchange.headers)
        if said is not None:
            self._admission.correct(said)
        self._outcomes[outcome] = self._outcomes.get(outcome, 0) + 1
        if outcome is Outcome.INVALID:
            self._count_invalid(reading, parcel.role)
        elif outcome in KEPT:
            self._learn(parcel, exchange, reading)
        elif outcome is Outcome.OVERLOAD and not self._fixed:
            self._limit.overloaded(self._clock())
        self._in_tokens += usage.input
        self._out_tokens += usage.output
        if self._price is not None:
            self._usd += paid
            return Attempt(number, exchange, reading, paid, waited_s)
        if used:
            self._unpriced += 1
        return Attempt(number, exchange, reading, None, waited_s)

    def _learn(self, parcel: Parcel, exchange: Exchange, reading: Reading) -> None:
        self._answered += 1
        self._lost_row = 0
        self._admission.succeeded()
        usage = reading.usage
        self._estimator.learn(len(parcel.body), parcel.role, usage.input, usage.output)
        self._latency.add(exchange.latency_s)
        if self._fixed:
            return
        if not self._admission.quota_bound:
            self._limit.completed(self._latency.mean, self._clock())
        elif self._answered % FOLLOW_EVERY == 0 or self._answered < FOLLOW_EVERY:
            self._follow_quota()

    def _follow_quota(self) -> None:
        """Set the limit by Little's law, so that the quota binds and not the limit."""
        if not self._fixed and self._admission.quota_bound:
            self._limit.follow_rate(self._admission.rate(), self._latency.quantile(0.95))

    def _count_invalid(self, reading: Reading, role: str) -> None:
        self._admission.rejected += 1
        if "temperature" in reading.error.lower():
            # Judges send one that the user may never have written: what a model says against it
            # comes to every call of theirs, also where its other calls succeed.
            self._unfit[role] = self._unfit.get(role, 0) + 1
            if self._unfit[role] >= UNPROVEN:
                told = (
                    f"lane {self.name}: {UNPROVEN} calls ({role}) were rejected for their "
                    "temperature: write the one that the model takes, like temperature = 1, into "
                    "the judge's table or the model's params, and run the same command again "
                    f"({reading.error})"
                )
                self.stop(LaneStopped(self.name, Outcome.INVALID, told))
                return
        succeeded = any(self._outcomes.get(kept) for kept in KEPT - {Outcome.INVALID})
        if self._admission.rejected >= UNPROVEN and not succeeded:
            self._stop_for(reading)

    def _count_lost(self, reading: Reading) -> None:
        """A call failed in all its attempts; when nothing else happens, the server is down."""
        self._lost_row += 1
        if self._lost_row >= LOST_IN_A_ROW:
            told = (
                f"lane {self.name}: the last {LOST_IN_A_ROW} calls failed in all their attempts; "
                f"the server seems to be down ({reading.error}). Run the same command again "
                "when it is up"
            )
            self.stop(LaneStopped(self.name, reading.outcome, told))

    def steer(self, limit: float) -> None:
        """Set how many calls may be in flight, from what a server tells of its own load.

        A concurrency that the user fixed, and a quota, go before.
        """
        if not self._fixed and not self._admission.quota_bound:
            self._limit.steer(limit)
            self._admission.let_in()

    def _stop_for(self, reading: Reading) -> None:
        told = f"lane {self.name}: {_STOP[reading.outcome]} ({reading.error})"
        self.stop(LaneStopped(self.name, reading.outcome, told))

    # --- what it knows ------------------------------------------------------------------------

    @property
    def stopped(self) -> LaneStopped | None:
        """Why the lane stopped, or None."""
        return self._admission.stopped

    @property
    def closed(self) -> bool:
        """Whether its server is not loaded: then calls park their cells."""
        return self._admission.closed

    @closed.setter
    def closed(self, closed: bool) -> None:
        self._admission.closed = closed

    def statistics(self) -> LaneStatistics:
        """The lane at this moment."""
        admission = self._admission
        return LaneStatistics(
            name=self.name,
            sent=admission.sent,
            answered=self._answered,
            outcomes={outcome.value: count for outcome, count in self._outcomes.items()},
            in_flight=admission.in_flight,
            waiting=admission.waiting,
            limit=self._limit.allowed,
            gated_s=admission.gated_s,
            input_tokens=self._in_tokens,
            output_tokens=self._out_tokens,
            usd=self._usd,
            unpriced=self._unpriced,
            latency_mean_s=self._latency.mean,
            latency_p95_s=self._latency.quantile(0.95),
            tokens_per_byte=self._estimator.tokens_per_byte,
            allowed_per_s=admission.rate() if admission.quota_bound else None,
            stopped="" if self.stopped is None else str(self.stopped),
        )

    def remember(self) -> dict[str, float]:
        """What the next run should start from."""
        return {
            "limit": self._limit.allowed,
            "latency_s": self._latency.mean,
            "tokens_per_byte": self._estimator.tokens_per_byte,
        }
