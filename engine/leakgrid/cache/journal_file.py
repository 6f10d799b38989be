"""One journal file: its good rows in order, its lock, and what is damaged in it."""

from __future__ import annotations

import fcntl
import os
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from leakgrid.cache.framing import unseal
from leakgrid.outcomes import CacheError

SUFFIX = ".jsonl"
NEWLINE = ord("\n")


class Place(NamedTuple):
    """How far a journal was read: good rows, bytes and lines before here."""

    ordinal: int = 0
    offset: int = 0
    line: int = 0


START = Place()


@dataclass(frozen=True, slots=True)
class Damage:
    """A line that failed its checksum: where it stands and what is left of it."""

    path: Path
    line: int
    offset: int
    data: bytes


class JournalFile:
    """The good rows of one journal file: their offsets in order, and what is damaged.

    Reading never changes the file, so a journal that another process is writing may be read;
    what stands behind the last newline is not a row yet. ``place`` is where reading ended.
    """

    __slots__ = ("damage", "offsets", "path", "place", "size", "tail")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offsets = array("Q")
        self.damage: list[Damage] = []
        self.place = START
        self.size = 0
        self.tail = 0

    def read(self, take: Callable[[int, bytes], None] | None = None) -> None:
        """Walk the file once; ``take(ordinal, payload)`` gets each good row.

        Raises FileNotFoundError when it is gone, CacheError when it cannot be read.
        """
        for ordinal, payload in self.payloads():
            if take is not None:
                take(ordinal, payload)

    def payloads(self, start: Place = START) -> Iterator[tuple[int, bytes]]:
        """Every good row from ``start`` on as (ordinal, payload).

        The file is known when the last one was taken from its beginning. Raises
        FileNotFoundError when it is gone, CacheError when it cannot be read.
        """
        try:
            with open(self.path, "rb") as file:
                file.seek(start.offset)
                yield from self._walk(file, start)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise CacheError(f"{self.path}: cannot be read ({error.strerror})") from error

    def _walk(self, lines: Iterable[bytes], begin: Place) -> Iterator[tuple[int, bytes]]:
        ordinal, position, before = begin
        note = self.offsets.append
        number = before
        for number, line in enumerate(lines, start=before + 1):
            if line[-1] != NEWLINE:
                self.tail = len(line)
                number -= 1
                break
            start = position
            position += len(line)
            payload = unseal(line)
            if payload is None:
                self.damage.append(Damage(self.path, number, start, line))
                # A lost newline glues the next row to a damaged one: look for its beginning.
                inner = line.find(b'{"c":"', 1)
                payload = unseal(line[inner:]) if inner > 0 else None
                if payload is None:
                    continue
                start += inner
            note(start)
            yield ordinal, payload
            ordinal += 1
        self.size = position
        self.place = Place(ordinal, position, number)


def lock(path: Path) -> int | None:
    """Open ``path`` for appending under an exclusive lock; None if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    if os.fstat(descriptor).st_nlink == 0:  # rotated away between our open and our lock
        os.close(descriptor)
        return None
    return descriptor


def sync_folder(folder: Path) -> None:
    """Make a rename or a new file in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def new_stem() -> str:
    """A name for a new journal: sorts by time, unique among processes of any machine."""
    return f"{time.time_ns() // 1_000_000:013d}-{os.getpid():x}-{os.urandom(3).hex()}"
