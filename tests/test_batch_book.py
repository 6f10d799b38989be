"""The book of batches survives what a killed process leaves; calls wait on disk."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakgrid.batches.book import Book, call_of, line_of
from leakgrid.batches.lane import half
from leakgrid.batches.pending import Pending, drafts, short_of
from leakgrid.outcomes import CacheError, InputError
from leakgrid.types import Price
from tests.rows import key_of


class Lines:
    """Just the limits and the lines of a service."""

    most_requests = 100
    most_bytes = 10_000

    def line(self, key: str, body: bytes) -> bytes:
        return key.encode() + body + b"\n"


def call(number: int, body: bytes = b'{"x":1}') -> bytes:
    return line_of(key_of(number), "assistant", 0, 100, "job", body)


def intend(book: Book, *numbers: int) -> str:
    draft = book.folder / "draft"
    draft.write_bytes(b"".join(map(call, numbers)))
    return book.intend(draft, len(numbers), 0.5).id


def test_a_book_opened_again_knows_what_is_open_and_how_far_it_came(tmp_path: Path) -> None:
    book = Book(tmp_path)
    one, two, three = intend(book, 1), intend(book, 2, 3), intend(book, 4)
    book.note("uploaded", one, file="f1")
    book.note("created", one, batch="b1")
    book.note("uploaded", two, file="f2")
    book.closed(three, "abandoned", why="no")
    began = book.began
    book.close()
    again = Book(tmp_path)
    assert {name: (i.file, i.batch, i.calls) for name, i in again.live.items()} == {
        one: ("f1", "b1", 1), two: ("f2", "", 2),
    }  # fmt: skip
    assert not any(intent.fresh for intent in again.live.values())
    assert again.began == began
    assert [asked.key for asked, _ in again.calls(two)] == [key_of(2).hex(), key_of(3).hex()]
    again.close()


def test_a_torn_tail_is_cut_and_writing_goes_on(tmp_path: Path) -> None:
    book = Book(tmp_path)
    one = intend(book, 1)
    book.close()
    path = tmp_path / "book.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"c":"0000')
    book = Book(tmp_path)
    book.note("uploaded", one, file="f")
    book.close()
    assert path.read_bytes().startswith(whole)
    book = Book(tmp_path)
    assert book.live[one].file == "f"
    book.close()


def test_a_damaged_event_is_never_guessed(tmp_path: Path) -> None:
    book = Book(tmp_path)
    intend(book, 1)
    book.close()
    path = tmp_path / "book.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"calls":1', b'"calls":2'))
    with pytest.raises(CacheError, match="line 2 is damaged"):
        Book(tmp_path)


def test_a_manifest_that_is_gone_is_told(tmp_path: Path) -> None:
    book = Book(tmp_path)
    one = intend(book, 1)
    book.close()
    book.manifest(one).unlink()
    with pytest.raises(CacheError, match="is missing"):
        Book(tmp_path)


def test_what_a_killed_run_left_lying_is_removed(tmp_path: Path) -> None:
    book = Book(tmp_path)
    one = intend(book, 1)
    book.close()
    for name in ("pending", "taken-1", "taken-1-1", f"{one}.upload", f"{one}.results", "lg9.calls"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "torn").mkdir()
    Book(tmp_path).close()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"book.jsonl", f"{one}.calls", "torn"}


def test_one_process_holds_a_book_and_a_closed_one_writes_nothing(tmp_path: Path) -> None:
    book = Book(tmp_path)
    with pytest.raises(InputError, match="another run"):
        Book(tmp_path)
    book.close()
    with pytest.raises(CacheError, match="closed"):
        book.note("began")
    Book(tmp_path).close()


def test_work_that_is_finished_begins_anew(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.closed(intend(book, 1), "harvested", answered=1)
    assert book.began is not None
    book.note("finished")
    assert book.began is None
    events = [
        json.loads(line)["r"]["event"]
        for line in (tmp_path / "book.jsonl").read_bytes().splitlines()
    ]
    assert events == ["began", "intent", "harvested", "finished"]
    book.close()


BODIES = st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.none()))


@given(role=st.text(), body=BODIES, most=st.none() | st.integers(1, 10**6))
def test_a_call_comes_back_from_its_line_byte_for_byte(
    role: str, body: dict[str, Any], most: int | None
) -> None:
    data = json.dumps(body).encode()
    role += ',"body":{'
    asked, found = call_of(line_of(key_of(1), role, 3, most, "job", data))
    assert found == data
    assert (asked.key, asked.role, asked.sample, asked.most, asked.job, asked.size) == (
        key_of(1).hex(), role, 3, most, "job", len(data),
    )  # fmt: skip


def test_collected_calls_are_cut_into_batches_in_their_order(tmp_path: Path) -> None:
    async def collect() -> Path:
        pending = Pending(tmp_path)
        for number in range(250):
            await pending.add(short_of(key_of(number)), call(number))
        assert len(pending) == 250
        taken = await pending.take()
        assert taken is not None and len(pending) == 0
        assert await pending.take() is None
        return taken

    taken = asyncio.run(collect())
    found = []
    service: Any = Lines()
    for draft in drafts(taken, service, lambda asked: 0.5):
        lines = draft.path.read_bytes().splitlines(keepends=True)
        assert len(lines) == draft.calls == len(draft.shorts) <= 100
        assert draft.ends[-1] == draft.path.stat().st_size
        assert draft.usd[-1] == 0.5 * draft.calls
        found += [call_of(line)[0].key for line in lines]
    assert found == [key_of(number).hex() for number in range(250)]
    assert not taken.exists()


def test_a_draft_is_cut_at_a_call(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_bytes(b"".join(map(call, range(5))))
    service: Any = Lines()
    (draft,) = drafts(taken, service, lambda asked: 1.0)
    draft.cut(2)
    assert draft.path.read_bytes() == call(0) + call(1)
    assert list(draft.usd) == [1.0, 2.0]


def test_half_the_price_has_no_discount_for_cached_input_on_top() -> None:
    assert half(Price(2.0, 8.0, 0.5)) == Price(1.0, 4.0)
    assert half(None) is None
