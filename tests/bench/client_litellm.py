"""litellm.acompletion with its aiohttp transport and nothing switched on beside it."""

from __future__ import annotations

import argparse
import asyncio
import importlib
from typing import Any

import uvloop

from tests.bench.work import measured, messages


async def main(base_url: str, calls: int, workers: int, provider: str) -> None:
    """Send ``calls`` calls with ``workers`` at once through one of litellm's providers."""
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    url = f"{base_url}/chat/completions" if provider == "aiohttp_openai" else base_url
    numbers = iter(range(calls))

    async def worker() -> None:
        for number in numbers:
            reply = await litellm.acompletion(
                model=f"{provider}/m",
                api_base=url,
                api_key="none",
                max_tokens=300,
                messages=messages(number),
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
    parser.add_argument(
        "--provider", choices=("openai", "aiohttp_openai", "hosted_vllm"), default="openai"
    )
    given = parser.parse_args()
    uvloop.run(main(given.base_url, given.calls, given.workers, given.provider))
