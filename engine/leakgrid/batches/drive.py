"""Park and replay: cells run, calls collect, batches go and come, cells run again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from leakgrid.batches.harvest import Kept
from leakgrid.batches.lane import BatchLane
from leakgrid.batches.service import aside
from leakgrid.outcomes import LeakgridError

IDLE_WALKS = 3


class Batches:
    """The batch lanes of a run: ``begin``, then ``submit`` and ``wait`` after each walk of the
    cells that parked some, then ``rest``.
    """

    def __init__(self, lanes: Sequence[BatchLane]) -> None:
        self.lanes = tuple(lanes)
        self._news = asyncio.Event()
        self._group: asyncio.TaskGroup
        self._idle = 0

    async def begin(self, group: asyncio.TaskGroup, cache: Kept, run: str) -> None:
        """Open the books and go on with the batches of earlier runs, in tasks of ``group``.

        Raises InputError for a book that another run holds, CacheError for one that is damaged.
        """
        self._group = group
        for lane in self.lanes:
            await lane.open(cache, run, self._news)
        for lane in self.lanes:
            lane.resume(group)

    async def submit(self) -> None:
        """Send what the lanes collected."""
        for lane in self.lanes:
            await lane.submit(self._group)

    async def wait(self, parked: int) -> None:
        """Return when a lane has brought in all that it had out, or nothing is out at all.

        Raises LeakgridError when ``parked`` cells wait for nothing, walk after walk.
        """
        if any(lane.out for lane in self.lanes):
            self._idle = 0
            await self._news.wait()
            self._news.clear()
            return
        self._idle = 0 if self._news.is_set() else self._idle + 1
        self._news.clear()
        if self._idle >= IDLE_WALKS:
            raise LeakgridError(
                f"{parked} cells are parked, but no batch is out and none is to be sent; this is "
                "a fault in leakgrid: please report it with the job file"
            )

    async def rest(self, *, finished: bool) -> None:
        """Leave: batches that are out go on at their services, and a later run waits for them.

        ``finished`` says that no cell is parked any more, so that a later deadline counts anew.
        """
        for lane in self.lanes:
            lane.leave()
            if finished:
                await lane.finish()
            await aside(lane.close)
