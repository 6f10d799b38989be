"""Faults on a seeded schedule, and what each does on the wire.

The schedule depends on the request and on how often this very request has come, never on
timing, so that a run can be repeated.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

import orjson
from aiohttp import web

from leakgrid.providers.simulated.config import FAULTS, Faults
from leakgrid.providers.simulated.planted import coin
from leakgrid.providers.simulated.quota import retry_headers
from leakgrid.providers.simulated.wire import error

PIECES = 8
"""A slow body comes in so many pieces."""

DROPPED = frozenset({"timeout", "reset", "torn"})
"""Faults after which the client has no whole response."""

_ERRORS: dict[str, tuple[int, dict[str, Any]]] = {
    "quota_429": (
        429,
        error("Rate limit reached (simulated fault).", "requests", "rate_limit_exceeded"),
    ),
    "server_500": (
        500,
        error("The server had an error (simulated fault).", "server_error", None),
    ),
    "unavailable_503": (
        503,
        error("The engine is overloaded (simulated fault).", "service_unavailable", None),
    ),
    "overloaded_529": (
        529,
        error("Overloaded (simulated fault).", "overloaded_error", None),
    ),
}


class Schedule:
    """Which fault, if any, the next arrival of a request meets."""

    def __init__(self, seed: int, faults: Faults) -> None:
        self.seed = seed
        self.limit = faults.max_per_request
        self.rates = [(kind, faults.rates.get(kind, 0.0)) for kind in FAULTS]
        self.active = self.limit > 0 and any(rate > 0.0 for _, rate in self.rates)
        # by request: how often it has come, and how many faults it has met
        self.seen: dict[bytes, tuple[int, int]] = {}

    def next(self, digest: bytes) -> str | None:
        """The fault for this arrival of the request with that digest, or None."""
        if not self.active:
            return None
        attempt, met = self.seen.get(digest, (0, 0))
        fault = self._drawn(digest, attempt) if met < self.limit else None
        self.seen[digest] = (attempt + 1, met + (fault is not None))
        return fault

    def _drawn(self, digest: bytes, attempt: int) -> str | None:
        left = coin(self.seed, f"fault {attempt}", digest)
        for kind, rate in self.rates:
            if left < rate:
                return kind
            left -= rate
        return None


async def response(
    kind: str, faults: Faults, request: web.BaseRequest, body: bytes, headers: dict[str, str]
) -> web.StreamResponse:
    """What the client gets for this fault; ``body`` is the answer it would have got."""
    if kind in _ERRORS:
        status, payload = _ERRORS[kind]
        if kind == "quota_429":
            headers = headers | retry_headers(faults.retry_after_ms / 1000.0)
        return web.Response(status=status, body=orjson.dumps(payload), headers=headers)
    if kind == "malformed":
        return web.Response(body=body[: len(body) // 2], headers=headers)
    if kind == "empty":
        return web.Response(body=b"", headers=headers)
    if kind == "slow":
        return await _slowly(request, body, headers, faults.slow_s)
    if kind == "timeout":
        await asyncio.sleep(faults.hang_s)
    return Broken(kind, body, headers)


async def _slowly(
    request: web.BaseRequest, body: bytes, headers: dict[str, str], seconds: float
) -> web.StreamResponse:
    slow = web.StreamResponse(headers=headers)
    slow.content_length = len(body)
    await slow.prepare(request)
    step = -(-len(body) // PIECES)
    for start in range(0, len(body), step):
        await asyncio.sleep(seconds / PIECES)
        await slow.write(body[start : start + step])
    return slow


class Broken(web.StreamResponse):
    """Half a response, or none, and then the end of the connection."""

    def __init__(self, kind: str, body: bytes, headers: dict[str, str]) -> None:
        super().__init__()
        self.kind, self.whole, self.sent = kind, body, headers

    async def prepare(self, request: web.BaseRequest) -> None:
        """Break the connection. Raises ConnectionResetError, which makes aiohttp let go of it."""
        transport = request.transport
        if transport is not None and self.kind == "torn":
            fields = {**self.sent, "content-length": str(len(self.whole))}
            head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
            half = self.whole[: len(self.whole) // 2]
            transport.write(f"HTTP/1.1 200 OK\r\n{head}\r\n".encode() + half)
            transport.close()
        elif transport is not None:
            # With a lingering time of 0 the kernel sends a reset instead of an orderly end.
            sock = transport.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        raise ConnectionResetError(f"simulated fault: {self.kind}")
