"""Calls that wait for the next batch: on disk, so that a million of them cost 40 bytes each.

Nothing here need survive a crash. The cells of calls that are lost run again and register them
again; what must survive is written by the book.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from leakgrid.batches.book import Asked, call_of
from leakgrid.batches.service import Service, aside
from leakgrid.outcomes import CacheError

SPILL_BYTES = 1024 * 1024


def short_of(key: bytes | str) -> int:
    """The first 8 bytes of a key (or of its hex) as a number: what is kept in memory of it."""
    data = bytes.fromhex(key[:16]) if isinstance(key, str) else key[:8]
    return int.from_bytes(data, "little")


@dataclass(slots=True)
class Draft:
    """A manifest that fits one batch: ``usd[n]`` is the estimate of its first n + 1 calls."""

    path: Path
    usd: array[float] = field(default_factory=lambda: array("d"))
    ends: array[int] = field(default_factory=lambda: array("Q"))
    shorts: array[int] = field(default_factory=lambda: array("Q"))

    @property
    def calls(self) -> int:
        """How many calls it holds."""
        return len(self.usd)

    def cut(self, calls: int) -> None:
        """Keep only the first ``calls``."""
        os.truncate(self.path, self.ends[calls - 1] if calls else 0)
        del self.usd[calls:], self.ends[calls:], self.shorts[calls:]


class Pending:
    """The calls that a lane has collected, in a file in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.known: set[int] = set()
        self._path = folder / "pending"
        self._lines: list[bytes] = []
        self._bytes = 0
        self._writing = asyncio.Lock()
        self._number = 0

    def __len__(self) -> int:
        return len(self.known)

    async def add(self, short: int, line: bytes) -> None:
        """Take one manifest line; waits for the disk when calls come faster. Raises CacheError."""
        self.known.add(short)
        self._lines.append(line)
        self._bytes += len(line)
        if self._bytes >= SPILL_BYTES:
            await self._spill()

    async def _spill(self) -> None:
        lines, self._lines, self._bytes = self._lines, [], 0
        async with self._writing:
            await aside(self._write, lines)

    def _write(self, lines: list[bytes]) -> None:
        try:
            with self._path.open("ab") as file:
                file.writelines(lines)
        except OSError as error:
            raise CacheError(f"{self._path}: write failed ({error.strerror})") from error

    async def take(self) -> Path | None:
        """All calls collected so far as one file, and begin anew; None where there are none."""
        if not self.known:
            return None
        self._number += 1
        taken = self._path.with_name(f"taken-{self._number}")
        lines, self._lines, self._bytes = self._lines, [], 0
        self.known = set()
        async with self._writing:
            await aside(self._write, lines)
            await aside(os.replace, self._path, taken)
        return taken

    async def drop(self) -> None:
        """Forget what was collected: it goes another way."""
        taken = await self.take()
        if taken is not None:
            with contextlib.suppress(OSError):
                taken.unlink()


def drafts(taken: Path, service: Service, estimate: Callable[[Asked], float]) -> Iterator[Draft]:
    """Cut collected calls into manifests within the service's limits; blocking.

    ``taken`` is removed at the end. Raises CacheError.
    """
    try:
        with taken.open("rb") as lines:
            line = next(lines, b"")
            number = 0
            while line:
                number += 1
                draft = Draft(taken.with_name(f"{taken.name}-{number}"))
                size = end = 0
                usd = 0.0
                with draft.path.open("wb") as file:
                    while line and draft.calls < service.most_requests:
                        asked, body = call_of(line)
                        size += len(service.line(asked.key, body))
                        if size > service.most_bytes and draft.calls:
                            break
                        file.write(line)
                        end += len(line)
                        usd += estimate(asked)
                        draft.usd.append(usd)
                        draft.ends.append(end)
                        draft.shorts.append(short_of(asked.key))
                        line = next(lines, b"")
                yield draft
        taken.unlink()
    except OSError as error:
        raise CacheError(f"{taken}: {error.strerror}") from error
