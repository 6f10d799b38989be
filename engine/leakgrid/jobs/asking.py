"""``ask``: the one function through which every cell speaks to a model.

It hashes the call, joins an identical one in flight, answers from the cache, or sends the call
down its lane and returns once the answer is on disk. A cell never sees a retry, a quota, a file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import orjson

from leakgrid.batches.lane import BatchLane
from leakgrid.cache.answers import AnswerCache
from leakgrid.cache.flight import Flights
from leakgrid.cache.key import KeySpace, canonical, sent
from leakgrid.cache.readers import Row
from leakgrid.lanes import rows
from leakgrid.lanes.lane import Lane
from leakgrid.lanes.values import Attempt, Parcel
from leakgrid.outcomes import KEPT, Outcome
from leakgrid.providers.wire import Provider, text_of
from leakgrid.types import Answer, Call, Usage

AnyLane: TypeAlias = Lane | BatchLane

FROM_CACHE_AT_ONCE = 16
OUTCOMES = {outcome.value: outcome for outcome in Outcome}

PLACE: ContextVar[int] = ContextVar("PLACE", default=0)
"""The place of the cell that asks, in the order in which cells were begun."""


@dataclass(slots=True)
class AskCounts:
    """What became of the calls asked so far."""

    sent: int = 0
    from_cache: int = 0
    joined: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Route:
    """How a model of the job is reached: its provider, and the lane it shares."""

    provider: Provider
    lane: AnyLane


class Asker:
    """``ask`` over the routes of one run. ``job`` and ``run`` are noted in every row."""

    def __init__(self, routes: Mapping[str, Route], cache: AnswerCache, *, job: str, run: str):
        self.counts = AskCounts()
        self._routes = routes
        self._cache = cache
        self._flights = Flights()
        self._job = job
        self._run = run
        self._constants: dict[str, bytes] = {}
        self._spaces = {
            name: KeySpace(route.provider.kind, route.provider.family, route.provider.identity)
            for name, route in routes.items()
        }

    async def ask(self, call: Call) -> Answer:
        """The answer to ``call``; a failed call is an Answer whose outcome says how it failed.

        Raises LaneStopped when its lane sends no more, CacheError when the answer cannot be
        kept.
        """
        route = self._routes[call.model]
        body = route.provider.body(call)
        data = canonical(body)
        key = self._spaces[call.model].key(data, call.sample)
        flight = self._flights.find(key)
        if flight is not None:
            self.counts.joined += 1
            return replace(await flight, cached=True)
        self._flights.lead(key)
        try:
            row = await self._cache.find(key)
            if row is not None:
                self.counts.from_cache += 1
                answer = _from_row(row)
            else:
                answer = await self._send(
                    route,
                    call,
                    sent(body, data, ordered=call.schema is not None),
                    _most_output(body),
                    key,
                )
        except BaseException as error:
            self._flights.fail(key, error)
            raise
        self._flights.land(key, answer)
        if answer.cached and self.counts.from_cache % FROM_CACHE_AT_ONCE == 0:
            # A replay finds everything in memory: without this it would never let go of the loop.
            await asyncio.sleep(0)
        return answer

    async def _send(
        self, route: Route, call: Call, data: bytes, most: int | None, key: bytes
    ) -> Answer:
        parcel = Parcel(route.provider, data, call.role, most, call.sample, key, PLACE.get())
        attempt = await route.lane.send(parcel)
        self.counts.sent += 1
        reading, exchange = attempt.reading, attempt.exchange
        if reading.outcome in KEPT:
            payload = self._row("answer", route.lane, parcel, attempt)
            await self._cache.keep(key, payload)
        else:
            self.counts.failed += 1
        return Answer(
            key=key.hex(),
            outcome=reading.outcome,
            text=reading.text,
            reasoning=reading.reasoning,
            finish=reading.finish,
            model=reading.model,
            usage=reading.usage,
            usd=attempt.usd,
            latency_s=exchange.latency_s,
            status=exchange.status,
            error=reading.error,
            simulated=route.provider.simulated,
        )

    def note_failed(self, lane: AnyLane, parcel: Parcel, attempt: Attempt) -> None:
        """Keep the row of a failed attempt (the lanes call this)."""
        self._cache.note_attempt(self._row("attempt", lane, parcel, attempt))

    def _row(self, kind: str, lane: AnyLane, parcel: Parcel, attempt: Attempt) -> bytes:
        """The journal row of one attempt, in the columns of ``cache/tables.py``."""
        provider = parcel.provider
        constant = self._constants.get(provider.name)
        if constant is None:
            # The beginning of all rows of one provider in this run, without the closing brace.
            shared = rows.of_provider(
                provider, run=self._run, job=self._job, lane=lane.name, tier="online"
            )
            constant = self._constants[provider.name] = orjson.dumps(shared)[:-1] + b","
        own = rows.of_attempt(kind, parcel.key.hex(), parcel.role, parcel.sample, attempt)
        return constant + orjson.dumps(own)[1:]


def _most_output(body: Mapping[str, Any]) -> int | None:
    """The most output tokens that the body allows, in any of the wire formats."""
    inside = body.get("generationConfig") or {}
    return (
        body.get("max_tokens")
        or body.get("max_completion_tokens")
        or body.get("max_output_tokens")
        or inside.get("maxOutputTokens")
    )


def _from_row(row: Row) -> Answer:
    text, reasoning = text_of(row["family"], row["body"])
    return Answer(
        key=row["key"],
        outcome=OUTCOMES[row["outcome"]],
        text=text,
        reasoning=reasoning,
        finish=row["finish"],
        model=row["returned"],
        usage=Usage(row["input"], row["cached"], row["output"], row["reasoning_tokens"]),
        usd=row["usd"],
        latency_s=row["latency_ms"] / 1000,
        status=row["status"],
        error=row["error"],
        simulated=row["simulated"],
        cached=True,
    )
