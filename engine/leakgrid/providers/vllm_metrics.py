"""vLLM's ``/metrics``, and a lane steered by them: as many calls as the server really runs.

A lane on its own probes how many calls pay by what comes back. vLLM tells it: what runs, what
waits, how full the KV cache is, and how often it had to throw a running request out of it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import aiohttp

    from leakgrid.lanes.values import LaneStatistics

EVERY_S = 1.0
ANSWER_S = 5.0
FULL = 0.9
"""KV cache use from which on the lane does not grow: longer replies still need room."""

GROWTH = 1.25
CUT = 0.8
QUEUE = 2
"""Requests that may wait in the server, so that it never lacks one between two looks."""

_SAMPLE = re.compile(r"^vllm:([a-z_]+?)(?:_total)?(?:\{[^}]*\})? ([0-9.eE+-]+|NaN)$", re.M)
_SUMMED = {
    "num_requests_running": "running",
    "num_requests_waiting": "waiting",
    "num_preemptions": "preemptions",
    "prefix_cache_queries": "prefix_queries",
    "prefix_cache_hits": "prefix_hits",
    "gpu_prefix_cache_queries": "prefix_queries",
    "gpu_prefix_cache_hits": "prefix_hits",
}
_HIGHEST = {"kv_cache_usage_perc": "cache", "gpu_cache_usage_perc": "cache"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A server at one moment, all its engines together.

    ``cache``: share of the KV cache in use, of the fullest engine. ``preemptions`` and the two of
    the prefix cache (in tokens) count from its start.
    """

    running: float = 0.0
    waiting: float = 0.0
    cache: float = 0.0
    preemptions: float = 0.0
    prefix_queries: float = 0.0
    prefix_hits: float = 0.0

    @property
    def hit_rate(self) -> float | None:
        """Share of prompt tokens found in the prefix cache since the start; None before any."""
        return self.prefix_hits / self.prefix_queries if self.prefix_queries else None

    def since(self, earlier: Load) -> float | None:
        """The prefix-cache hit rate between two looks; None where nothing was asked."""
        asked = self.prefix_queries - earlier.prefix_queries
        return (self.prefix_hits - earlier.prefix_hits) / asked if asked > 0 else None


def read_load(text: str) -> Load | None:
    """The load in a Prometheus text; None if it is not vLLM's."""
    values: dict[str, float] = {}
    for name, number in _SAMPLE.findall(text):
        value = float(number)
        if name in _SUMMED:
            values[_SUMMED[name]] = values.get(_SUMMED[name], 0.0) + value
        elif name in _HIGHEST:
            values[_HIGHEST[name]] = max(values.get(_HIGHEST[name], 0.0), value)
    return Load(**values) if "running" in values else None


def together(loads: Sequence[Load]) -> Load:
    """Several replicas as one server."""
    return Load(
        running=sum(load.running for load in loads),
        waiting=sum(load.waiting for load in loads),
        cache=max(load.cache for load in loads),
        preemptions=sum(load.preemptions for load in loads),
        prefix_queries=sum(load.prefix_queries for load in loads),
        prefix_hits=sum(load.prefix_hits for load in loads),
    )


async def fetch_load(session: aiohttp.ClientSession, url: str) -> Load | None:
    """The load of the server at ``url`` (up to ``/v1``); None if it does not tell."""
    import aiohttp

    at = url.rstrip("/").removesuffix("/v1") + "/metrics"
    try:
        timeout = aiohttp.ClientTimeout(total=ANSWER_S)
        async with session.get(at, timeout=timeout) as response:
            if response.status != 200:
                return None
            return read_load(await response.text())
    except (aiohttp.ClientError, OSError, UnicodeDecodeError):
        return None


def next_limit(limit: int, wanting: bool, now: Load, before: Load) -> float:
    """The limit that follows from two looks at the server, one second apart.

    Preemption cuts: work was thrown away. So does a queue that is still there at the second look
    (a burst of new prompts is gone by then), down to what really runs: more would only wait in
    the server, where no order can be kept. Growth needs an empty queue, room in the cache, and a
    lane that is ``wanting`` to send but held by its limit.
    """
    if now.preemptions > before.preemptions:
        return max(1.0, limit * CUT)
    if min(now.waiting, before.waiting) > QUEUE:
        return min(float(limit), max(1.0, limit * CUT, now.running + QUEUE))
    if wanting and now.waiting == 0 and now.cache < FULL:
        return max(limit + 1.0, limit * GROWTH)
    return limit


class Steered(Protocol):
    """What of a lane is needed here."""

    def steer(self, limit: float) -> None:
        """Set how many calls may be in flight."""

    def statistics(self) -> LaneStatistics:
        """The lane at this moment."""


async def steer(
    lane: Steered,
    session: aiohttp.ClientSession,
    *urls: str,
    seen: Callable[[Load], None] | None = None,
    every_s: float = EVERY_S,
) -> None:
    """Steer ``lane`` by the servers at ``urls`` for as long as it runs; cancel it to end.

    ``seen`` gets every load, for a display of the hit rate. A server that does not answer leaves
    the limit as it is: whether it is alive is for others to say.
    """
    before: Mapping[str, Load] = {}
    while True:
        await asyncio.sleep(every_s)
        async with asyncio.TaskGroup() as group:
            asked = {url: group.create_task(fetch_load(session, url)) for url in urls}
        now = {url: load for url, task in asked.items() if (load := task.result()) is not None}
        if not now:
            continue
        whole = together(list(now.values()))
        if seen is not None:
            seen(whole)
        if now.keys() == before.keys():
            state = lane.statistics()
            wanting = state.waiting > 0 or state.in_flight >= state.limit
            lane.steer(next_limit(state.limit, wanting, whole, together(list(before.values()))))
        before = now
