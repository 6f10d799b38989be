"""The limit: a bare aiohttp + orjson loop with fixed workers, nothing kept, nothing checked."""

from __future__ import annotations

import asyncio
import sys

import aiohttp
import orjson
import uvloop

from tests.bench.work import measured, messages


async def main(base_url: str, calls: int, workers: int) -> None:
    """Send ``calls`` calls with ``workers`` at once."""
    numbers = iter(range(calls))
    url, headers = f"{base_url}/chat/completions", {"content-type": "application/json"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def worker() -> None:
            for number in numbers:
                body = orjson.dumps({"model": "m", "max_tokens": 300, "messages": messages(number)})
                async with session.post(url, data=body, headers=headers) as response:
                    reply = orjson.loads(await response.read())
                    assert reply["choices"][0]["message"]["content"]

        with measured(calls):
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(worker())


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
