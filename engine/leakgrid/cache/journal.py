"""Append-only journals: the only truth of a run, durable before anything counts as done.

One file per writer process, held by an advisory lock for as long as it is written. Rows are
committed in groups: one write and one fsync for all rows of 50 ms, or for 256 of them, in a
thread of the journal's own. A journal whose writer was killed is adopted by the next process:
its torn tail is cut at the last newline, and writing goes on behind the last good row.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from leakgrid.cache.framing import seal
from leakgrid.cache.journal_file import SUFFIX, JournalFile, lock, new_stem, sync_folder
from leakgrid.outcomes import CacheError

COMMIT_ROWS = 256
COMMIT_SECONDS = 0.05
RELEASED_ROWS = 32
BEHIND_BYTES = 1024 * 1024
ROTATE_BYTES = 64 * 1024 * 1024
ROOM_SHARE = 8

_Batch: TypeAlias = "list[tuple[bytes, asyncio.Future[tuple[JournalFile, int]] | None]]"

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


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
        self.file: JournalFile
        self.adopted: JournalFile | None = None
        self._on_sealed = on_sealed
        self._on_full = on_full
        self._rotate_bytes = rotate_bytes
        self._commit_rows = commit_rows
        self._commit_seconds = commit_seconds
        self._room_bytes = room_bytes
        self._pending: _Batch = []
        self._pending_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._commit: asyncio.Future[None] | None = None
        self._failed: CacheError | None = None
        self._descriptor = -1
        self._rows = self._bytes = self._commits = 0
        self._seconds = 0.0

    # --- life ---------------------------------------------------------------------------

    async def __aenter__(self) -> Journal:
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"journal-{self.folder.name}")
        self._sealer = ThreadPoolExecutor(1, thread_name_prefix=f"seal-{self.folder.name}")
        try:
            await self._loop.run_in_executor(self._thread, self._open)
        except BaseException:
            self._thread.shutdown(wait=False)
            self._sealer.shutdown(wait=False)
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            await self.flush()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            await self._loop.run_in_executor(self._thread, self._close)
            self._thread.shutdown(wait=True)
            await self._loop.run_in_executor(None, partial(self._sealer.shutdown, wait=True))

    def statistics(self) -> JournalStatistics:
        """Counts since opening."""
        cut = self.adopted.tail if self.adopted is not None else 0
        return JournalStatistics(self._rows, self._bytes, self._commits, self._seconds, cut)

    # --- the event loop's side -------------------------------------------------------------

    def append(self, payload: bytes) -> asyncio.Future[tuple[JournalFile, int]]:
        """Queue one row; the future gives its file and ordinal once it is on disk.

        The future raises CacheError if the disk refuses the row.
        """
        future: asyncio.Future[tuple[JournalFile, int]] = self._loop.create_future()
        if self._failed is not None:
            future.set_exception(self._failed)
            return future
        self._queue(payload, future)
        return future

    def append_soon(self, payload: bytes) -> None:
        """Queue one row that nobody waits for; ``flush`` still makes it durable."""
        if self._failed is None:
            self._queue(payload, None)

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

    def _queue(
        self, payload: bytes, future: asyncio.Future[tuple[JournalFile, int]] | None
    ) -> None:
        self._pending.append((payload, future))
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
        batch, self._pending, self._pending_bytes = self._pending, [], 0
        rows = [row for row, _ in batch]
        written = self._loop.run_in_executor(self._thread, self._write, rows)
        self._commit = self._loop.create_future()
        written.add_done_callback(partial(self._committed, batch))

    def _committed(
        self,
        batch: _Batch,
        written: asyncio.Future[tuple[JournalFile, int, bool]],
    ) -> None:
        try:
            file, first, full = written.result()
        except Exception as cause:
            error = (
                cause if isinstance(cause, CacheError) else CacheError(f"{self.folder}: {cause}")
            )
            self._failed = error
            batch += self._pending
            self._pending, self._pending_bytes = [], 0
            for _, future in batch:
                if future is not None and not future.done():
                    future.set_exception(error)
            if self._on_full is not None:
                self._on_full(error)
        else:
            self._release(batch, file, first, 0)
            if full and self._on_full is not None:
                self._on_full(self._no_room())
        commit, self._commit = self._commit, None
        if commit is not None:
            commit.set_result(None)
        if len(self._pending) >= self._commit_rows:
            self._start_commit()
        elif self._pending and self._timer is None:
            self._timer = self._loop.call_later(self._commit_seconds, self._start_commit)

    def _release(self, batch: _Batch, file: JournalFile, first: int, start: int) -> None:
        """Tell those who wait, some at a time: each then has work to do before it waits again,

        and all of it at once would keep the event loop for tens of milliseconds.
        """
        end = start + RELEASED_ROWS
        for place, (_, future) in enumerate(batch[start:end], start=start):
            if future is not None and not future.done():
                future.set_result((file, first + place))
        if end < len(batch):
            self._loop.call_soon(self._release, batch, file, first, end)

    # --- the thread's side -----------------------------------------------------------------

    def _open(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not self._adopt():
                self._create()
        except OSError as error:
            raise CacheError(
                f"{self.folder}: cannot write the cache here ({error.strerror}); "
                "choose another folder with --cache, or make room"
            ) from error

    def _adopt(self) -> bool:
        for path in sorted(self.folder.glob("*" + SUFFIX)):
            if path.with_suffix(".parquet").exists():
                continue
            descriptor = lock(path)
            if descriptor is None:
                continue
            path.with_suffix(".room").unlink(missing_ok=True)
            file = JournalFile(path)
            file.read()
            if file.size >= self._rotate_bytes:
                os.close(descriptor)
                continue
            if file.tail:
                os.ftruncate(descriptor, file.size)
                os.fsync(descriptor)
            self.file = self.adopted = file
            self._descriptor = descriptor
            self._keep_room()
            return True
        return False

    def _create(self) -> None:
        path = self.folder / (new_stem() + SUFFIX)
        descriptor = lock(path)
        if descriptor is None:
            raise CacheError(f"{path}: another process holds a journal of this very name")
        self._descriptor = descriptor
        self.file = JournalFile(path)
        self._keep_room()
        sync_folder(self.folder)

    def _write(self, rows: list[bytes]) -> tuple[JournalFile, int, bool]:
        """Write and fsync; returns file, first ordinal, and whether the disk is now full."""
        began = time.perf_counter()
        lines = [seal(row) for row in rows]
        data = b"".join(lines)
        full = False
        try:
            self._put(data)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise CacheError(f"{self.file.path}: write failed ({error.strerror})") from error
            full = True
            with contextlib.suppress(OSError):
                self._room.unlink()
            try:
                self._put(data)
            except OSError as again:
                raise self._no_room() from again
        file, first = self.file, len(self.file.offsets)
        for line in lines:
            file.offsets.append(file.size)
            file.size += len(line)
        self._rows += len(lines)
        self._bytes += len(data)
        self._commits += 1
        self._seconds += time.perf_counter() - began
        if file.size >= self._rotate_bytes and not full:
            # No room for a new file is no reason to fail: this one simply grows on.
            with contextlib.suppress(OSError):
                self._rotate()
        return file, first, full

    def _put(self, data: bytes) -> None:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._descriptor, view) :]
            os.fsync(self._descriptor)
        except OSError:
            # Cut what was half written, so that the next row starts on a line of its own.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self.file.size)
            raise

    def _rotate(self) -> None:
        sealed, descriptor, room_file = self.file, self._descriptor, self._room
        self._create()
        room_file.unlink(missing_ok=True)
        self._sealer.submit(self._seal, sealed, descriptor)

    def _seal(self, sealed: JournalFile, descriptor: int) -> None:
        try:
            if self._on_sealed is not None:
                self._on_sealed(sealed)
        finally:
            os.close(descriptor)

    def _close(self) -> None:
        if self._descriptor < 0:
            return
        with contextlib.suppress(OSError):
            self._room.unlink()
        if not self.file.offsets:
            with contextlib.suppress(OSError):
                self.file.path.unlink()
        os.close(self._descriptor)
        self._descriptor = -1

    @property
    def _room(self) -> Path:
        return self.file.path.with_suffix(".room")

    def _keep_room(self) -> None:
        """Hold back room on the disk, so that answers in flight fit when it fills up.

        On a nearly full disk it is less, so that the room itself never fills it.
        """
        disk = os.statvfs(self.folder)
        room = min(self._room_bytes, disk.f_bavail * disk.f_frsize // ROOM_SHARE)
        if room < 4096:
            return
        try:
            descriptor = os.open(self._room, os.O_WRONLY | os.O_CREAT, 0o644)
        except OSError:
            return
        try:
            os.posix_fallocate(descriptor, 0, room)
        except (OSError, AttributeError):
            with contextlib.suppress(OSError):
                self._room.unlink()
        finally:
            os.close(descriptor)

    def _no_room(self) -> CacheError:
        return CacheError(
            f"{self.folder}: the disk is full. Every answer that arrived before is kept; "
            "make room and run the same command again, it goes on where it stopped"
        )
