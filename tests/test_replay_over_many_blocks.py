"""A replay that goes to and fro among more blocks than are kept finds every row, and ends."""

from __future__ import annotations

import asyncio
import hashlib
import time
from pathlib import Path

import orjson
import pytest

from leakgrid.cache import readers
from leakgrid.cache.answers import AnswerCache
from tests.rows import answer_row

BLOCK = readers.JournalReader.block_rows


def key_of(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()


async def found(cache: AnswerCache, number: int) -> None:
    row = await cache.find(key_of(number))
    assert row is not None and row["key"] == key_of(number).hex()


@pytest.mark.may_block
def test_a_block_that_was_put_out_just_when_it_was_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody asks for it between its reading and the news of that: no endless waiting."""
    monkeypatch.setattr(readers, "BLOCKS_KEPT", 1)

    async def main() -> None:
        async with AnswerCache(tmp_path) as cache:
            for number in range(2 * BLOCK):
                row = {**answer_row(1), "key": key_of(number).hex(), "kind": "answer"}
                cache.note_attempt(orjson.dumps(row))
        async with AnswerCache(tmp_path) as cache, asyncio.TaskGroup() as group:
            group.create_task(found(cache, 0))
            group.create_task(found(cache, BLOCK))
            await asyncio.sleep(0)
            # Both blocks are read, and the second puts out the first, while nobody hears of it.
            time.sleep(0.3)  # noqa: ASYNC251
            group.create_task(found(cache, 1))

    asyncio.run(asyncio.wait_for(main(), 20))
