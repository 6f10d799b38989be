"""The openai SDK as its own documentation says it is fast: one client, workers, aiohttp or not."""

from __future__ import annotations

import argparse
import asyncio
import importlib
from typing import Any

import uvloop

from tests.bench.work import measured, messages


async def main(base_url: str, calls: int, workers: int, transport: str) -> None:
    """Send ``calls`` calls with ``workers`` at once over ``transport``."""
    openai: Any = importlib.import_module("openai")
    made = openai.DefaultAioHttpClient
    if transport == "httpx":
        made = openai.DefaultAsyncHttpxClient
    numbers = iter(range(calls))
    async with made() as http:
        client = openai.AsyncOpenAI(api_key="none", base_url=base_url, http_client=http)

        async def worker() -> None:
            for number in numbers:
                reply = await client.chat.completions.create(
                    model="m", max_tokens=300, messages=messages(number)
                )
                assert reply.choices[0].message.content

        with measured(calls):
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(worker())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("base_url")
    parser.add_argument("calls", type=int)
    parser.add_argument("workers", type=int)
    parser.add_argument("--transport", choices=("aiohttp", "httpx"), default="aiohttp")
    given = parser.parse_args()
    uvloop.run(main(given.base_url, given.calls, given.workers, given.transport))
