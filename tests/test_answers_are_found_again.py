"""Answers: found by key in journals and segments alike, damaged or forgotten ones asked again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from leakgrid.cache.answers import AnswerCache, load_keys
from leakgrid.cache.cells import DoneCells, load_cells, short
from leakgrid.cache.framing import seal
from leakgrid.cache.journal import Journal
from leakgrid.cache.journal_file import JournalFile
from leakgrid.cache.readers import BLOCKS_KEPT, JournalReader, Recent
from leakgrid.cache.segments import damaged, files, scan, seal_journal, seal_orphans
from leakgrid.cache.spent import spent_usd
from tests.rows import answer_row, key_of, record_row


async def keep(folder: Path, numbers: range, **options: Any) -> None:
    async with AnswerCache(folder, **options) as cache:
        async with asyncio.TaskGroup() as group:
            for number in numbers:
                row = orjson.dumps(answer_row(number))
                group.create_task(cache.keep(key_of(number), row))


async def found(folder: Path, numbers: range) -> list[int]:
    async with AnswerCache(folder) as cache:
        rows = [(number, await cache.find(key_of(number))) for number in numbers]
    for number, row in rows:
        assert row is None or row["body"] == answer_row(number)["body"]
    return [number for number, row in rows if row is not None]


def ordinals(folder: Path, stream: str, skip: dict[str, int] | None = None) -> list[int]:
    return [
        ordinal
        for part in scan(folder, stream, skip or {})
        for ordinal in part.column("ordinal").to_pylist()
    ]


def test_answers_are_found_in_this_run_and_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        async with AnswerCache(tmp_path) as cache:
            assert await cache.find(key_of(1)) is None
            await cache.keep(key_of(1), orjson.dumps(answer_row(1)))
            row = await cache.find(key_of(1))
            assert row is not None and row["usd"] == 0.001

    asyncio.run(main())
    assert asyncio.run(found(tmp_path, range(3))) == [1]


@pytest.mark.may_block  # it makes thousands of tasks at once itself
def test_answers_are_found_after_their_journal_became_a_segment(tmp_path: Path) -> None:
    asyncio.run(keep(tmp_path, range(2500), rotate_bytes=200_000))
    suffixes = {path.suffix for path in files(tmp_path, "answers")}
    assert ".parquet" in suffixes
    asyncio.run(keep(tmp_path, range(2500, 2510)))
    assert asyncio.run(found(tmp_path, range(2515))) == list(range(2510))


def test_answers_are_found_while_their_journal_becomes_a_segment(tmp_path: Path) -> None:
    async def main() -> None:
        async with AnswerCache(tmp_path, rotate_bytes=10_000) as cache:
            for number in range(60):
                await cache.keep(key_of(number), orjson.dumps(answer_row(number)))
                assert await cache.find(key_of(number // 2)) is not None

    asyncio.run(main())
    assert len(files(tmp_path, "answers")) > 2


def test_a_replay_reads_ahead_and_keeps_few_blocks(tmp_path: Path) -> None:
    asyncio.run(keep(tmp_path, range(40), rotate_bytes=10_000))
    asyncio.run(keep(tmp_path, range(40, 700)))

    async def main() -> None:
        async with AnswerCache(tmp_path) as cache:
            for number in range(600):
                assert await cache.find(key_of(number)) is not None
                await asyncio.sleep(0)
            journal = cache._readers[-1]
            assert isinstance(journal, JournalReader)
            assert not journal.has(2), "the last block was read before anyone asked for it"
            blocks: dict[int, int] = {}
            recent = Recent()
            for block in range(BLOCKS_KEPT + 5):
                recent.keep(blocks, block, block)
            assert list(blocks) == list(range(5, BLOCKS_KEPT + 5))

    asyncio.run(main())


def test_failed_attempts_are_kept_and_never_found(tmp_path: Path) -> None:
    async def main() -> None:
        async with AnswerCache(tmp_path) as cache:
            cache.note_attempt(orjson.dumps(answer_row(1, kind="attempt", outcome="transient")))
        async with AnswerCache(tmp_path) as cache:
            assert await cache.find(key_of(1)) is None

    asyncio.run(main())
    assert ordinals(tmp_path, "answers") == [0]


def test_a_damaged_answer_is_asked_again_and_told(tmp_path: Path) -> None:
    asyncio.run(keep(tmp_path, range(3)))
    (path,) = (tmp_path / "answers").glob("*.jsonl")
    data = path.read_bytes()
    path.write_bytes(data.replace(b"text 1", b"text 9"))
    assert asyncio.run(found(tmp_path, range(3))) == [0, 2]

    async def notices() -> list[str]:
        async with AnswerCache(tmp_path) as cache:
            return cache.notices

    (told,) = asyncio.run(notices())
    assert "line 2" in told and "asked again" in told


def damage(path: Path, *lines: int) -> None:
    """Change a digit in the text of these lines (from 0)."""
    parts = path.read_bytes().splitlines(keepends=True)
    for line in lines:
        assert b"text " in parts[line]
        parts[line] = parts[line].replace(b"text ", b"test ", 1)
    path.write_bytes(b"".join(parts))


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("lost", [(0,), (1, 2), (5,), (0, 1, 2, 3, 4, 5)])
def test_rows_keep_their_places_behind_a_damaged_one(
    tmp_path: Path, lost: tuple[int, ...], sealed: bool
) -> None:
    asyncio.run(keep(tmp_path, range(6)))
    (path,) = files(tmp_path, "answers")
    damage(path, *lost)
    if sealed:
        seal_orphans(tmp_path, "answers", 1)
    left = [number for number in range(6) if number not in lost]
    assert ordinals(tmp_path, "answers") == left
    assert ordinals(tmp_path, "answers", {path.stem: 3}) == [at for at in left if at >= 3]
    assert asyncio.run(found(tmp_path, range(6))) == left
    assert damaged(tmp_path) == {("answers", path.stem, ordinal) for ordinal in lost}

    asyncio.run(keep(tmp_path, range(6, 8)))
    new = [6, 7] if not sealed else [0, 1]
    assert ordinals(tmp_path, "answers") == [*left, *new]
    assert asyncio.run(found(tmp_path, range(8))) == [*left, 6, 7]
    # A tombstone behind the damage puts out of use the row that it names.
    asyncio.run(tombstone(tmp_path, "answers", [[path.stem, 4], [path.stem, 5]]))
    left = [number for number in left if number < 4]
    assert ordinals(tmp_path, "answers") == [*left, *new]
    assert asyncio.run(found(tmp_path, range(8))) == [*left, 6, 7]


@pytest.mark.parametrize("sealed", [False, True])
def test_a_damaged_record_moves_no_other_cell(tmp_path: Path, sealed: bool) -> None:
    path = write_records(tmp_path, [record_row(number) for number in range(5)])
    path.write_bytes(path.read_bytes().replace(b"item-1", b"item-7"))
    if sealed:
        seal_orphans(tmp_path, "records", 1)
    assert ordinals(tmp_path, "records") == [0, 2, 3, 4]
    asyncio.run(tombstone(tmp_path, "records", [[path.stem, 3]]))
    assert ordinals(tmp_path, "records") == [0, 2, 4]
    assert DoneCells(tmp_path).column("c" * 32) == {short(key_of(number)) for number in (0, 2, 4)}


def test_an_answer_that_is_damaged_while_a_run_goes_on_is_not_found(tmp_path: Path) -> None:
    """Also where the newline behind the last row of what is read is lost."""
    asyncio.run(keep(tmp_path, range(2)))
    (path,) = files(tmp_path, "answers")

    async def main() -> None:
        async with AnswerCache(tmp_path) as cache:
            path.write_bytes(path.read_bytes()[:-1] + b"!")
            assert await cache.find(key_of(0)) is not None
            assert await cache.find(key_of(1)) is None

    asyncio.run(main())


def test_a_tombstone_beyond_the_last_row_is_no_error(tmp_path: Path) -> None:
    asyncio.run(keep(tmp_path, range(2)))
    (path,) = files(tmp_path, "answers")
    asyncio.run(tombstone(tmp_path, "answers", [[path.stem, 1]]))
    path.write_bytes(path.read_bytes()[:-2])
    assert asyncio.run(found(tmp_path, range(2))) == [0]


def test_a_segment_and_its_journal_side_by_side_count_once(tmp_path: Path) -> None:
    """The moment between the renaming of a segment and the removal of its journal."""
    asyncio.run(keep(tmp_path, range(5)))
    (path,) = (tmp_path / "answers").glob("*.jsonl")
    data = path.read_bytes()
    journal = JournalFile(path)
    journal.read()
    seal_journal("answers", journal)
    path.write_bytes(data)
    assert ordinals(tmp_path, "answers") == [0, 1, 2, 3, 4]
    seal_orphans(tmp_path, "answers", 1 << 30)
    assert not path.exists()
    assert asyncio.run(found(tmp_path, range(5))) == [0, 1, 2, 3, 4]


def test_a_killed_sealing_is_done_again(tmp_path: Path) -> None:
    asyncio.run(keep(tmp_path, range(5)))
    (path,) = (tmp_path / "answers").glob("*.jsonl")
    path.with_suffix(".draft").write_bytes(b"half a parquet file")
    assert asyncio.run(found(tmp_path, range(5))) == [0, 1, 2, 3, 4]
    seal_orphans(tmp_path, "answers", 1)
    assert [path.suffix for path in files(tmp_path, "answers")] == [".parquet"]
    assert asyncio.run(found(tmp_path, range(5))) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("content", [None, b"", b"12345678"])
def test_a_missing_or_wrong_key_file_is_made_again(tmp_path: Path, content: bytes | None) -> None:
    asyncio.run(keep(tmp_path, range(5)))
    seal_orphans(tmp_path, "answers", 1)
    (segment,) = files(tmp_path, "answers")
    beside = segment.with_suffix(".keys")
    load_keys(segment)
    beside.unlink()
    if content is not None:
        beside.write_bytes(content)
    assert asyncio.run(found(tmp_path, range(6))) == [0, 1, 2, 3, 4]


def test_scan_skips_what_was_taken_in_journals_and_segments(tmp_path: Path) -> None:
    asyncio.run(keep(tmp_path, range(2100)))
    (path,) = files(tmp_path, "answers")
    assert ordinals(tmp_path, "answers", {path.stem: 1500}) == list(range(1500, 2100))
    seal_orphans(tmp_path, "answers", 1)
    assert ordinals(tmp_path, "answers", {path.stem: 1500}) == list(range(1500, 2100))
    assert ordinals(tmp_path, "answers", {path.stem: 2100}) == []


async def tombstone(folder: Path, stream: str, places: list[list[object]]) -> None:
    async with Journal(folder / "forgotten") as journal:
        journal.append_soon(orjson.dumps({"stream": stream, "rows": places}))


@pytest.mark.parametrize("sealed", [False, True])
def test_forgotten_answers_are_neither_found_nor_scanned(tmp_path: Path, sealed: bool) -> None:
    asyncio.run(keep(tmp_path, range(4)))
    if sealed:
        seal_orphans(tmp_path, "answers", 1)
    (path,) = files(tmp_path, "answers")
    asyncio.run(tombstone(tmp_path, "answers", [[path.stem, 1], [path.stem, 3]]))
    kept = asyncio.run(found(tmp_path, range(4)))
    assert len(kept) == 2
    assert ordinals(tmp_path, "answers") == [0, 2]


def test_spending_is_summed_over_journals_and_segments(tmp_path: Path) -> None:
    asyncio.run(keep(tmp_path, range(10)))
    seal_orphans(tmp_path, "answers", 1)
    asyncio.run(keep(tmp_path, range(10, 15)))
    assert spent_usd(tmp_path, "j") == pytest.approx(0.015)
    assert spent_usd(tmp_path, "other") == 0


def write_records(folder: Path, rows: list[dict[str, object]]) -> Path:
    path = folder / "records" / "0-dead.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(seal(orjson.dumps(row)) for row in rows))
    return path


@pytest.mark.parametrize("sealed", [False, True])
def test_only_settled_cells_are_done(tmp_path: Path, sealed: bool) -> None:
    one, other = "1" * 32, "2" * 32
    rows = [record_row(1, one), record_row(2, one, settled=False), record_row(3, other)]
    path = write_records(tmp_path, rows)
    if sealed:
        journal = JournalFile(path)
        journal.read()
        load_cells(seal_journal("records", journal))
    done = DoneCells(tmp_path)
    assert done.column(one) == {short(key_of(1))}
    assert done.column(other) == {short(key_of(3))}
    assert done.column("3" * 32) == set()


def test_cells_files_are_made_again_when_they_do_not_fit(tmp_path: Path) -> None:
    path = write_records(tmp_path, [record_row(number) for number in range(5)])
    journal = JournalFile(path)
    journal.read()
    segment = seal_journal("records", journal)
    whole = load_cells(segment)
    for wrong in (b"", b"[]\n12345678", b"not json\n", b'[["c",9]]\n'):
        segment.with_suffix(".cells").write_bytes(wrong)
        assert load_cells(segment) == whole


@pytest.mark.parametrize("sealed", [False, True])
def test_a_forgotten_record_leaves_its_cell_open(tmp_path: Path, sealed: bool) -> None:
    path = write_records(tmp_path, [record_row(1), record_row(2)])
    if sealed:
        journal = JournalFile(path)
        journal.read()
        load_cells(seal_journal("records", journal))
    asyncio.run(tombstone(tmp_path, "records", [[path.stem, 0]]))
    assert DoneCells(tmp_path).column("c" * 32) == {short(key_of(2))}
