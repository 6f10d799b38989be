"""The usual pool over the openai SDK: so many at once, and everybody pauses after a 429."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import time
from typing import Any

import uvloop

from tests.bench.work import measured, messages

ATTEMPTS = 5


async def main(base_url: str, calls: int, at_once: int, pause_s: float, seconds: float) -> None:
    """Send calls until ``calls`` are answered or ``seconds`` are over."""
    openai: Any = importlib.import_module("openai")
    slots, until, answered, rejected = asyncio.Semaphore(at_once), 0.0, 0, 0
    client = openai.AsyncOpenAI(
        api_key="none", base_url=base_url, http_client=openai.DefaultAioHttpClient(), max_retries=0
    )

    async def one(number: int) -> None:
        nonlocal until, answered, rejected
        async with slots:
            for _ in range(ATTEMPTS):
                await asyncio.sleep(max(0.0, until - time.monotonic()))
                try:
                    reply = await client.chat.completions.create(
                        model="m", max_tokens=300, messages=messages(number)
                    )
                except openai.RateLimitError:
                    rejected += 1
                    until = time.monotonic() + pause_s
                else:
                    assert reply.choices[0].message.content
                    answered += 1
                    return

    async with client:
        with measured(calls) as more:
            tasks = [asyncio.create_task(one(number)) for number in range(calls)]
            _, late = await asyncio.wait(tasks, timeout=seconds)
            more["calls"], more["rejected"] = answered, rejected
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("base_url")
    parser.add_argument("calls", type=int)
    parser.add_argument("at_once", type=int)
    parser.add_argument("pause_s", type=float)
    parser.add_argument("seconds", type=float)
    given = parser.parse_args()
    uvloop.run(main(given.base_url, given.calls, given.at_once, given.pause_s, given.seconds))
