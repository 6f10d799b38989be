"""One journal file: its good rows in order, its lock, and what is damaged in it.

A row's ordinal is its place among all rows that were written, damaged ones too: a row that is
damaged later must not move those behind it. (Where a disk lost many bytes at a stretch, rows of
which neither the beginning nor the newline before it is left cannot be counted.)
"""

from __future__ import annotations

import fcntl
import os
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from leakgrid.cache.framing import beginnings, split_row, unseal
from leakgrid.outcomes import CacheError

SUFFIX = ".jsonl"
NEWLINE = ord("\n")


class Place(NamedTuple):
    """How far a journal was read: rows, damaged ones too, bytes and lines before here."""

    ordinal: int = 0
    offset: int = 0
    line: int = 0


START = Place()


@dataclass(frozen=True, slots=True)
class Damage:
    """A line that failed its checksum: where it stands and what is left of it.

    ``ordinals`` are those of the rows that are lost with it; none in the second half of a row
    that a false newline cut in two.
    """

    path: Path
    line: int
    offset: int
    data: bytes
    ordinals: range


class JournalFile:
    """The rows of one journal file: the offsets of all in order, and what is damaged.

    Reading never changes the file, so a journal that another process is writing may be read;
    what stands behind the last newline is not a row yet. ``place`` is where reading ended.
    """

    __slots__ = ("damage", "newline_lost", "offsets", "path", "place", "size", "tail")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offsets = array("Q")
        self.damage: list[Damage] = []
        self.place = START
        self.size = 0
        self.tail = 0
        self.newline_lost = False

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
                payload = unseal(line[:-1])
                if payload is None:
                    self.tail = len(line)
                    number -= 1
                else:  # no torn write: another byte stands where the newline was
                    self.newline_lost = True
                    note(position)
                    yield ordinal, payload
                    ordinal += 1
                    position += len(line)
                break
            start = position
            position += len(line)
            payload = unseal(line)
            if payload is None:
                lost, inner, payload = self._lose(number, start, line, ordinal)
                ordinal += lost
                if payload is None:
                    continue
                start += inner
            note(start)
            yield ordinal, payload
            ordinal += 1
        self.size = position
        self.place = Place(ordinal, position, number)

    def _lose(
        self, number: int, start: int, line: bytes, ordinal: int
    ) -> tuple[int, int, bytes | None]:
        """Note a damaged line; how many rows are lost in it, and where the good one begins, if

        a lost newline glued one to its end, with its payload.
        """
        before = self.damage[-1] if self.damage else None
        if before and before.line == number - 1 and split_row(before.data, line):
            begins, inner, payload = [], 0, None
        else:
            begins = beginnings(line)
            inner = begins[-1]
            payload = unseal(line[inner:]) if inner else None
            if payload is not None:
                begins.pop()
        self.offsets.extend(start + begin for begin in begins)
        lost = range(ordinal, ordinal + len(begins))
        self.damage.append(Damage(self.path, number, start, line, lost))
        return len(begins), inner, payload


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


def mend(descriptor: int, file: JournalFile) -> None:
    """Cut the torn tail of a journal that was read, so that it ends with a newline."""
    if not file.tail and not file.newline_lost:
        return
    os.ftruncate(descriptor, file.size - file.newline_lost)
    if file.newline_lost:
        os.write(descriptor, b"\n")
        file.newline_lost = False
    os.fsync(descriptor)


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
