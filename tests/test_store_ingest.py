"""Ingest: every row once, whatever interrupts it; forgotten rows go; locks and ages are told."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from leakgrid.outcomes import StoreError
from leakgrid.store.ingest import ingest, rebuild
from tests.store_world import World, leak


@pytest.fixture
def world() -> World:
    world = World()
    world.event(
        "start",
        {
            "job_file": "jobs/demo.toml",
            "argv": ["leakgrid", "run", "jobs/demo.toml"],
            "git": {"commit": "abc", "dirty": True},
            "versions": {"leakgrid": "0.1"},
            "started": "2026-01-02T03:04:05+01:00",
        },
    )
    column = world.column("m-a", "none", "group", note="a toy")
    world.item("i1", fact="health", other="family")
    world.prices = {"m-a": {"input": 1.0, "output": 2.0, "cached": None}}
    world.plan()
    world.event("lanes", {"sim:m-a": {"limit": 8, "sent": 3}})
    world.event("end", {"exit_code": 4, "ended": "2026-01-02T03:05:05+01:00", "sent": 3})
    world.record(
        column,
        "i1",
        leak("fact", True),
        leak("other", None, why="cut"),
        ratings=[{"judge": "use", "useful": None, "why": "cut"}],
        probes=[{"kind": "group", "target": "", "truth": False, "said": True}],
    )
    for number in range(20):
        world.answer(f"k{number}")
    world.answer("k-bad", body="<html>", outcome="invalid")
    world.answer("k0", kind="attempt", outcome="overload", status=503, body="busy")
    return world


def counts(database: Path) -> dict[str, int]:
    tables = (
        "run_start run_end lane_state plan plan_column plan_item item_attribute price"
        " response attempt reply verdict rating probe call"
    ).split()
    with duckdb.connect(str(database), read_only=True) as connection:
        return {
            table: connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
            for table in tables
        }


EXPECTED = {
    "run_start": 1,
    "run_end": 1,
    "lane_state": 1,
    "plan": 1,
    "plan_column": 1,
    "plan_item": 1,
    "item_attribute": 2,
    "price": 1,
    "response": 21,
    "attempt": 1,
    "reply": 1,
    "verdict": 2,
    "rating": 1,
    "probe": 1,
    "call": 1,
}


def test_every_row_lands_in_its_table_once(world: World, tmp_path: Path) -> None:
    database = tmp_path / "out" / "leakgrid.duckdb"
    first = ingest(tmp_path, database, **world.tools)
    assert dict(first.rows) == EXPECTED
    again = ingest(tmp_path, database, **world.tools)
    assert sum(again.rows.values()) == 0
    assert counts(database) == EXPECTED


def test_only_new_rows_of_a_growing_journal_are_taken(world: World, tmp_path: Path) -> None:
    database = tmp_path / "leakgrid.duckdb"
    ingest(tmp_path, database, **world.tools)
    world.answer("k-new")
    world.stem = "two"
    world.answer("k-other-process")
    report = ingest(tmp_path, database, **world.tools)
    assert report.rows["response"] == 2
    assert counts(database)["response"] == 23
    assert sum(ingest(tmp_path, database, **world.tools).rows.values()) == 0


def test_values_arrive_as_they_were(world: World, tmp_path: Path) -> None:
    database = tmp_path / "leakgrid.duckdb"
    ingest(tmp_path, database, **world.tools)
    with duckdb.connect(str(database), read_only=True) as connection:

        def rows(sql: str) -> list[tuple[Any, ...]]:
            return connection.execute(sql).fetchall()

        assert rows("SELECT text, reasoning, status FROM response WHERE key = 'k7'") == [
            ("text of k7", "thought", 200)
        ]
        assert rows("SELECT text, outcome FROM response WHERE key = 'k-bad'") == [("", "invalid")]
        assert rows("SELECT key, outcome, status, body FROM attempt") == [
            ("k0", "overload", 503, "busy")
        ]
        assert rows(
            "SELECT job_file, argv[3], git_commit, git_dirty, versions ->> 'leakgrid',"
            " started::VARCHAR, ended::VARCHAR, exit_code, sent FROM run"
        ) == [
            (
                *("jobs/demo.toml", "jobs/demo.toml", "abc", True, "0.1"),
                *("2026-01-02 02:04:05", "2026-01-02 02:05:05", 4, 3),
            )
        ]
        assert rows("SELECT model, usd_in, usd_out, usd_cached FROM price") == [
            ("m-a", 1.0, 2.0, None)
        ]
        assert rows("SELECT lane, statistics ->> 'limit' FROM lane_state") == [("sim:m-a", "8")]
        assert rows("SELECT column_id, note, judges[1].name, position FROM plan_column") == [
            ("m-a/none/group/0", "a toy", "exact", 1)
        ]
        assert rows("SELECT attribute, leaked, why, item FROM verdict ORDER BY position") == [
            ("fact", True, "", "i1"),
            ("other", None, "cut", "i1"),
        ]
        assert rows("SELECT role, key FROM call") == [("assistant", "key-m-a/none/group/0-i1")]
        assert rows("SELECT epoch(ts) FROM reply") == [(world.rows["records"][0]["ts"],)]


def test_an_interrupted_ingest_takes_nothing_and_loses_nothing(
    world: World, tmp_path: Path
) -> None:
    database = tmp_path / "leakgrid.duckdb"

    def breaking(folder: Path, stream: str, skip: Mapping[str, int]) -> Iterator[Any]:
        for number, rows in enumerate(world.scan(folder, stream, skip)):
            if stream == "answers" and number == 2:
                raise OSError("disk")
            yield rows

    with pytest.raises(OSError, match="disk"):
        ingest(tmp_path, database, **{**world.tools, "scan": breaking})
    assert dict(ingest(tmp_path, database, **world.tools).rows) == EXPECTED
    assert counts(database) == EXPECTED


def test_segments_of_an_older_leakgrid_lack_columns_and_are_taken(
    world: World, tmp_path: Path
) -> None:
    column = "m-a/none/group/0"
    for number in range(8):
        world.record(column, f"i{number}", ratings=[{"judge": "use", "useful": True}])

    def older(folder: Path, stream: str, skip: Mapping[str, int]) -> Iterator[Any]:
        for number, rows in enumerate(world.scan(folder, stream, skip)):
            yield rows.drop_columns(["ratings"]) if (stream, number) == ("records", 0) else rows

    taken = ingest(tmp_path, tmp_path / "mixed.duckdb", **{**world.tools, "scan": older}).rows
    assert (taken["reply"], taken["rating"]) == (9, 2)  # the first batch has seven rows

    def oldest(folder: Path, stream: str, skip: Mapping[str, int]) -> Iterator[Any]:
        for rows in world.scan(folder, stream, skip):
            yield rows.drop_columns(["ratings"]) if stream == "records" else rows

    taken = ingest(tmp_path, tmp_path / "old.duckdb", **{**world.tools, "scan": oldest}).rows
    assert (taken["reply"], taken["rating"], taken["verdict"]) == (9, 0, 2)


def test_a_reader_that_fails_on_one_body_does_not_bar_the_rest(
    world: World, tmp_path: Path
) -> None:
    database = tmp_path / "leakgrid.duckdb"

    def failing(family: str, body: str) -> tuple[str, str]:
        if body == "<html>":
            raise ValueError(body)
        return "fine", ""

    ingest(tmp_path, database, **{**world.tools, "text_of": failing})
    with duckdb.connect(str(database), read_only=True) as connection:
        found = connection.execute("SELECT text, count(*) FROM response GROUP BY ALL ORDER BY ALL")
        assert found.fetchall() == [("", 1), ("fine", 20)]


def test_forgotten_rows_are_removed(world: World, tmp_path: Path) -> None:
    database = tmp_path / "leakgrid.duckdb"
    ingest(tmp_path, database, **world.tools)
    world.gone = {("answers", "one", 3), ("records", "one", 0), ("answers", "elsewhere", 4)}
    report = ingest(tmp_path, database, **world.tools)
    # one response; one reply: two verdicts, a rating, a probe and a call
    assert report.removed == 1 + 6
    left = counts(database)
    assert (left["response"], left["reply"], left["verdict"], left["call"]) == (20, 0, 0, 0)
    with duckdb.connect(str(database), read_only=True) as connection:
        assert not connection.execute("FROM response WHERE key = 'k3'").fetchall()
    assert sum(ingest(tmp_path, database, **world.tools).rows.values()) == 0


def test_rebuild_starts_from_nothing(world: World, tmp_path: Path) -> None:
    database = tmp_path / "leakgrid.duckdb"
    ingest(tmp_path, database, **world.tools)
    with duckdb.connect(str(database)) as connection:
        connection.execute("UPDATE response SET text = 'tampered'")
    rebuild(tmp_path, database, **world.tools)
    assert counts(database) == EXPECTED
    with duckdb.connect(str(database), read_only=True) as connection:
        assert not connection.execute("FROM response WHERE text = 'tampered'").fetchall()
    assert [path.name for path in tmp_path.iterdir()] == ["leakgrid.duckdb"]


def test_rebuild_replaces_a_file_that_is_no_database(world: World, tmp_path: Path) -> None:
    database = tmp_path / "leakgrid.duckdb"
    database.write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError, match="delete the file"):
        ingest(tmp_path, database, **world.tools)
    rebuild(tmp_path, database, **world.tools)
    assert counts(database) == EXPECTED


def test_a_newer_file_is_refused(world: World, tmp_path: Path) -> None:
    database = tmp_path / "leakgrid.duckdb"
    ingest(tmp_path, database, **world.tools)
    with duckdb.connect(str(database)) as connection:
        connection.execute("INSERT INTO migration VALUES (99, now())")
    with pytest.raises(StoreError, match=r"version 99.*update leakgrid"):
        ingest(tmp_path, database, **world.tools)


HOLD = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
"""


def hold(database: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


@pytest.mark.parametrize("function", [ingest, rebuild])
def test_a_locked_file_is_told_with_its_holder(world: World, tmp_path: Path, function: Any) -> None:
    database = tmp_path / "leakgrid.duckdb"
    ingest(tmp_path, database, **world.tools)
    holder = hold(database)
    try:
        with pytest.raises(StoreError, match=rf"in use by .*{holder.pid}.*try again"):
            function(tmp_path, database, patience_s=0.3, **world.tools)
    finally:
        holder.communicate("\n")
    assert counts(database) == EXPECTED


def test_a_lock_that_goes_away_is_waited_for(world: World, tmp_path: Path) -> None:
    database = tmp_path / "leakgrid.duckdb"
    ingest(tmp_path, database, **world.tools)
    world.answer("late")
    releaser = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time, duckdb\n"
            "connection = duckdb.connect(sys.argv[1])\n"
            "print('held', flush=True)\n"
            "time.sleep(1)\n",
            str(database),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert releaser.stdout is not None
    releaser.stdout.readline()
    begun = time.monotonic()
    assert ingest(tmp_path, database, patience_s=20, **world.tools).rows["response"] == 1
    assert time.monotonic() - begun > 0.5
    releaser.communicate()


def test_a_plan_that_does_not_fit_the_usual_memory_is_taken_in_all_the_same(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leakgrid.store.ingest.MEMORY", ("1MB", "500MB"))
    monkeypatch.setattr("leakgrid.store.ingest.COMMIT_ROWS", 1)
    for number in range(30_000):
        world.item(f"item-{number}", secret="health")
    world.plan()
    report = ingest(tmp_path, tmp_path / "x.duckdb", **world.tools)
    assert report.rows["plan_item"] == counts(tmp_path / "x.duckdb")["plan_item"] > 30_000
    assert ingest(tmp_path, tmp_path / "x.duckdb", **world.tools).rows.get("plan_item", 0) == 0

    monkeypatch.setattr("leakgrid.store.ingest.MEMORY", ("1MB",))
    with pytest.raises(duckdb.OutOfMemoryException):
        ingest(tmp_path, tmp_path / "y.duckdb", **world.tools)
