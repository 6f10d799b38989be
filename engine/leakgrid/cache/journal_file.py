"""One journal file: its good rows in order, its lock, and what is damaged in it."""

from __future__ import annotations

import fcntl
import os
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from leakgrid.cache.framing import unseal
from leakgrid.outcomes import CacheError

SUFFIX = ".jsonl"
NEWLINE = ord("\n")


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
    what stands behind the last newline is not a row yet.
    """

    __slots__ = ("damage", "offsets", "path", "size", "tail")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offsets = array("Q")
        self.damage: list[Damage] = []
        self.size = 0
        self.tail = 0

    def read(self, take: Callable[[int, bytes], None] | None = None) -> None:
        """Walk the file once; ``take(ordinal, payload)`` gets each good row.

        Raises FileNotFoundError when it is gone, CacheError when it cannot be read.
        """
        for ordinal, payload in self.payloads():
            if take is not None:
                take(ordinal, payload)

    def payloads(self) -> Iterator[tuple[int, bytes]]:
        """Every good row as (ordinal, payload); the file is known when the last one was taken.

        Raises FileNotFoundError when it is gone, CacheError when it cannot be read.
        """
        try:
            with open(self.path, "rb") as file:
                yield from self._walk(file)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise CacheError(f"{self.path}: cannot be read ({error.strerror})") from error

    def _walk(self, lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        position = ordinal = 0
        note = self.offsets.append
        for number, line in enumerate(lines, start=1):
            if line[-1] != NEWLINE:
                self.tail = len(line)
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
