"""One model at several base URLs: calls with the same beginning go to the same server.

A server finds a prompt's beginning in its prefix cache only if it has read it before, so calls
are spread by rendezvous hashing of that beginning: every prefix has its own order of servers, and
when one goes only its prefixes move. A server that is well above the mean passes calls on to the
next in their order, since one prefix may be all there is.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Sequence
from typing import Any

import orjson

from leakgrid.outcomes import InputError
from leakgrid.providers.wire import Exchange, Provider, Reading
from leakgrid.types import Call

PREFIX_BYTES = 2048
ABOVE_MEAN = 1.25
ALWAYS = 4
"""Calls that a server takes however little the others have."""

FIRST_REST_S = 1.0
LONGEST_REST_S = 30.0

DOWN = frozenset({502, 503, 504})


class _Endpoint:
    """One server's state."""

    __slots__ = ("asked_after", "failures", "in_flight", "name", "provider", "until")

    def __init__(self, provider: Provider, name: bytes) -> None:
        self.provider = provider
        self.name = name
        self.in_flight = 0
        self.failures = 0
        self.until = 0.0
        self.asked_after = False

    def may(self, now: float) -> bool:
        """Up, or its rest is over and nobody is trying it yet."""
        return not self.failures or (now >= self.until and not self.asked_after)


class Replicas:
    """A Provider over several that are alike but for their URL.

    One exchange tries the others in the prefix's order while a server cannot even be reached;
    a call that may have reached one fails as usual, and the lane's next attempt goes elsewhere.
    """

    def __init__(self, endpoints: Sequence[tuple[str, Provider]]) -> None:
        """``endpoints`` are (URL, provider). Raises InputError where they are not alike."""
        if not endpoints:
            raise InputError("a model needs at least one base_url")
        first = endpoints[0][1]
        for url, other in endpoints[1:]:
            for field in ("name", "kind", "model", "family", "identity", "simulated"):
                mine, yours = getattr(first, field), getattr(other, field)
                if mine != yours:
                    raise InputError(
                        f"base_url: {url} and {endpoints[0][0]} are not the same server twice: "
                        f"{field} is {yours!r} and {mine!r}; give them as two models"
                    )
        self.name = first.name
        self.kind = first.kind
        self.model = first.model
        self.family = first.family
        self.identity = first.identity
        self.simulated = first.simulated
        self._first = first
        self._endpoints = [_Endpoint(one, url.encode()) for url, one in endpoints]

    def body(self, call: Call) -> dict[str, Any]:
        """The request body; it is the same for all."""
        return self._first.body(call)

    def read(self, exchange: Exchange) -> Reading:
        """What the exchange means."""
        return self._first.read(exchange)

    async def exchange(self, body: bytes) -> Exchange:
        """Send once, to the first server in the body's order that can be reached."""
        clock = asyncio.get_running_loop().time
        order = self._order(prefix_of(body))
        tried: set[_Endpoint] = set()
        while True:
            endpoint = self._choose(order, tried, clock())
            tried.add(endpoint)
            exchange = await self._send(endpoint, body)
            if exchange.sent or len(tried) == len(order):
                return exchange

    async def _send(self, endpoint: _Endpoint, body: bytes) -> Exchange:
        endpoint.in_flight += 1
        trying = endpoint.failures > 0
        endpoint.asked_after = endpoint.asked_after or trying
        try:
            exchange = await endpoint.provider.exchange(body)
        finally:
            endpoint.in_flight -= 1
            if trying:
                endpoint.asked_after = False
        if exchange.status == 0 or exchange.status in DOWN:
            rest = min(LONGEST_REST_S, FIRST_REST_S * 2**endpoint.failures)
            endpoint.failures += 1
            endpoint.until = asyncio.get_running_loop().time() + rest
        else:
            endpoint.failures = 0
        return exchange

    def _choose(self, order: Sequence[_Endpoint], tried: set[_Endpoint], now: float) -> _Endpoint:
        left = [one for one in order if one not in tried]
        able = [one for one in left if one.may(now)]
        if not able:  # all rest: then the one whose rest ends first, since somebody must ask
            return min(left, key=lambda one: one.until)
        mean = (sum(one.in_flight for one in self._endpoints) + 1) / len(able)
        room = max(ALWAYS, math.ceil(ABOVE_MEAN * mean))
        for one in able:
            if one.in_flight < room:
                return one
        return min(able, key=lambda one: one.in_flight)

    def _order(self, prefix: bytes) -> list[_Endpoint]:
        def weight(one: _Endpoint) -> bytes:
            return hashlib.blake2b(prefix, key=hashlib.sha256(one.name).digest()).digest()

        return sorted(self._endpoints, key=weight)


def prefix_of(body: bytes) -> bytes:
    """The first 2 kB of the messages up to the last one, which counts only where it is alone.

    That is what calls with a common beginning share. A body without messages counts by its first
    bytes.
    """
    try:
        messages = orjson.loads(body)["messages"]
        texts = [f"{one['role']}\0{one['content']}\0" for one in messages]
    except (ValueError, KeyError, TypeError):
        return body[:PREFIX_BYTES]
    return "".join(texts[:-1] or texts).encode()[:PREFIX_BYTES]
