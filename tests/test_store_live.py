"""Live SQL: the file's tables and views over journals and segments, while others write."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from leakgrid.cache.framing import seal
from leakgrid.cache.journal_file import JournalFile
from leakgrid.cache.segments import seal_journal
from leakgrid.outcomes import StoreError
from leakgrid.store.ingest import ingest, open_file
from leakgrid.store.live import open_live, resolve_query, run_sql
from tests.store_world import World, leak, text_of

REPORTS = Path(__file__).parent.parent / "reports"


def write(world: World, cache: Path, sealed: tuple[str, ...] = ()) -> None:
    """Put a world's rows on disk: one journal a stem, a segment where ``sealed`` names it."""
    for stream, rows in world.rows.items():
        (cache / stream).mkdir(parents=True, exist_ok=True)
        for stem in {row["stem"] for row in rows}:
            path = cache / stream / f"{stem}.jsonl"
            lines = (
                seal(orjson.dumps({k: v for k, v in row.items() if k not in ("stem", "ordinal")}))
                for row in rows
                if row["stem"] == stem
            )
            path.write_bytes(b"".join(lines))
            if stem in sealed:
                journal = JournalFile(path)
                journal.read()
                seal_journal(stream, journal)


@pytest.fixture
def world() -> World:
    world = World()
    column = world.column("m-a", "none", "group")
    world.item("i1", fact="health")
    world.plan()
    world.record(column, "i1", leak("fact", True))
    for number in range(5):
        world.answer(f"old{number}")
    world.answer("old0", kind="attempt", outcome="overload", status=503, body="busy")
    world.stem = "two"
    world.answer("new0")
    world.answer("new1")
    return world


def everything(connection: Any) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of every table and view that file and live share, in a fixed order."""
    names = connection.execute(
        "SELECT table_name FROM information_schema.tables WHERE table_name NOT LIKE 'answers%'"
        " AND table_name NOT IN ('ingested', 'migration', 'views_made')"
    ).fetchall()
    found = {}
    for (name,) in names:
        columns = connection.execute(f"DESCRIBE {name}").fetchall()
        order = ", ".join(sorted(f'"{column[0]}"' for column in columns))
        found[name] = sorted(connection.execute(f"SELECT {order} FROM {name}").fetchall(), key=repr)
    return found


def test_live_shows_what_the_file_shows(world: World, tmp_path: Path) -> None:
    cache = tmp_path / "a [st] 'name'*"
    write(world, cache, sealed=("one",))
    decoy = World()
    decoy.answer("from a folder that the other's name would match as a pattern")
    write(decoy, tmp_path / "a s 'name'", sealed=("one",))
    assert list((cache / "answers").glob("*.parquet"))
    ingest(cache, tmp_path / "x.duckdb", text_of=text_of)
    with open_file(tmp_path / "x.duckdb", 0, read_only=True) as stored:
        expected = everything(stored)
    with open_live(cache, text_of=text_of) as live:
        assert everything(live) == expected
    assert len(expected["response"]) == 7
    assert len(expected["attempt"]) == 1
    assert expected["leak_rate"]


def test_live_follows_a_journal_that_grows_and_is_sealed(world: World, tmp_path: Path) -> None:
    write(world, tmp_path)

    def count() -> int:
        with open_live(tmp_path, text_of=text_of) as live:
            return int(live.execute("SELECT count(*) FROM response").fetchall()[0][0])

    assert count() == 7
    world.answer("new2")
    write(world, tmp_path)
    assert count() == 8
    write(world, tmp_path, sealed=("one", "two"))
    assert count() == 8


def test_live_leaves_out_what_was_forgotten(world: World, tmp_path: Path) -> None:
    write(world, tmp_path, sealed=("one",))
    (tmp_path / "forgotten").mkdir()
    gone = {"stream": "answers", "rows": [["one", 2], ["two", 0]]}
    (tmp_path / "forgotten" / "f.jsonl").write_bytes(seal(orjson.dumps(gone)))
    with open_live(tmp_path, text_of=text_of) as live:
        keys = live.execute("SELECT key FROM response ORDER BY key").fetchall()
    assert [key for (key,) in keys] == ["new1", "old0", "old1", "old3", "old4"]


def test_live_works_while_another_process_holds_the_file(world: World, tmp_path: Path) -> None:
    from tests.test_store_ingest import hold

    write(world, tmp_path / "cache")
    ingest(tmp_path / "cache", tmp_path / "leakgrid.duckdb", text_of=text_of)
    holder = hold(tmp_path / "leakgrid.duckdb")
    try:
        out = io.StringIO()
        run_sql(tmp_path / "cache", "SELECT count(*) AS n FROM reply", out, text_of=text_of)
    finally:
        holder.communicate("\n")
    assert out.getvalue().split() == ["n", "-", "1", "1", "row"]


def test_bodies_are_only_read_when_text_is_asked_for(world: World, tmp_path: Path) -> None:
    write(world, tmp_path, sealed=("one",))
    read: list[str] = []

    def counting(family: str, body: str) -> tuple[str, str]:
        read.append(body)
        return text_of(family, body)

    with open_live(tmp_path, text_of=counting) as live:
        live.execute("SELECT sum(usd), count(*) FROM response").fetchall()
        live.execute("FROM spend").fetchall()
        assert not read
        assert live.execute("SELECT text FROM response WHERE key = 'new1'").fetchall() == [
            ("text of new1",)
        ]
        assert read


def test_an_empty_cache_answers(tmp_path: Path) -> None:
    with open_live(tmp_path) as live:
        assert live.execute("FROM leak_rate").fetchall() == []
        assert live.execute("SELECT count(*) FROM response").fetchall() == [(0,)]


def test_formats(world: World, tmp_path: Path) -> None:
    write(world, tmp_path)
    query = "SELECT 'a, \"b\"\x1b[31m' AS text, 2 AS n, NULL AS nothing, 1.5 AS x, true AS yes"
    outputs = {}
    for fmt in ("table", "csv", "json"):
        out = io.StringIO()
        run_sql(tmp_path, query, out, fmt, text_of=text_of)
        outputs[fmt] = out.getvalue()
    assert "\x1b" not in outputs["table"]
    row = outputs["table"].splitlines()[2]
    assert row.startswith('a, "b"\\x1b[31m ')
    assert row.split()[-4:] == ["2", "-", "1.5", "true"]
    assert outputs["csv"].splitlines()[1] == '"a, ""b""\x1b[31m",2,,1.5,true'
    assert json.loads(outputs["json"]) == {
        "text": 'a, "b"\x1b[31m', "n": 2, "nothing": None, "x": 1.5, "yes": True
    }  # fmt: skip
    with pytest.raises(StoreError, match="table, csv, json"):
        run_sql(tmp_path, query, io.StringIO(), "xml", text_of=text_of)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT modell FROM leak_rate", '"model"'),
        ("SELECT * FROM leak_rates", "leak_rate"),
        ("SELEC 1", "SELEC"),
    ],
)
def test_wrong_sql_is_told_with_candidates(
    world: World, tmp_path: Path, query: str, said: str
) -> None:
    write(world, tmp_path)
    with pytest.raises(StoreError) as told:
        run_sql(tmp_path, query, io.StringIO(), text_of=text_of)
    assert said in str(told.value)
    assert "verdict_now" in str(told.value)


@pytest.mark.parametrize(
    "name",
    [
        "leaks-by-attribute",
        "leaks-by-attribute.sql",
        "reports/leaks-by-attribute.sql",
        str(REPORTS / "leaks-by-attribute.sql"),
    ],
)
def test_shipped_queries_have_names(name: str) -> None:
    assert "FROM leak_rate" in resolve_query(name, REPORTS)


def test_sql_stays_sql_and_wrong_names_list_the_right_ones(tmp_path: Path) -> None:
    assert resolve_query("SELECT 1", REPORTS) == "SELECT 1"
    assert resolve_query("FROM\nrun", REPORTS) == "FROM\nrun"
    own = tmp_path / "mine.sql"
    own.write_text("SELECT 42")
    assert resolve_query(str(own), REPORTS) == "SELECT 42"
    for wrong in ("leaks", "nowhere/leaks.sql"):
        with pytest.raises(StoreError, match=r"leaks-by-attribute.*slowest-calls"):
            resolve_query(wrong, REPORTS)
