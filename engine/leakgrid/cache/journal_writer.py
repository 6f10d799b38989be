"""The writing thread's side of a journal: one file at a time, locked, fsynced, room held back."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from leakgrid.cache.framing import seal
from leakgrid.cache.journal_file import SUFFIX, JournalFile, lock, mend, new_stem, sync_folder
from leakgrid.outcomes import CacheError

ROOM_SHARE = 8

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


class JournalWriter:
    """Writes the rows of one stream in one folder. Every method belongs into one thread.

    ``file`` is the journal that is written now; ``adopted`` the one of a killed process that was
    taken over, None if there was none. ``rows``, ``bytes``, ``commits`` and ``seconds`` count
    what was written. ``on_sealed`` runs in a thread for each journal that is full.
    """

    def __init__(
        self,
        folder: Path,
        *,
        on_sealed: Callable[[JournalFile], None] | None,
        rotate_bytes: int,
        room_bytes: int,
    ) -> None:
        self.folder = folder
        self.file: JournalFile
        self.adopted: JournalFile | None = None
        self.rows = self.bytes = self.commits = 0
        self.seconds = 0.0
        self._on_sealed = on_sealed
        self._rotate_bytes = rotate_bytes
        self._room_bytes = room_bytes
        self._descriptor = -1
        self._sealer = ThreadPoolExecutor(1, thread_name_prefix=f"seal-{folder.name}")

    def open(self) -> None:
        """Adopt a journal that nobody writes, or begin one. Raises CacheError."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not self._adopt():
                self._create()
        except OSError as error:
            raise CacheError(
                f"{self.folder}: cannot write the cache here ({error.strerror}); "
                "choose another folder with --cache, or make room"
            ) from error

    def write(self, rows: list[bytes]) -> tuple[JournalFile, int, bool]:
        """Write and fsync; returns file, first ordinal, and whether the disk is now full.

        Raises CacheError when the rows are not on disk.
        """
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
                raise no_room(self.folder) from again
        file, first = self.file, len(self.file.offsets)
        for line in lines:
            file.offsets.append(file.size)
            file.size += len(line)
        self.rows += len(lines)
        self.bytes += len(data)
        self.commits += 1
        self.seconds += time.perf_counter() - began
        if file.size >= self._rotate_bytes and not full:
            # No room for a new file is no reason to fail: this one simply grows on.
            with contextlib.suppress(OSError):
                self._rotate()
        return file, first, full

    def close(self) -> None:
        """Give the file back; an empty one goes."""
        if self._descriptor < 0:
            return
        with contextlib.suppress(OSError):
            self._room.unlink()
        if not self.file.offsets:
            with contextlib.suppress(OSError):
                self.file.path.unlink()
        os.close(self._descriptor)
        self._descriptor = -1

    def finish_sealing(self, *, wait: bool = True) -> None:
        """Return when all full journals are sealed; without ``wait``, only begin no more."""
        self._sealer.shutdown(wait=wait)

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
            mend(descriptor, file)
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


def no_room(folder: Path) -> CacheError:
    """What a user is told when the disk is full."""
    return CacheError(
        f"{folder}: the disk is full. Every answer that arrived before is kept; "
        "make room and run the same command again, it goes on where it stopped"
    )
