"""One run: a plan's open cells through a fixed window of workers, durable at every step."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from leakgrid.cache.answers import AnswerCache
from leakgrid.cache.cells import STREAM as RECORDS
from leakgrid.cache.cells import DoneCells
from leakgrid.cache.journal import Journal
from leakgrid.cache.sealing import seal_apart
from leakgrid.jobs.asking import PLACE, AnyLane, AskCounts
from leakgrid.jobs.gpu import IdentityChanged
from leakgrid.jobs.history import History, only_run
from leakgrid.jobs.plan import Plan, Todo
from leakgrid.jobs.progress import Progress
from leakgrid.jobs.record_rows import RecordRows
from leakgrid.jobs.routes import Ways
from leakgrid.jobs.sending import new_run, open_asking, stop_lanes
from leakgrid.lanes.values import LaneStatistics
from leakgrid.outcomes import (
    EXIT_OK,
    EXIT_OPEN_CELLS,
    CacheError,
    LaneStopped,
    Parked,
)
from leakgrid.store.landing import Landing

GRACE_SECONDS = 30.0
RECORDS_ROOM_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """How a run ended: ``done`` and ``open`` count its cells, ``told`` is for the user."""

    exit_code: int
    planned: int
    todo: int
    done: int
    open: int
    counts: AskCounts
    lanes: tuple[LaneStatistics, ...]
    usd: float
    unpriced: int
    seconds: float
    told: tuple[str, ...]


class Run:
    """The state of one run. ``execute`` may be called once."""

    def __init__(
        self,
        plan: Plan,
        done: DoneCells,
        todo: dict[str, int],
        cache: Path,
        landing: Landing | None = None,
    ) -> None:
        """``todo`` counts the open cells by column id (see ``Plan.count_todo``).

        ``landing`` takes in what is kept while the run goes on, once it is long.
        """
        self.plan = plan
        self.cache = cache
        self.todo = sum(todo.values())
        self._todo = todo
        self.done = self.open = self.skipped = 0
        self._done_cells = done
        self._landing = landing
        self._columns = {column.id: column for column in plan.columns if column.id in todo}
        self._id = new_run()
        self._fatal: CacheError | None = None
        self._interrupts = 0
        self._work: asyncio.Task[None] | None = None
        self._ways: Ways | None = None
        self._told: list[str] = []
        self._begun = 0
        self._rows = RecordRows(self._id, plan.job.benchmark)
        self.parked: Counter[str] = Counter()
        self._ended = dict.fromkeys(self._columns, 0)

    # --- life ---------------------------------------------------------------------------------

    async def execute(self, progress: Progress) -> RunReport:
        """Run every open cell. Raises CacheError, ServerDown or JobError; the rest is reported."""
        began = time.monotonic()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupt, number)
        try:
            async with contextlib.AsyncExitStack() as stack:
                stack.enter_context(only_run(self.cache, self.plan.job.name))
                self._answers = await stack.enter_async_context(
                    AnswerCache(self.cache, on_full=self._disk_full)
                )
                self._records = await stack.enter_async_context(
                    Journal(
                        self.cache / "records",
                        on_sealed=partial(seal_apart, RECORDS),
                        on_full=self._disk_full,
                        room_bytes=RECORDS_ROOM_BYTES,
                    )
                )
                events = await stack.enter_async_context(Journal(self.cache / "runs"))
                self._history = History(events, self.plan, self.cache, self._id)
                self._told += self._answers.notices
                await self._history.start()
                report = await self._through_lanes(progress, began)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
        if self._fatal is not None:
            raise self._fatal
        return report

    async def _through_lanes(self, progress: Progress, began: float) -> RunReport:
        models = {name for column in self._columns.values() for name in column.models}
        asking = open_asking(self.plan, models, self.cache, self._answers, self._id)
        async with asking as (ways, asker):
            self._ways, self._asker = ways, asker
            progress.watch(self)
            async with asyncio.TaskGroup() as group:
                helpers = ways.tend(group)
                helpers.append(group.create_task(progress.show()))
                if self._landing is not None:
                    helpers.append(group.create_task(self._landing.follow(lambda: self._asked)))
                self._work = group.create_task(self._all_cells(group))
                if self._interrupts:
                    self._stop_lanes("interrupted")
                await asyncio.wait([self._work])
                await ways.rest(finished=not self.parked and not self._halted)
                for helper in helpers:
                    helper.cancel()
            report = self._report(began)
            await self._history.end(report)
            return report

    async def _all_cells(self, group: asyncio.TaskGroup) -> None:
        """Walk the open cells; where some are parked, see to what they wait for, and again."""
        assert self._ways is not None
        await self._ways.begin(group, self._answers, self._id)
        while not self._halted:
            before = self._progress()
            self.parked.clear()
            self.skipped = 0
            await self._walk()
            await self._records.flush()
            if not self.parked or self._halted:
                return
            try:
                await self._ways.advance(self.parked, stuck=self._progress() == before)
            except IdentityChanged:
                if not self._halted:  # whoever asked the run to stop wants no new plan
                    raise

    def _progress(self) -> int:
        """Grows with every walk that brings the run on: a cell may take many before it ends."""
        return self.done + self.open + self._asker.counts.sent

    async def _walk(self) -> None:
        # A window for each model: cells that wait for a gated lane must not take the places of
        # those whose lanes are open.
        assert self._ways is not None
        routes = self._ways.routes
        async with asyncio.TaskGroup() as group:
            for model in dict.fromkeys(column.point.model for column in self._columns.values()):
                mine = [c for c in self._columns.values() if c.point.model == model]
                cells = self.plan.todo(self._done_cells, mine)
                open_cells = sum(self._todo[column.id] for column in mine)
                lanes = {c.id: [routes[name].lane for name in c.models] for c in mine}
                for _ in range(min(self.plan.job.cells_at_once, open_cells)):
                    group.create_task(self._worker(cells, lanes))

    async def _worker(self, cells: Iterator[Todo], lanes: Mapping[str, list[AnyLane]]) -> None:
        """Run cells one after another; ``lanes`` are those that a column's cells need, by id."""
        assert self._ways is not None
        ask, parking = self._asker.ask, self._ways.parking
        for todo in cells:
            self._begun += 1
            PLACE.set(self._begun)
            if _stopped(lanes[todo.column.id]):
                self.skipped += 1
                continue
            try:
                record = await self.plan.benchmark.cell(ask, todo.item, todo.column.point)
            except LaneStopped:
                self.skipped += 1
                continue
            except Parked as waits:
                self.parked[waits.lane] += 1
                await asyncio.sleep(0)  # parking waits for nothing: let the others have a turn
                continue
            self._records.append_soon(self._rows.row(todo, record))
            self._ended[todo.column.id] += 1
            if self._records.behind:  # a replay makes records faster than any disk
                await self._records.caught_up()
            if parking:  # the next walk is for the others
                self._done_cells.note(todo.column.id, todo.item.digest)
            if record.settled:
                self.done += 1
            else:
                self.open += 1

    # --- what can happen on the way -----------------------------------------------------------

    def _disk_full(self, error: CacheError) -> None:
        self._fatal = self._fatal or error
        self._stop_lanes("the disk is full")

    def _interrupt(self, number: int) -> None:
        self._interrupts += 1
        if self._interrupts == 1:
            self._stop_lanes("interrupted")
            print(
                f"\n{signal.Signals(number).name}: finishing the calls in flight "
                f"(at most {GRACE_SECONDS:.0f} s); once more to leave at once",
                file=sys.stderr,
            )
            asyncio.get_running_loop().call_later(GRACE_SECONDS, self._cancel)
        else:
            self._cancel()

    @property
    def _halted(self) -> bool:
        return bool(self._interrupts) or self._fatal is not None

    def _cancel(self) -> None:
        if self._work is not None:
            self._work.cancel()

    def _stop_lanes(self, why: str) -> None:
        if self._ways is not None:
            stop_lanes(self._ways, why)

    # --- how it stands ------------------------------------------------------------------------

    @property
    def _asked(self) -> int:
        return self._asker.counts.sent + self._asker.counts.from_cache

    def lanes(self) -> tuple[LaneStatistics, ...]:
        """The lanes at this moment."""
        lanes = self._ways.lanes if self._ways is not None else ()
        return tuple(lane.statistics() for lane in lanes)

    def cells_by_model(self) -> dict[str, tuple[int, int]]:
        """For each model: cells that ask it and have a record by now, and all of them."""
        counts: dict[str, tuple[int, int]] = {}
        for column in self._columns.values():
            for model in column.models:
                ended, cells = counts.get(model, (0, 0))
                here = self._ended[column.id], self._todo[column.id]
                counts[model] = (ended + here[0], cells + here[1])
        return counts

    def _report(self, began: float) -> RunReport:
        lanes = self.lanes()
        assert self._ways is not None
        if self._ways.gpu is not None:
            loads = ", ".join(f"{name} {n}" for name, n in sorted(self._ways.gpu.loads.items()))
            self._told.append(f"vLLM servers started: {loads}")
        if self._ways.batches is not None:
            self._asker.counts.sent += sum(lane.batched for lane in self._ways.batches.lanes)
        stopped = [lane.stopped for lane in self._ways.lanes if lane.stopped is not None]
        if self._interrupts:
            code = 130
            self._told.append("interrupted: run the same command again to go on")
        elif self._fatal is not None:
            code = self._fatal.exit_code
        elif stopped:
            code = stopped[0].exit_code
            self._told += dict.fromkeys(str(error) for error in stopped)
        elif self.open:
            code = EXIT_OPEN_CELLS
            self._told.append(
                f"{self.open} cells had a call that failed; they are unknown in every table, and "
                "the same command asks them again"
            )
        else:
            code = EXIT_OK
        return RunReport(
            exit_code=code,
            planned=self.plan.cells,
            todo=self.todo,
            done=self.done,
            open=self.todo - self.done,
            counts=self._asker.counts,
            lanes=lanes,
            usd=sum(lane.usd for lane in lanes),
            unpriced=sum(lane.unpriced for lane in lanes),
            seconds=time.monotonic() - began,
            told=tuple(self._told),
        )


def _stopped(lanes: list[AnyLane]) -> bool:
    for lane in lanes:  # plainer than any(), which is a tenth of what a replayed cell costs
        if lane.stopped is not None:
            return True
    return False
