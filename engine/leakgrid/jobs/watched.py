"""Servers that are watched, and a provider at one: a call that failed waits for the verdict.

A server that died is known to be dead only seconds later, when all of it has ended and its log is
read. Without this every call under way would use up its attempts in that time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

from leakgrid.batches.lane import BatchLane
from leakgrid.lanes.lane import Lane
from leakgrid.providers.servers import Server
from leakgrid.providers.wire import Exchange, Provider, Reading
from leakgrid.types import Call

VERDICT_S = 20.0
"""Seconds that a failed call waits at most; a server that lives is then tried again."""


async def watch(
    server: Server, lanes: Iterable[Lane | BatchLane], gone: asyncio.Event | None = None
) -> None:
    """Return when ``server`` has ended; if it died, stop its lanes and set ``gone``."""
    down = await server.watch()
    if down is None:
        return
    for lane in lanes:
        lane.stop(down)
    if gone is not None:
        gone.set()


class Watched:
    """``provider``, until ``gone`` is set by whoever stops its lane."""

    def __init__(self, provider: Provider, gone: asyncio.Event) -> None:
        self.name = provider.name
        self.kind = provider.kind
        self.model = provider.model
        self.family = provider.family
        self.identity = provider.identity
        self.simulated = provider.simulated
        self._provider = provider
        self._gone = gone

    def body(self, call: Call) -> dict[str, Any]:
        """The request body as the provider's wire format wants it."""
        return self._provider.body(call)

    async def exchange(self, body: bytes) -> Exchange:
        """Send the body once; where there was no connection, return when it is clear why."""
        exchange = await self._provider.exchange(body)
        if exchange.status == 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(VERDICT_S):
                    await self._gone.wait()
        return exchange

    def read(self, exchange: Exchange) -> Reading:
        """What the exchange means."""
        return self._provider.read(exchange)
