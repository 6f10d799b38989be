"""Who may go next: the queue of a lane, its buckets, its gate, and its dispatcher.

A call waits for room in its own coroutine; one dispatcher per lane lets waiting calls in, in
order, and sleeps until the exact moment the next one fits. Nothing polls. While nobody waits
and there is room, a call passes straight through.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import math
from dataclasses import dataclass

from leakgrid.lanes.bucket import Bucket
from leakgrid.lanes.estimate import Estimator
from leakgrid.lanes.limit import Limit
from leakgrid.lanes.values import Parcel, Quota, Spending
from leakgrid.outcomes import LaneStopped, Outcome, Parked
from leakgrid.providers.wire import QuotaHeaders
from leakgrid.types import Price
from leakgrid.value import value

UNPROVEN = 5
DEFAULT_GATE_S = 1.0
LONGEST_GATE_S = 60.0
ASSUMED_TOKENS = 300.0


@value(frozen=True, slots=True)
class Reserved:
    """What was set aside for one call that may go."""

    tokens: float
    usd: float


@dataclass(slots=True, eq=False)
class _Ticket:
    parcel: Parcel
    admitted: asyncio.Future[Reserved]


class Admission:
    """Room in one lane: reserved before a call goes, settled when it is back."""

    def __init__(
        self,
        name: str,
        quota: Quota,
        limit: Limit,
        estimator: Estimator,
        *,
        price: Price | None,
        spending: Spending | None,
        proven: bool,
    ) -> None:
        self.limit = limit
        self.in_flight = 0
        self.sent = 0
        self.gated_s = 0.0
        self.stopped: LaneStopped | None = None
        self.closed = False
        # Until a call succeeded, so few are in flight that a mistyped model costs just those.
        self.proven = proven
        self.rejected = 0
        self._name = name
        self._estimator = estimator
        self._price = price
        self._spending = spending
        self._clock = asyncio.get_running_loop().time
        now = self._clock()
        self._burst_s = quota.burst_s
        self._requests = Bucket(quota.rpm, quota.burst_s, now) if quota.rpm else None
        self._tokens = Bucket(quota.tpm, quota.burst_s, now) if quota.tpm else None
        # A heap of (place, number of arrival, ticket): cells that are under way go before those
        # that begin, or each would come back to a prompt's beginning that the server's prefix
        # cache has given up since.
        self._waiting: list[tuple[int, int, _Ticket]] = []
        self._arrivals = 0
        self._wake = asyncio.Event()
        self._gate_until = 0.0
        self._gate_s = DEFAULT_GATE_S
        if spending is not None:
            spending.watch(self._wake.set)

    @property
    def waiting(self) -> int:
        """Calls in the queue."""
        return len(self._waiting)

    # --- in and out ---------------------------------------------------------------------------

    async def enter(self, parcel: Parcel, first_in_line: bool) -> Reserved:
        """Return when the call may go. Raises LaneStopped when it never may, Parked if closed."""
        if self.stopped is not None:
            raise self.stopped
        if self.closed:
            raise Parked(self._name)
        if not self._waiting:
            reserved = self._reserve(parcel)
            if isinstance(reserved, Reserved):
                return reserved
            if self.stopped is not None:  # the budget has nothing left for it
                raise self.stopped
        ticket = _Ticket(parcel, asyncio.get_running_loop().create_future())
        self._arrivals += 1
        place = -1 if first_in_line else parcel.place
        entry = (place, self._arrivals, ticket)
        heapq.heappush(self._waiting, entry)
        self._wake.set()
        try:
            return await ticket.admitted
        except asyncio.CancelledError:
            if ticket.admitted.cancelled():
                if entry in self._waiting:
                    self._waiting.remove(entry)
                    heapq.heapify(self._waiting)
            elif ticket.admitted.exception() is None:
                self.leave(ticket.admitted.result(), 0.0, 0.0)
                self.let_in()
            raise

    def leave(self, reserved: Reserved, tokens: float, usd: float) -> None:
        """Settle a call that is back, or that will never come back: what it really took.

        ``let_in`` must follow once it is clear what its outcome means for the others.
        """
        self.in_flight -= 1
        if self._tokens is not None:
            self._tokens.settle(reserved.tokens, tokens, self._clock())
        if self._spending is not None:
            self._spending.settle(reserved.usd, usd)

    def let_in(self) -> None:
        """Admit from the head of the queue what fits now; waiting is the dispatcher's."""
        if not self._waiting:
            return
        while self._waiting:
            reserved = self._reserve(self._waiting[0][-1].parcel)
            if isinstance(reserved, float):
                if reserved == math.inf:
                    return
                break
            _, _, ticket = heapq.heappop(self._waiting)
            self._hand_over(ticket, reserved)
        self._wake.set()

    def _hand_over(self, ticket: _Ticket, reserved: Reserved) -> None:
        if ticket.admitted.done():  # cancelled a moment ago
            self.leave(reserved, 0.0, 0.0)
        else:
            ticket.admitted.set_result(reserved)

    def _reserve(self, parcel: Parcel) -> Reserved | float:
        """A reservation for the call, or the seconds until it may be tried again.

        Infinite seconds: only the return of another call can help. What a call will take is
        estimated here and not when it joined the queue, so that all that was learned counts.
        """
        now = self._clock()
        if self.in_flight >= self._allowed(now):
            self.limit.saturated()
            return math.inf
        if not self.proven and self.in_flight + self.rejected >= UNPROVEN:
            return math.inf
        tokens = usd = 0.0
        if self._tokens is not None or self._price is not None:
            into = self._estimator.input(len(parcel.body))
            out = self._estimator.output(parcel.role, parcel.most_output)
            tokens = into + out
            if self._price is not None:
                usd = self._price.expected(into, out)
        wait = self._gate_until - now
        if self._requests is not None:
            wait = max(wait, self._requests.wait(1, now))
        if self._tokens is not None:
            wait = max(wait, self._tokens.wait(tokens, now))
        if wait > 0:
            return wait
        if self._spending is not None and not self._spending.reserve(usd):
            if not self._spending.pending:
                told = f"lane {self._name}: {self._spending.told}"
                self.stop(LaneStopped(self._name, Outcome.EXHAUSTED, told))
            return math.inf
        if self._requests is not None:
            self._requests.reserve(1, now)
        if self._tokens is not None:
            self._tokens.reserve(tokens, now)
        self.in_flight += 1
        self.sent += 1
        return Reserved(tokens, usd)

    def _allowed(self, now: float) -> int:
        """Calls that may be in flight: the limit, and what the quota has saved up beside it.

        Little's law keeps a lane at its rate; a burst that an idle quota allows comes on top.
        """
        allowed = self.limit.allowed
        if self._requests is None and self._tokens is None:
            return allowed
        saved = math.inf
        if self._requests is not None:
            saved = self._requests.saved(now)
        if self._tokens is not None:
            a_call = self._estimator.mean_total or ASSUMED_TOKENS
            saved = min(saved, self._tokens.saved(now) / a_call)
        return min(self.limit.most, allowed + int(saved))

    def stop(self, error: LaneStopped) -> None:
        """Let nobody in any more: waiting calls fail with ``error``, those in flight may finish."""
        if self.stopped is None:
            self.stopped = error
        while self._waiting:
            _, _, ticket = self._waiting.pop()
            if not ticket.admitted.done():
                ticket.admitted.set_exception(self.stopped)

    # --- the dispatcher -----------------------------------------------------------------------

    async def dispatch(self) -> None:
        """Let waiting calls in, in order, for as long as the lane lives."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting and await self._admit_first():
                pass

    async def _admit_first(self) -> bool:
        """Admit the head of the queue; False when it must wait for another call's return."""
        reserved = self._reserve(self._waiting[0][-1].parcel)
        if isinstance(reserved, float):
            if self.stopped is not None or reserved == math.inf:
                return False
            # Sleep until the exact time, or until something happened that may make it sooner.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(reserved):
                    await self._wake.wait()
            self._wake.clear()
            return True
        _, _, ticket = heapq.heappop(self._waiting)
        self._hand_over(ticket, reserved)
        return True

    # --- quotas and gates ---------------------------------------------------------------------

    @property
    def quota_bound(self) -> bool:
        """Whether a quota is known, by the user or from headers."""
        return self._requests is not None or self._tokens is not None

    def rate(self) -> float:
        """Calls per second that the quotas allow at the mean size of a call."""
        rates = []
        if self._requests is not None:
            rates.append(self._requests.per_second)
        if self._tokens is not None:
            rates.append(self._tokens.per_second / (self._estimator.mean_total or ASSUMED_TOKENS))
        return min(rates)

    def correct(self, said: QuotaHeaders) -> None:
        """Take over what the server says of its quotas."""
        now = self._clock()
        if said.limit_requests:
            if self._requests is None:
                self._requests = Bucket(said.limit_requests, self._burst_s, now)
            self._requests.correct(said.remaining_requests, said.limit_requests, now)
        if said.limit_tokens:
            if self._tokens is None:
                self._tokens = Bucket(said.limit_tokens, self._burst_s, now)
            self._tokens.correct(said.remaining_tokens, said.limit_tokens, now)

    def close_gate(self, wait_s: float | None, patience: float) -> None:
        """No call goes before the server's time; where it names none, wait longer each time."""
        if wait_s is None:
            wait_s = self._gate_s * patience
            self._gate_s = min(LONGEST_GATE_S, self._gate_s * 2)
        now = self._clock()
        until = now + wait_s
        if until > self._gate_until:
            self.gated_s += until - max(now, self._gate_until)
            self._gate_until = until

    def succeeded(self) -> None:
        """A call was answered: the lane works, and guessed waits start small again."""
        self.proven = True
        self.rejected = 0
        self._gate_s = DEFAULT_GATE_S
