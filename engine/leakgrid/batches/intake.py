"""Bringing in: from an ended batch to answers in the cache and a closed intent in the book."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from leakgrid.batches.book import Asked, Book, Intent
from leakgrid.batches.course import FINAL, Course, NeverRan, Pace
from leakgrid.batches.harvest import Harvest, Lost, Reaper
from leakgrid.batches.pending import short_of
from leakgrid.batches.service import Batch, Service, State, aside
from leakgrid.batches.tally import Tally
from leakgrid.lanes.admission import UNPROVEN
from leakgrid.lanes.estimate import Estimator
from leakgrid.lanes.values import Attempt
from leakgrid.outcomes import LaneStopped, Outcome
from leakgrid.providers.wire import Exchange, Reading

BARREN_BATCHES = 3
"""Batches in a row that may end without one answer before the lane stops."""
LOOKS = 3
"""How often a result file is fetched that misses lines or holds torn ones."""


class Intake:
    """The batches of one lane, one call of ``bring_in`` each; ``failed`` holds lost calls."""

    def __init__(
        self,
        name: str,
        *,
        service: Service,
        book: Book,
        course: Course,
        reaper: Reaper,
        estimator: Estimator,
        pace: Pace,
        told: Callable[[str], None],
    ) -> None:
        self.tally = Tally()
        self.failed: dict[int, Attempt] = {}
        self._name = name
        self._service = service
        self._book = book
        self._course = course
        self._reaper = reaper
        self._estimator = estimator
        self._pace = pace
        self._told = told
        self._barren = 0

    def asked(self, intent: str) -> dict[str, Asked]:
        """The calls of a manifest by key; blocking. Raises CacheError."""
        return {asked.key: asked for asked, _ in self._book.calls(intent)}

    async def bring_in(
        self, intent: Intent, release: Callable[[dict[str, Asked], float], None]
    ) -> None:
        """See an intent through to its end in the book.

        ``release(calls, usd)`` is called once it is closed. Raises LaneStopped or CacheError.
        """
        stop: tuple[Outcome, str] | None
        try:
            batch = await self._course.end_of(intent)
        except NeverRan as failed:
            asked, usd = await aside(self.asked, intent.id), 0.0
            stop = await self._never_ran(intent, failed.batch)
        else:
            asked = await aside(self.asked, intent.id)
            usd, stop = await self._harvested(intent, batch, asked)
        release(asked, usd)
        if stop is not None:
            raise LaneStopped(self._name, stop[0], f"lane {self._name}: {stop[1]}")

    async def _never_ran(self, intent: Intent, batch: Batch) -> tuple[Outcome, str] | None:
        await aside(lambda: self._book.closed(intent.id, "abandoned", why=batch.error))
        told = f"batch {batch.id} failed before it ran: {batch.error}"
        if batch.trouble in FINAL or self._is_barren():
            return batch.trouble, told
        self._told(f"lane {self._name}: {told}; its calls are planned again")
        return None

    def _is_barren(self) -> bool:
        self._barren += 1
        return self._barren >= BARREN_BATCHES

    async def _harvested(
        self, intent: Intent, batch: Batch, asked: dict[str, Asked]
    ) -> tuple[float, tuple[Outcome, str] | None]:
        """(dollars, what stops the lane) of an ended batch."""
        path = self._book.folder / f"{intent.id}.results"
        settled, usd = set[str](), 0.0
        for look in range(1, LOOKS + 1):
            await self._course.fetched(batch, path)
            harvest = await self._reaper.gather(path, asked, time.time() - intent.began)
            settled |= harvest.settled
            for size, role, into, out in harvest.learned:
                self._estimator.learn(size, role, into, out)
            usd += harvest.usd
            self.tally.add(harvest)
            missing = asked.keys() - settled - harvest.failed.keys()
            if look == LOOKS or not (harvest.torn or (batch.whole and batch.outputs and missing)):
                break
            # The service's word came before its files were whole, or a download was not.
            await asyncio.sleep(self._pace.first_s)
            again = await self._course.call(self._service.status, batch.id, tries=None)
            again = await self._course.ended(again)
            if again.state is not State.ENDED:
                break
            batch = again
        if batch.whole:
            told = f"batch {batch.id} ended ({batch.status}) without a line for this request"
            reading = Reading(outcome=Outcome.MALFORMED, error=told)
            nothing = Exchange(0, {}, b"", 0.0, told)
            harvest.failed.update((key, Lost(asked[key], reading, nothing)) for key in missing)
        stopping, rejected = harvest.stopping, harvest.rejected
        proven = bool(settled) or self.tally.kept > 0 or len(rejected) < UNPROVEN
        await self._give_up(harvest, settled, invalid=proven)
        usd += harvest.usd
        self.tally.add(harvest)
        await self._put_away(batch, harvest, path)
        await aside(
            lambda: self._book.closed(
                intent.id, "harvested", state=batch.status, answered=len(settled),
                failed=len(harvest.failed), usd=usd,
            )
        )  # fmt: skip
        if stopping is not None:
            return usd, (stopping.reading.outcome, stopping.reading.error)
        if not proven:
            why = rejected[0].reading.error
            told = f"all {len(rejected)} requests of a batch were invalid ({why})"
            return usd, (Outcome.INVALID, told)
        if settled:
            self._barren = 0
        elif self._is_barren():
            why = next((one.reading.error for one in harvest.failed.values()), batch.status)
            told = f"{self._barren} batches in a row gave no answer ({why})"
            return usd, (Outcome.TRANSIENT, f"{told}; run the same command again later")
        return usd, None

    async def _give_up(self, harvest: Harvest, settled: set[str], *, invalid: bool) -> None:
        """What becomes of failed lines: invalid requests are answers, others may go again."""
        for key in list(harvest.failed):
            lost = harvest.failed[key]
            short = short_of(key)
            earlier = self.failed.get(short)
            tries = 1 if earlier is None else earlier.number + 1
            attempt = await self._reaper.give_up(lost, tries, harvest, invalid=invalid)
            if key in harvest.settled:
                del harvest.failed[key]
                settled.add(key)
            else:
                cut = replace(lost.exchange, body=lost.exchange.body[:1000], headers={})
                self.failed[short] = replace(attempt, exchange=cut)

    async def _put_away(self, batch: Batch, harvest: Harvest, path: Path) -> None:
        told = [
            f"{count} {what}"
            for count, what in (
                (harvest.torn, "lines cannot be read (the file is kept in 'torn')"),
                (harvest.strange, "lines of requests that were not sent"),
                (harvest.repeated, "repeated lines"),
            )
            if count
        ]
        if told:
            self._told(f"lane {self._name}: batch {batch.id}: {', '.join(told)}")
        await aside(_remove, path, harvest.torn > 0)


def _remove(path: Path, keep: bool) -> None:
    """Remove a result file, or keep it where people can look at it."""
    with contextlib.suppress(OSError):
        if keep:
            folder = path.parent / "torn"
            folder.mkdir(exist_ok=True)
            os.replace(path, folder / path.name)
        else:
            path.unlink()
