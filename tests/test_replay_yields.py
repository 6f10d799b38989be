"""A replay finds every answer in memory, and still lets others have the event loop."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from leakgrid.jobs.asking import FROM_CACHE_AT_ONCE, Asker
from leakgrid.types import Call, Message
from tests.rows import answer_row


class InMemory:
    """A cache that has an answer to everything, at once."""

    async def find(self, key: bytes) -> dict[str, Any]:
        return {**answer_row(1), "key": key.hex()}


def test_a_replay_lets_go_of_the_loop() -> None:
    provider = SimpleNamespace(
        kind="openai",
        family="chat",
        identity="here",
        body=lambda call: {"messages": [part.text for part in call.messages]},
    )
    routes = {"m": SimpleNamespace(provider=provider, lane=None)}
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def main() -> None:
        asker = Asker(cast(Any, routes), cast(Any, InMemory()), job="j", run="r")
        async with asyncio.TaskGroup() as group:
            beside = group.create_task(other())
            for number in range(5 * FROM_CACHE_AT_ONCE):
                answer = await asker.ask(Call(model="m", messages=(Message("user", f"{number}"),)))
                assert answer.cached
            beside.cancel()
        assert asker.counts.from_cache == 5 * FROM_CACHE_AT_ONCE

    asyncio.run(main())
    assert turns >= 5
