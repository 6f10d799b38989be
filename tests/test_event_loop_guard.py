"""The guard that watches every other test does see a held loop, and only a held one."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable

import pytest

from leakgrid.jobs import guard


def blocks(
    work: Callable[[], object], most_s: float = 0.05, *, collections_count: bool = True
) -> list[guard.Block]:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(work)
        await asyncio.sleep(0.01)

    found: list[guard.Block] = []
    before = guard.install(most_s, found, collections_count=collections_count)
    try:
        asyncio.run(main())
    finally:
        guard.remove(before)
    return found


def spin() -> None:
    end = time.thread_time() + 0.12
    while time.thread_time() < end:
        pass


@pytest.mark.may_block
@pytest.mark.parametrize("work", [spin, lambda: time.sleep(0.25)])
def test_a_held_loop_is_noticed(work: Callable[[], object]) -> None:
    (block,) = blocks(work)
    assert block.wall_s >= 0.12
    assert "blocked" in guard.told([block])


@pytest.mark.may_block
def test_short_callbacks_are_not() -> None:
    assert blocks(lambda: time.sleep(0.001), most_s=1.0) == []


@pytest.mark.may_block
def test_the_collection_of_a_heap_full_of_tests_is_put_aside_where_asked() -> None:
    heap: list[list[object]] = [[] for _ in range(1_500_000)]
    assert blocks(gc.collect, most_s=0.01)
    assert blocks(gc.collect, most_s=0.01, collections_count=False) == []
    assert heap


def test_removing_it_leaves_asyncio_as_it_was() -> None:
    before = asyncio.events.Handle._run
    guard.remove(guard.install(1.0, []))
    assert asyncio.events.Handle._run is before
