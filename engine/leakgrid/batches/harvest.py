"""From result lines to answers: read as the online lane would read them, priced at half.

A line is settled once. Of several lines of one request the first that can be kept counts; a line
that fails becomes a failed attempt, and its call is planned again by whoever asks for it next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Protocol

import orjson

from leakgrid.batches.book import Asked
from leakgrid.batches.service import Service, aside
from leakgrid.cache.readers import Row
from leakgrid.lanes import rows
from leakgrid.lanes.values import Attempt
from leakgrid.outcomes import KEPT, STOPPING, Outcome
from leakgrid.providers.wire import Exchange, Provider, Reading
from leakgrid.types import Price

LINES_AT_ONCE = 64
TIER = "batch"


class Kept(Protocol):
    """Where answers go: the answer cache, or what stands in for it."""

    async def find(self, key: bytes) -> Row | None:
        """The kept row of ``key``, or None."""

    async def keep(self, key: bytes, payload: bytes) -> None:
        """Return once this answer is on disk and can be found."""

    def note_attempt(self, payload: bytes) -> None:
        """Queue the row of a failed attempt."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A call whose line failed."""

    asked: Asked
    reading: Reading
    exchange: Exchange


@dataclass(slots=True)
class Harvest:
    """What one pass over a result file gave.

    ``kept`` counts answers new in the cache, ``settled`` all keys that are there now; ``failed``
    holds calls whose lines say why, ``rejected`` those of them that are invalid; ``torn`` counts
    lines nobody can read, ``strange`` lines of requests that are not ours, ``repeated`` lines of
    requests that were settled before.
    """

    kept: int = 0
    usd: float = 0.0
    unpriced: int = 0
    input: int = 0
    output: int = 0
    torn: int = 0
    strange: int = 0
    repeated: int = 0
    settled: set[str] = field(default_factory=set)
    failed: dict[str, Lost] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    learned: list[tuple[int, str, int, int]] = field(default_factory=list)

    @property
    def rejected(self) -> list[Lost]:
        """Calls that the service called invalid."""
        return [one for one in self.failed.values() if one.reading.outcome is Outcome.INVALID]

    @property
    def stopping(self) -> Lost | None:
        """A failure that means no further call can succeed, if there is one."""
        return next((one for one in self.failed.values() if one.reading.outcome in STOPPING), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaper:
    """Reads result files of one lane. ``run`` is noted in every row."""

    lane: str
    service: Service
    provider: Provider
    price: Price | None
    cache: Kept
    run: str

    async def gather(self, path: Path, asked: dict[str, Asked], waited_s: float) -> Harvest:
        """Keep every answer in a result file; failures are only collected (see ``give_up``).

        ``asked`` are the batch's calls by key, ``waited_s`` how long the batch took. May be
        repeated: what is in the cache is not kept again. Raises CacheError.
        """
        harvest = Harvest()
        with await aside(path.open, "rb") as lines:
            while chunk := await aside(self._read, lines, asked, harvest, waited_s):
                async with asyncio.TaskGroup() as group:
                    for key, row in chunk:
                        group.create_task(self._keep(key, row, harvest))
        for key in harvest.settled:
            harvest.failed.pop(key, None)
        return harvest

    def _read(
        self, lines: Iterator[bytes], asked: dict[str, Asked], harvest: Harvest, waited_s: float
    ) -> list[tuple[str, bytes]]:
        """The rows to keep of the next lines; empty at the end of the file."""
        rows: list[tuple[str, bytes]] = []
        while not rows:
            chunk = list(islice(lines, LINES_AT_ONCE))
            if not chunk:
                break
            for line in chunk:
                if not line.strip():
                    continue
                try:
                    result = self.service.parse(line)
                except (ValueError, KeyError, TypeError, AttributeError):
                    harvest.torn += 1
                    continue
                known = asked.get(result.key)
                if known is None:
                    harvest.strange += 1
                elif result.key in harvest.settled:
                    harvest.repeated += 1
                elif result.exchange is not None:
                    row = self._settle(known, result.exchange, harvest, waited_s)
                    if row is not None:
                        rows.append((result.key, row))
        return rows

    def _settle(
        self, asked: Asked, exchange: Exchange, harvest: Harvest, waited_s: float
    ) -> bytes | None:
        reading = self.provider.read(exchange)
        # An invalid request is kept only when others of its batch were answered: see give_up.
        if reading.outcome not in KEPT or reading.outcome is Outcome.INVALID:
            harvest.failed.setdefault(asked.key, Lost(asked, reading, exchange))
            return None
        harvest.settled.add(asked.key)
        usage = reading.usage
        harvest.learned.append((asked.size, asked.role, usage.input, usage.output))
        return self._row("answer", asked, self._attempt(1, exchange, reading, waited_s))

    async def _keep(self, key: str, row: bytes, harvest: Harvest) -> None:
        raw = bytes.fromhex(key)
        if await self.cache.find(raw) is not None:
            return  # harvested before, by a run that was killed then
        await self.cache.keep(raw, row)
        harvest.kept += 1
        said = orjson.loads(row)
        self._count(harvest, said["outcome"], said["usd"], said["input"], said["output"])

    def _count(
        self, harvest: Harvest, outcome: str, usd: float | None, into: int, out: int
    ) -> None:
        harvest.outcomes[outcome] = harvest.outcomes.get(outcome, 0) + 1
        harvest.input += into
        harvest.output += out
        harvest.usd += usd or 0.0
        harvest.unpriced += usd is None and bool(into or out)

    async def give_up(self, lost: Lost, tries: int, harvest: Harvest, *, invalid: bool) -> Attempt:
        """Keep a failed line: an invalid request as its answer if ``invalid``, else an attempt."""
        reading = lost.reading
        keeps = invalid and reading.outcome is Outcome.INVALID
        kind = "answer" if keeps else "attempt"
        attempt = self._attempt(tries, lost.exchange, reading, 0.0)
        row = self._row(kind, lost.asked, attempt)
        if keeps:
            raw = bytes.fromhex(lost.asked.key)
            if await self.cache.find(raw) is None:
                await self.cache.keep(raw, row)
            harvest.settled.add(lost.asked.key)
        else:
            self.cache.note_attempt(row)
        usage = reading.usage
        self._count(harvest, reading.outcome.value, attempt.usd, usage.input, usage.output)
        return attempt

    def _attempt(
        self, tries: int, exchange: Exchange, reading: Reading, waited_s: float
    ) -> Attempt:
        usd = None if self.price is None else self.price.usd(reading.usage)
        return Attempt(tries, exchange, reading, usd, waited_s)

    def _row(self, kind: str, asked: Asked, attempt: Attempt) -> bytes:
        """A row in the columns of ``cache/tables.py``; a batch has no latency, only a wait."""
        shared = rows.of_provider(
            self.provider, run=self.run, job=asked.job, lane=self.lane, tier=TIER
        )
        own = rows.of_attempt(kind, asked.key, asked.role, asked.sample, attempt)
        return orjson.dumps({**shared, **own})
