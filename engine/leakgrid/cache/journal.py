"""Append-only journals: the only truth of a run, durable before anything counts as done.

One file per writer process, held by an advisory lock for as long as it is written. Rows are
committed in groups: one write and one fsync for all rows of 50 ms, or for 256 of them, in a
thread of the journal's own. A journal whose writer was killed is adopted by the next process:
its torn tail is cut at the last newline, and writing goes on behind the last good row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from leakgrid.cache.journal_file import JournalFile
from leakgrid.cache.journal_writer import JournalWriter, no_room
from leakgrid.outcomes import CacheError

COMMIT_ROWS = 256
COMMIT_SECONDS = 0.05
RELEASED_ROWS = 32
BEHIND_BYTES = 1024 * 1024
ROTATE_BYTES = 64 * 1024 * 1024

_Written: TypeAlias = "asyncio.Future[tuple[JournalFile, int]]"
_Waiting: TypeAlias = "list[tuple[int, _Written]]"


@dataclass(frozen=True, slots=True)
class JournalStatistics:
    """What a journal has done since it was opened; seconds are spent in its own thread."""

    rows: int
    bytes: int
    commits: int
    write_seconds: float
    cut_bytes: int


class Journal:
    """The writer of one stream in one folder. Use as an async context manager."""

    def __init__(
        self,
        folder: Path,
        *,
        on_sealed: Callable[[JournalFile], None] | None = None,
        on_full: Callable[[CacheError], None] | None = None,
        rotate_bytes: int = ROTATE_BYTES,
        commit_rows: int = COMMIT_ROWS,
        commit_seconds: float = COMMIT_SECONDS,
        room_bytes: int = 0,
    ) -> None:
        """``on_sealed`` runs in a thread for each journal that is full (it makes the segment);

        ``on_full`` runs on the event loop when the disk filled up: the rows so far are safe,
        written into room kept for this, and no more should be asked for.
        """
        self.folder = folder
        self._writer = JournalWriter(
            folder, on_sealed=on_sealed, rotate_bytes=rotate_bytes, room_bytes=room_bytes
        )
        self._on_full = on_full
        self._commit_rows = commit_rows
        self._commit_seconds = commit_seconds
        self._pending: list[bytes] = []
        self._waiting: _Waiting = []  # who waits for which of the pending rows
        self._pending_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._commit: asyncio.Future[None] | None = None
        self._failed: CacheError | None = None

    # --- life ---------------------------------------------------------------------------

    async def __aenter__(self) -> Journal:
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"journal-{self.folder.name}")
        try:
            await self._loop.run_in_executor(self._thread, self._writer.open)
        except BaseException:
            self._thread.shutdown(wait=False)
            self._writer.finish_sealing(wait=False)
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            await self.flush()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            await self._loop.run_in_executor(self._thread, self._writer.close)
            self._thread.shutdown(wait=True)
            await self._loop.run_in_executor(None, self._writer.finish_sealing)

    def statistics(self) -> JournalStatistics:
        """Counts since opening."""
        own, adopted = self._writer, self._writer.adopted
        cut = adopted.tail if adopted is not None else 0
        return JournalStatistics(own.rows, own.bytes, own.commits, own.seconds, cut)

    @property
    def file(self) -> JournalFile:
        """The file that is written now."""
        return self._writer.file

    # --- the event loop's side -------------------------------------------------------------

    def append(self, payload: bytes) -> _Written:
        """Queue one row; the future gives its file and ordinal once it is on disk.

        The future raises CacheError if the disk refuses the row.
        """
        future: _Written = self._loop.create_future()
        if self._failed is not None:
            future.set_exception(self._failed)
            return future
        self._waiting.append((len(self._pending), future))
        self._queue(payload)
        return future

    def append_soon(self, payload: bytes) -> None:
        """Queue one row that nobody waits for; ``flush`` still makes it durable."""
        if self._failed is None:
            self._queue(payload)

    @property
    def behind(self) -> bool:
        """Whether rows come faster than the disk takes them: then wait for ``caught_up``."""
        return self._pending_bytes >= BEHIND_BYTES

    async def caught_up(self) -> None:
        """Return when the rows queued have gone to the writing thread, or cannot."""
        while self.behind and self._failed is None:
            if self._commit is None:
                self._start_commit()
            assert self._commit is not None
            await asyncio.wait([self._commit])

    def _queue(self, payload: bytes) -> None:
        self._pending.append(payload)
        self._pending_bytes += len(payload)
        if self._commit is None:
            if len(self._pending) >= self._commit_rows:
                self._start_commit()
            elif self._timer is None:
                self._timer = self._loop.call_later(self._commit_seconds, self._start_commit)

    async def flush(self) -> None:
        """Return when every row queued so far is on disk. Raises CacheError if one is not."""
        while self._pending or self._commit is not None:
            if self._commit is None:
                self._start_commit()
            assert self._commit is not None
            await asyncio.wait([self._commit])
        if self._failed is not None:
            raise self._failed

    def _start_commit(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._commit is not None or not self._pending:
            return
        rows, self._pending, self._pending_bytes = self._pending, [], 0
        waiting, self._waiting = self._waiting, []
        written = self._loop.run_in_executor(self._thread, self._writer.write, rows)
        self._commit = self._loop.create_future()
        written.add_done_callback(partial(self._committed, waiting))

    def _committed(
        self,
        waiting: _Waiting,
        written: asyncio.Future[tuple[JournalFile, int, bool]],
    ) -> None:
        try:
            file, first, full = written.result()
        except Exception as cause:
            error = (
                cause if isinstance(cause, CacheError) else CacheError(f"{self.folder}: {cause}")
            )
            self._failed = error
            waiting += self._waiting
            self._waiting, self._pending, self._pending_bytes = [], [], 0
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
            if self._on_full is not None:
                self._on_full(error)
        else:
            self._release(waiting, file, first, 0)
            if full and self._on_full is not None:
                self._on_full(no_room(self.folder))
        commit, self._commit = self._commit, None
        if commit is not None:
            commit.set_result(None)
        if len(self._pending) >= self._commit_rows:
            self._start_commit()
        elif self._pending and self._timer is None:
            self._timer = self._loop.call_later(self._commit_seconds, self._start_commit)

    def _release(self, waiting: _Waiting, file: JournalFile, first: int, start: int) -> None:
        """Tell those who wait, some at a time: each then has work to do before it waits again,

        and all of it at once would keep the event loop for tens of milliseconds.
        """
        end = start + RELEASED_ROWS
        for place, future in waiting[start:end]:
            if not future.done():
                future.set_result((file, first + place))
        if end < len(waiting):
            self._loop.call_soon(self._release, waiting, file, first, end)
