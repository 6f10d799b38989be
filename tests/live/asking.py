"""One cheap call to a real provider, sent and priced as a run would."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from leakgrid.cache.key import canonical
from leakgrid.jobs.prices import price_of
from leakgrid.providers.wire import Reading
from leakgrid.types import Call, Message, Schema

MOST_USD = 0.002
"""For one call: all live tests together stay under a cent."""

CALL = Call(
    model="m", messages=(Message("system", "Answer in one word."), Message("user", "Say yes."))
)
FORM = Call(
    model="m",
    messages=(Message("user", "Is water wet? Answer in JSON."),),
    schema=Schema(
        "verdict",
        {
            "type": "object",
            "properties": {"wet": {"type": "boolean"}},
            "required": ["wet"],
            "additionalProperties": False,
        },
    ),
)


def key_of(variable: str) -> str:
    """The key, read while tests are collected: no test sees it in its environment."""
    return os.environ.get(variable, "").strip()


def needs(key: str, variable: str) -> pytest.MarkDecorator:
    """Skip without the key."""
    return pytest.mark.skipif(not key, reason=f"needs {variable}")


def ask(make: Callable[[aiohttp.ClientSession], Any], call: Call) -> Reading:
    """The reading of one call."""

    async def main() -> Reading:
        async with aiohttp.ClientSession() as session:
            provider = make(session)
            exchange = await provider.exchange(canonical(provider.body(call)))
            reading: Reading = provider.read(exchange)
            return reading

    return asyncio.run(main())


def check_cost(provider: str, model: str, reading: Reading) -> None:
    """It was counted, and cost next to nothing."""
    assert reading.usage.input > 0 and reading.usage.output > 0
    price = price_of(provider, model)
    assert price is not None, f"no price of {model}: is it new? then prices.toml needs it"
    assert price.usd(reading.usage) < MOST_USD
