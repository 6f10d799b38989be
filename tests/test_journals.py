"""Journals: what was on disk before a kill is there after it, and nothing else is believed."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from itertools import chain
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakgrid.cache.framing import seal, unseal
from leakgrid.cache.journal import Journal
from leakgrid.cache.journal_file import JournalFile
from leakgrid.cache.segments import quarantine

pytestmark = pytest.mark.may_block
"""These tests read and write files themselves between steps, and a busy disk may take its time."""


def rows_of(folder: Path) -> list[int]:
    """The number in every good row of every journal under ``folder``."""
    found: list[int] = []
    for path in sorted(folder.glob("*.jsonl")):
        JournalFile(path).read(lambda _, payload: found.append(orjson.loads(payload)["n"]))
    return found


async def write(folder: Path, numbers: list[int]) -> None:
    async with Journal(folder) as journal:
        await asyncio.gather(*(journal.append(orjson.dumps({"n": number})) for number in numbers))


@given(st.binary(max_size=200).filter(lambda data: b"\n" not in data))
def test_a_sealed_payload_comes_back(payload: bytes) -> None:
    assert unseal(seal(payload)) == payload


@given(st.data())
def test_any_flipped_bit_is_noticed(data: st.DataObject) -> None:
    line = bytearray(seal(orjson.dumps({"n": 1, "text": "eleven"})))
    place = data.draw(st.integers(0, len(line) - 2))
    line[place] ^= 1 << data.draw(st.integers(0, 7))
    assert unseal(bytes(line)) is None


def test_rows_are_on_disk_when_append_returns(tmp_path: Path) -> None:
    async def main() -> None:
        async with Journal(tmp_path, commit_seconds=0.01) as journal:
            file, ordinal = await journal.append(b'{"n":1}')
            assert (ordinal, rows_of(tmp_path)) == (0, [1])
            assert file.path.stat().st_size == file.size

    asyncio.run(main())


def test_a_writer_that_is_too_fast_can_wait_for_the_disk(tmp_path: Path) -> None:
    rows = [orjson.dumps({"n": number, "text": "x" * 100_000}) for number in range(60)]

    async def main() -> None:
        async with Journal(tmp_path) as journal:
            held = 0
            for row in rows:
                journal.append_soon(row)
                if journal.behind:
                    held += 1
                    await journal.caught_up()
                    assert not journal.behind
            assert held > 1

    asyncio.run(main())
    assert rows_of(tmp_path) == list(range(60))


def test_a_journal_cut_anywhere_in_its_last_rows_loses_only_the_torn_row(tmp_path: Path) -> None:
    whole = b"".join(seal(orjson.dumps({"n": number})) for number in range(4))
    keep = len(whole) - 2 * len(seal(b'{"n":0}'))
    for length in range(keep, len(whole) + 1):
        folder = tmp_path / str(length)
        folder.mkdir()
        (folder / "0-dead.jsonl").write_bytes(whole[:length])
        complete = whole[:length].count(b"\n")
        asyncio.run(write(folder, [100, 101]))
        # The rows before the cut, and every row written after it, in one journal.
        assert rows_of(folder) == [*range(complete), 100, 101], length
        assert len(list(folder.glob("*.jsonl"))) == 1


def test_what_is_cut_is_counted(tmp_path: Path) -> None:
    (tmp_path / "0-dead.jsonl").write_bytes(seal(b'{"n":0}') + b'{"c":"0000')

    async def main() -> int:
        async with Journal(tmp_path) as journal:
            return journal.statistics().cut_bytes

    assert asyncio.run(main()) == 10


@settings(max_examples=60)
@given(st.data())
def test_a_flipped_byte_costs_only_its_own_row(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("flip")
    lines = [seal(orjson.dumps({"n": number})) for number in range(5)]
    whole = bytearray(b"".join(lines))
    place = data.draw(st.integers(0, len(whole) - 2))
    whole[place] ^= 1 << data.draw(st.integers(0, 7))
    path = folder / "0-dead.jsonl"
    path.write_bytes(whole)
    hurt = place // len(lines[0])
    newline_hurt = place % len(lines[0]) == len(lines[0]) - 1
    file = JournalFile(path)
    found: list[int] = []
    file.read(lambda _, payload: found.append(orjson.loads(payload)["n"]))
    expected = [number for number in range(5) if number != hurt]
    # A damaged byte that has become a newline, or a lost newline, may still leave its row whole.
    assert [number for number in found if number != hurt] == expected
    assert file.damage or newline_hurt
    assert all(number in range(5) for number in found)


@settings(max_examples=200)
@given(st.data())
def test_a_changed_byte_moves_no_other_row(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Rows are named by their places for ever: in the database, in tombstones and in segments."""
    path = tmp_path_factory.mktemp("change") / "0-dead.jsonl"
    lines = [seal(orjson.dumps({"n": number, "text": "x" * number})) for number in range(5)]
    whole = bytearray(b"".join(lines))
    end = len(whole) - 1
    place = data.draw(st.integers(0, end) | st.just(end))
    before = whole[place]
    whole[place] = data.draw(st.just(ord("\n")) | st.integers(0, 255))
    path.write_bytes(whole)

    file = JournalFile(path)
    found: dict[int, int] = {}
    file.read(lambda ordinal, payload: found.update({ordinal: orjson.loads(payload)["n"]}))
    assert all(ordinal == number for ordinal, number in found.items())
    hurt = bytes(whole[:place]).count(b"\n")
    # A lost newline at the very end costs no row.
    lost = set() if whole[place] == before or place == end else {hurt}
    assert set(range(5)) - found.keys() == lost
    assert [ordinal for damage in file.damage for ordinal in damage.ordinals] == sorted(lost)
    assert list(file.offsets) == [sum(map(len, lines[:number])) for number in range(5)]

    async def append() -> int:
        async with Journal(path.parent) as journal:
            _, ordinal = await journal.append(b'{"n":5}')
            return ordinal

    assert asyncio.run(append()) == 5
    again: dict[int, int] = {}
    JournalFile(path).read(
        lambda ordinal, payload: again.update({ordinal: orjson.loads(payload)["n"]})
    )
    assert again == {**found, 5: 5}


def test_two_newlines_lost_in_a_row_cost_two_rows(tmp_path: Path) -> None:
    path = tmp_path / "0-dead.jsonl"
    lines = [seal(orjson.dumps({"n": number})) for number in range(4)]
    path.write_bytes(b"".join([lines[0][:-1], b" ", lines[1][:-1], b" ", *lines[2:]]))
    file = JournalFile(path)
    assert [ordinal for ordinal, _ in file.payloads()] == [2, 3]
    assert [damage.ordinals for damage in file.damage] == [range(2)]
    assert list(file.offsets) == [len(lines[0]) * number for number in range(4)]


def test_a_damaged_row_is_kept_aside_and_named(tmp_path: Path) -> None:
    stream = tmp_path / "answers"
    stream.mkdir()
    path = stream / "0-dead.jsonl"
    good = seal(b'{"n":0}')
    path.write_bytes(good + good.replace(b'"n":0', b'"n":9') + good)
    file = JournalFile(path)
    file.read()
    (told,) = quarantine(tmp_path, file.damage)
    assert f"{path}, line 2 (byte {len(good)})" in told
    (kept,) = (tmp_path / "quarantine").iterdir()
    assert kept.read_bytes() == good.replace(b'"n":0', b'"n":9')


def _write_in_process(folder: Path, first: int) -> None:
    asyncio.run(write(folder, list(range(first, first + 500))))


def test_processes_writing_to_one_folder_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=_write_in_process, args=(tmp_path, first))
        for first in (0, 500, 1000)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert sorted(rows_of(tmp_path)) == list(range(1500))


def test_a_live_journal_is_not_adopted(tmp_path: Path) -> None:
    async def main() -> set[Path]:
        async with Journal(tmp_path) as one, Journal(tmp_path) as other:
            await one.append(b'{"n":1}')
            await other.append(b'{"n":2}')
            return {one.file.path, other.file.path}

    assert len(asyncio.run(main())) == 2
    assert sorted(rows_of(tmp_path)) == [1, 2]


def test_full_journals_are_sealed_in_order_while_writing_goes_on(tmp_path: Path) -> None:
    sealed: list[list[int]] = []

    def keep(file: JournalFile) -> None:
        found: list[int] = []
        JournalFile(file.path).read(lambda _, payload: found.append(orjson.loads(payload)["n"]))
        sealed.append(found)

    async def main() -> None:
        async with Journal(tmp_path, rotate_bytes=400, on_sealed=keep, commit_rows=3) as journal:
            for number in range(60):
                journal.append_soon(orjson.dumps({"n": number}))
                if number % 7 == 0:
                    await journal.flush()

    asyncio.run(main())
    assert len(sealed) > 3
    assert list(chain.from_iterable(sealed)) == list(range(sum(map(len, sealed))))
    assert rows_of(tmp_path) == list(range(60))


def test_an_unwritable_folder_is_a_clear_error(tmp_path: Path) -> None:
    from leakgrid.outcomes import CacheError

    (tmp_path / "file").write_text("")

    async def main() -> None:
        async with Journal(tmp_path / "file" / "answers"):
            pass

    with pytest.raises(CacheError, match="choose another folder with --cache"):
        asyncio.run(main())


def test_an_empty_journal_leaves_no_file(tmp_path: Path) -> None:
    asyncio.run(write(tmp_path, []))
    assert os.listdir(tmp_path) == []
