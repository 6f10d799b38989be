"""A provider that answers from a script, in the loop's own time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from leakgrid.outcomes import Outcome
from leakgrid.providers.openai import read_completion, read_error
from leakgrid.providers.wire import Exchange, Reading
from leakgrid.types import Call
from tests.rows import completion

GOOD = completion("fine").encode()

Behaviour = Callable[[int, float], Exchange]


def reply(
    status: int = 200,
    body: bytes = GOOD,
    headers: Mapping[str, str] | None = None,
    seconds: float = 1.0,
    fault: str = "",
) -> Exchange:
    """An exchange; headers and latency as given."""
    return Exchange(status, headers or {}, body, seconds, fault)


def error(status: int, code: str = "", message: str = "", **more: Any) -> Exchange:
    """An error in OpenAI's shape."""
    import orjson

    body = orjson.dumps({"error": {"code": code, "message": message}})
    return reply(status, body, **more)


class Scripted:
    """Answers call ``n`` (from 0) at loop time ``t`` with ``behaviour(n, t)``."""

    name = "lane"
    kind = "openai"
    model = "m"
    family = "chat"
    identity = "id"
    simulated = False

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.times: list[float] = []
        self.in_flight = 0
        self.most_in_flight = 0

    def body(self, call: Call) -> dict[str, Any]:
        return {"model": self.model, "messages": [part.text for part in call.messages]}

    async def exchange(self, body: bytes) -> Exchange:
        now = asyncio.get_running_loop().time()
        exchange = self.behaviour(len(self.times), now)
        self.times.append(now)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(exchange.latency_s)
        finally:
            self.in_flight -= 1
        return exchange

    def read(self, exchange: Exchange) -> Reading:
        import orjson

        if exchange.status == 0:
            return Reading(outcome=Outcome.TRANSIENT, error=exchange.fault)
        if exchange.status == 200:
            try:
                return read_completion(orjson.loads(exchange.body))
            except (orjson.JSONDecodeError, KeyError):
                return Reading(outcome=Outcome.MALFORMED)
        return read_error(exchange.status, exchange.headers, exchange.body)
