"""The batch lane: takes calls as every lane does, but answers none at once.

``send`` notes the call and raises Parked. ``drive`` walks the cells, has the lanes submit what
they collected, waits, and walks again: by then the answers are in the cache.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from leakgrid.batches.book import Asked, Book, Intent, line_of
from leakgrid.batches.course import Course, Pace
from leakgrid.batches.harvest import TIER, Kept, Reaper
from leakgrid.batches.intake import Intake
from leakgrid.batches.pending import Pending, drafts, short_of
from leakgrid.batches.purse import Purse
from leakgrid.batches.service import Service, aside
from leakgrid.batches.tally import Tally, together
from leakgrid.lanes import rows
from leakgrid.lanes.estimate import Estimator
from leakgrid.lanes.lane import Lane
from leakgrid.lanes.values import Attempt, LaneStatistics, Parcel, Spending
from leakgrid.outcomes import LaneStopped, Outcome, Parked
from leakgrid.providers.wire import Provider
from leakgrid.types import Price

MOST_BATCHES = 3
"""Batches in which one call may fail before its cell gets the failure."""
USUAL_PACE = Pace()


def half(price: Price | None) -> Price | None:
    """The batch rate of an online price: half. No discount for cached input comes on top."""
    return None if price is None else Price(price.input / 2, price.output / 2)


class BatchLane:
    """Calls to one model through one account's batch service; ``drive`` opens and closes it.

    ``dispatch`` runs beside it where there is an online lane.
    """

    def __init__(
        self,
        name: str,
        *,
        folder: Path,
        job: str,
        service: Service,
        provider: Provider,
        price: Price | None = None,
        online: Lane | None = None,
        spending: Spending | None = None,
        hours: float | None = None,
        until: float | None = None,
        pace: Pace = USUAL_PACE,
        told: Callable[[str], None] = print,
    ) -> None:
        """``price`` is the batch rate. The deadline is ``until`` (seconds since 1970), or
        ``hours`` after the first batch of the work; what is not done then goes to ``online``.

        Raises ValueError for a deadline without an online lane.
        """
        if online is None and (hours is not None or until is not None):
            raise ValueError("a deadline needs an online lane to move to")
        self.name = name
        self._folder = folder
        self._job = job
        self._service = service
        self._provider = provider
        self._price = price
        self._online = online
        self._hours, self._until = hours, until
        self._pace = pace
        self._told = told
        self._estimator = Estimator()
        self._purse = Purse(price, self._estimator, spending)
        self._stopped: LaneStopped | None = None
        self._book: Book | None = None
        self._pending = Pending(folder)
        self._following: dict[str, asyncio.Task[None]] = {}
        self._calls_out = self._sent = 0
        self._out: set[int] = set()

    # --- as every lane ------------------------------------------------------------------------

    async def send(self, parcel: Parcel) -> Attempt:
        """The failure of a call that failed in batch after batch, or the online lane's attempt.

        Raises Parked where the call must wait for a batch, LaneStopped where none will come.
        """
        if self._stopped is not None:
            raise self._stopped
        short = short_of(parcel.key)
        if short in self._out:
            raise Parked(self.name)
        if self.late:
            assert self._online is not None
            return await self._online.send(parcel)
        failed = self._intake.failed.get(short)
        if failed is not None and failed.number >= MOST_BATCHES:
            return failed
        if short not in self._pending.known:
            if parcel.provider.family != self._provider.family:
                raise ValueError(f"lane {self.name} batches {self._provider.family} bodies only")
            wire = getattr(parcel.provider, "wire_body", None)
            body = parcel.body if wire is None else wire(parcel.body)
            line = line_of(
                parcel.key, parcel.role, parcel.sample, parcel.most_output, self._job, body
            )
            await self._pending.add(short, line)
        raise Parked(self.name)

    async def dispatch(self) -> None:
        """Serve the online lane for as long as the run lives."""
        if self._online is not None:
            await self._online.dispatch()
        else:
            await asyncio.Event().wait()

    def stop(self, error: LaneStopped) -> None:
        """Leave: batches go on at the service, and the next run waits for them."""
        if self._stopped is None:
            self._stopped = error
        self.leave()
        if self._online is not None:
            self._online.stop(error)

    @property
    def stopped(self) -> LaneStopped | None:
        """Why the lane stopped, or None."""
        if self._stopped is None and self._online is not None:
            return self._online.stopped
        return self._stopped

    def remember(self) -> dict[str, float]:
        """What the next run's online lane should start from."""
        return {} if self._online is None else self._online.remember()

    def statistics(self) -> LaneStatistics:
        """The lane at this moment, batches and online calls together."""
        tally = Tally() if self._book is None else self._intake.tally
        mine = tally.statistics(
            self.name,
            sent=self._sent,
            in_flight=self._calls_out,
            waiting=len(self._pending),
            tokens_per_byte=self._estimator.tokens_per_byte,
            stopped="" if self.stopped is None else str(self.stopped),
        )
        return mine if self._online is None else together(mine, self._online.statistics())

    # --- as a batch lane ----------------------------------------------------------------------

    async def open(self, cache: Kept, run: str, news: asyncio.Event) -> None:
        """Open the book and find what earlier runs left. Raises InputError or CacheError.

        ``news`` is set whenever the last batch that was out is in.
        """
        self._news = news
        self._about = rows.of_provider(
            self._provider, run=run, job=self._job, lane=self.name, tier=TIER
        )
        self._book = await aside(Book, self._folder)
        course = Course(
            self.name,
            service=self._service,
            book=self._book,
            pace=self._pace,
            due=self._due,
            told=self._told,
        )
        reaper = Reaper(
            lane=self.name,
            service=self._service,
            provider=self._provider,
            price=self._price,
            cache=cache,
            run=run,
        )
        self._intake = Intake(
            self.name,
            service=self._service,
            book=self._book,
            course=course,
            reaper=reaper,
            estimator=self._estimator,
            pace=self._pace,
            told=self._told,
        )
        for name in list(self._book.live):
            self._out.update(map(short_of, await aside(self._intake.asked, name)))

    def resume(self, group: asyncio.TaskGroup) -> None:
        """Go on with the batches of earlier runs."""
        assert self._book is not None
        for intent in list(self._book.live.values()):
            self._purse.owe(intent)
            self._follow(group, intent)
        if self._following:
            self._told(
                f"lane {self.name}: waiting for {len(self._following)} batches of an earlier run "
                f"with {self._calls_out:,} calls"
            )

    async def submit(self, group: asyncio.TaskGroup) -> None:
        """Send what was collected, in as many batches as the service's limits need."""
        if self._stopped is not None or self.late:
            await self._pending.drop()
            return
        taken = await self._pending.take()
        if taken is None:
            return
        assert self._book is not None
        cutter = drafts(taken, self._service, self._purse.estimate)
        while (draft := await aside(next, cutter, None)) is not None:
            if self._stopped is not None:
                break  # whoever stopped the lane wants no new batch
            fits = self._purse.afford(draft)
            if not fits:
                if told := self._purse.empty:
                    why = f"lane {self.name}: {told}"
                    self.stop(LaneStopped(self.name, Outcome.EXHAUSTED, why))
                continue
            if fits < draft.calls:
                await aside(draft.cut, fits)
            intend = partial(self._book.intend, **self._about)
            intent = await aside(intend, draft.path, fits, draft.usd[-1])
            self._purse.hold(intent, draft.usd[-1])
            self._out.update(draft.shorts)
            self._sent += fits
            self._follow(group, intent)
            self._told(f"lane {self.name}: a batch of {fits:,} calls is sent")

    @property
    def batched(self) -> int:
        """Calls sent in batches during this run."""
        return self._sent

    @property
    def out(self) -> bool:
        """Whether batches are out that this run waits for."""
        return bool(self._following)

    @property
    def late(self) -> bool:
        """Whether the deadline is past: calls go online."""
        return self._due() <= 0

    def _due(self) -> float:
        if self._until is not None:
            return self._until - time.time()
        began = None if self._book is None else self._book.began
        if self._hours is None or began is None:
            return math.inf
        return began + self._hours * 3600 - time.time()

    def leave(self) -> None:
        """Wait for no batch any more; those that are out stay in the book."""
        for task in self._following.values():
            task.cancel()

    async def finish(self) -> None:
        """Note that the work is done, where it is: a later deadline counts anew."""
        book = self._book
        if book is not None and not book.live and book.began and self._stopped is None:
            await aside(book.note, "finished")

    def close(self) -> None:
        """Let go of the book and of the service; blocking."""
        if self._book is not None:
            self._book.close()
        self._service.close()

    # --- following ----------------------------------------------------------------------------

    def _follow(self, group: asyncio.TaskGroup, intent: Intent) -> None:
        self._calls_out += intent.calls
        self._following[intent.id] = group.create_task(self._through(intent))

    async def _through(self, intent: Intent) -> None:
        def release(asked: dict[str, Asked], usd: float) -> None:
            self._out.difference_update(map(short_of, asked))
            self._purse.settle(intent, usd)

        stop: LaneStopped | None = None
        try:
            await self._intake.bring_in(intent, release)
        except LaneStopped as error:
            stop = error
        finally:
            self._calls_out -= intent.calls
            del self._following[intent.id]
            self._purse.settle(intent, None)
            if stop is not None:
                self.stop(stop)
            if not self._following:
                self._news.set()
