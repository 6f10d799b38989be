"""The course of one batch: uploaded, created, polled until it ends. Each id is noted at once.

Nothing is created before it is certain that an earlier attempt did not: after an answer that was
lost, and after a kill, the service's own list is asked for the intent's id first.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from leakgrid.batches.book import Book, Intent
from leakgrid.batches.service import Batch, Service, State, Trouble, aside
from leakgrid.outcomes import CacheError, LaneStopped, Outcome

FINAL = frozenset({Outcome.AUTH, Outcome.EXHAUSTED, Outcome.INVALID})
"""Troubles that no waiting mends."""

LOOKS = 2
"""How often the service's list is read before it is believed that a batch was not made."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds between looks at a batch, and how long to be patient with its service.

    ``settle_s``: how long a new batch may be missing from the service's list. ``queue_s``: first
    wait when too much is queued, growing to ``longest_queue_s``. ``cancel_s``: how long a
    cancellation may take. ``files_s``: how long a complete batch may lack its files.
    """

    first_s: float = 10.0
    growth: float = 1.5
    longest_s: float = 300.0
    settle_s: float = 15.0
    queue_s: float = 60.0
    longest_queue_s: float = 1800.0
    retry_s: float = 2.0
    tries: int = 8
    cancel_s: float = 1800.0
    files_s: float = 3600.0


class NeverRan(Exception):
    """The batch failed as a whole before any request was carried out; nothing was paid."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch.error)
        self.batch = batch


class Course:
    """Brings the intents of one lane to their end."""

    def __init__(
        self,
        name: str,
        *,
        service: Service,
        book: Book,
        pace: Pace,
        due: Callable[[], float],
        told: Callable[[str], None],
    ) -> None:
        """``due`` gives the seconds until the deadline (infinite without one); ``told`` tells."""
        self._name = name
        self._service = service
        self._book = book
        self._pace = pace
        self._due = due
        self._told = told

    async def end_of(self, intent: Intent) -> Batch:
        """The ended batch of an intent. Raises NeverRan, LaneStopped or CacheError.

        At the deadline it is cancelled first.
        """
        queue_s = self._pace.queue_s
        if not intent.batch and not intent.file:
            intent = await self._uploaded(intent)
        if intent.batch:
            batch = await self.call(self._service.status, intent.batch, tries=None)
            if batch.state is State.FAILED and not intent.fresh:
                # The run before may have been left between a new batch and the note of it.
                batch = await self._adopted(intent) or batch
        else:
            # An earlier run may have been killed between the batch and the note of it.
            try:
                batch = await self._created(intent, unsure=not intent.fresh)
            except LaneStopped as gone:
                if intent.fresh or gone.outcome is not Outcome.INVALID:
                    raise
                # The service knows neither a batch of this mark nor the file: ask anew.
                lost = Batch(
                    id="",
                    state=State.FAILED,
                    status="gone",
                    trouble=Outcome.TRANSIENT,
                    error=str(gone),
                )
                raise NeverRan(lost) from gone
        while True:
            batch = await self.ended(batch)
            if batch.state is State.ENDED:
                return batch
            if batch.trouble is not Outcome.QUOTA or self._due() <= 0:
                raise NeverRan(batch)
            self._told(
                f"lane {self._name}: too much is queued at the service ({batch.error}); trying "
                f"again in {queue_s:.0f} s"
            )
            await asyncio.sleep(max(0.0, min(queue_s, self._due())))
            queue_s = min(queue_s * 2, self._pace.longest_queue_s)
            if self._due() <= 0:
                raise NeverRan(batch)
            batch = await self._created(intent, unsure=False)

    async def ended(self, batch: Batch) -> Batch:
        """Poll until the batch runs no more; from the deadline on it is being cancelled."""
        wait, cancelled = self._pace.first_s, False
        give_up = float("inf")
        complete: float | None = None
        while batch.state is State.RUNNING:
            if self._due() <= 0 and not cancelled:
                cancelled, wait = True, self._pace.first_s
                give_up = time.monotonic() + self._pace.cancel_s
                self._told(f"lane {self._name}: the deadline is here; batch {batch.id} is stopped")
                with contextlib.suppress(Trouble):  # it may have ended in this moment
                    await aside(self._service.cancel, batch.id)
            elif time.monotonic() > give_up:
                if batch.whole:  # it only never got its files
                    return replace(batch, state=State.ENDED)
                raise LaneStopped(
                    self._name,
                    Outcome.TRANSIENT,
                    f"lane {self._name}: batch {batch.id} does not stop ({batch.status}), and "
                    "what it still does is paid; run the same command again later",
                )
            due = self._due()
            await asyncio.sleep(wait if cancelled else max(0.0, min(wait, due)))
            wait = min(wait * self._pace.growth, self._pace.longest_s)
            batch = await self.call(self._service.status, batch.id, tries=None)
            if batch.state is State.RUNNING and batch.whole:
                complete = complete or time.monotonic()
                if time.monotonic() - complete > self._pace.files_s:
                    # It never gets them, and its calls would wait for ever.
                    return replace(batch, state=State.ENDED)
        return batch

    async def fetched(self, batch: Batch, path: Path) -> None:
        """All result lines of an ended batch in one file."""
        await self.call(self._service.results, batch, path, tries=self._pace.tries)

    # --- the steps ----------------------------------------------------------------------------

    async def _uploaded(self, intent: Intent) -> Intent:
        name = f"leakgrid-{intent.id}.jsonl"
        path = self._book.folder / f"{intent.id}.upload"
        size = await aside(self._write_input, intent.id, path)

        def upload() -> None:
            file = None if intent.fresh else self._service.find_file(name, size)
            file = file or self._service.upload(path, name)
            self._book.note("uploaded", intent.id, file=file)

        await self.call(upload, tries=self._pace.tries)
        with contextlib.suppress(OSError):
            path.unlink()
        # A batch needs a file, so now it is certain that no earlier run made one.
        return Intent(
            id=intent.id,
            calls=intent.calls,
            usd=intent.usd,
            began=intent.began,
            file=self._book.live[intent.id].file,
        )

    def _write_input(self, intent: str, path: Path) -> int:
        try:
            with path.open("wb") as file:
                for asked, body in self._book.calls(intent):
                    file.write(self._service.line(asked.key, body))
            return os.path.getsize(path)
        except OSError as error:
            raise CacheError(f"{path}: write failed ({error.strerror})") from error

    async def _created(self, intent: Intent, *, unsure: bool) -> Batch:
        failures = 0

        def create() -> Batch:
            # In one piece, so that a run that is left here still notes the id.
            batch = self._service.create(intent.file, intent.id)
            self._book.note("created", intent.id, batch=batch.id)
            return batch

        while True:
            if unsure and (found := await self._adopted(intent)) is not None:
                return found
            try:
                return await aside(create)
            except Trouble as trouble:
                unsure, failures = trouble.unsure, failures + 1
                await self._wait_after(trouble, failures, self._pace.tries)

    async def _adopted(self, intent: Intent) -> Batch | None:
        """The batch that an earlier attempt made, if it did; a list may show it late."""
        for _ in range(LOOKS):
            await asyncio.sleep(self._pace.settle_s)
            found = await self.call(
                self._service.find, intent.id, intent.began, tries=self._pace.tries
            )
            if found is not None:
                await aside(partial(self._book.note, "created", intent.id, batch=found.id))
                return found
        return None

    async def call(self, function: Callable[..., T], *args: Any, tries: int | None) -> T:
        """A request that may be repeated; ``tries`` None repeats it for as long as it takes.

        Raises LaneStopped when it is no use any more.
        """
        failures = 0
        while True:
            try:
                return await aside(function, *args)
            except Trouble as trouble:
                failures += 1
                await self._wait_after(trouble, failures, tries)

    async def _wait_after(self, trouble: Trouble, failures: int, tries: int | None) -> None:
        if trouble.outcome in FINAL:
            raise LaneStopped(
                self._name,
                trouble.outcome,
                f"lane {self._name}: the batch service refuses ({trouble}); nothing that it has "
                "is lost: mend it and run the same command again",
            ) from trouble
        if tries is not None and failures >= tries:
            raise LaneStopped(
                self._name,
                trouble.outcome,
                f"lane {self._name}: the batch service failed {failures} times ({trouble}); run "
                "the same command again later, it goes on from here",
            ) from trouble
        wait = min(self._pace.retry_s * 2 ** min(failures - 1, 20), self._pace.longest_s)
        await asyncio.sleep(max(wait, trouble.wait_s or 0.0))
