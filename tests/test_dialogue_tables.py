"""Dialogues, labels and plans of them land in their tables, and MuPPET's views do not see them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

from leakgrid.store.ingest import ingest, open_file
from leakgrid.store.live import open_live
from leakgrid.store.migrations import read_sql, steps
from tests.dialogue_world import DialogueWorld, LabelWorld, query_of
from tests.store_world import World, leak, text_of
from tests.test_store_live import write

NEW_COLUMNS = ["receiver", "turns", "utterances", "hearings", "reveals", "votes"]


def dialogues() -> DialogueWorld:
    """One planned dialogue of ann with bob: one known attribute of each was disclosed."""
    world = DialogueWorld({"ann": ["a1", "a2"], "bob": ["b1"]}, ["c00"], basic=["a2"])
    world.label("ann", "c00", necessary="a1", inappropriate="a2")
    item = world.instance("ann", "c00", "bob")
    column = world.grid("m-a", "m-b", "pc1", turns=2)
    world.plan()
    world.dialogue(column, item, transcript={"a1": "full", "a2": None}, turns=[{"a1": "full"}, {}])
    world.rows["records"][-1] |= {"receiver": "m-b", "turns": 2}
    return world


def rows(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
    return found


def test_every_new_row_lands_in_its_table_once(tmp_path: Path) -> None:
    world = dialogues()
    counts = ingest(tmp_path, tmp_path / "x.duckdb", **world.tools).rows
    expected = {
        "utterance": 4,  # two rounds of two speakers
        "hearing": 3,
        "reveal": 3,
        "vote": 0,
        "profile_attribute": 3,
        "context": 2,
        "instance": 1,
        "label_given": 2,
        "label_rule": 1,
    }
    assert {table: counts[table] for table in expected} == expected
    assert sum(ingest(tmp_path, tmp_path / "x.duckdb", **world.tools).rows.values()) == 0


def test_values_arrive_as_they_were(tmp_path: Path) -> None:
    ingest(tmp_path, tmp_path / "x.duckdb", **dialogues().tools)
    with open_file(tmp_path / "x.duckdb", 0, read_only=True) as file:
        assert rows(file, "SELECT receiver, turns, condition FROM reply") == [("m-b", 2, "pc1")]
        assert rows(file, "SELECT receiver, turns FROM plan_column") == [("m-b", 2)]
        assert rows(
            file,
            "SELECT turn, speaker, text, outcome, key FROM utterance ORDER BY position LIMIT 2",
        ) == [
            (1, "sender", "sender in 1", "answer", "sender-1"),
            (1, "receiver", "receiver in 1", "answer", "receiver-1"),
        ]
        assert rows(
            file, "SELECT judge, speaker, turn, asked, unknown, whole FROM hearing ORDER BY turn"
        ) == [
            ("j", "sender", 0, 2, 1, True),
            ("j", "sender", 1, 2, 0, True),
            ("j", "sender", 2, 2, 0, True),
        ]
        assert rows(
            file, "SELECT turn, attribute, degree, evidence, why FROM reveal ORDER BY ALL"
        ) == [
            (0, "a1", "full", "about a1", ""),
            (0, "a2", None, "", "not JSON"),
            (1, "a1", "full", "about a1", ""),
        ]
        assert rows(file, "SELECT * EXCLUDE (stem, ordinal) FROM profile_attribute ORDER BY ALL")[
            :2
        ] == [
            ("ann", "a1", "health", "event of a1", False, "a1."),
            ("ann", "a2", "health", "event of a2", True, "a2."),
        ]
        assert rows(file, "SELECT recipient, task FROM context WHERE profile = 'ann'") == [
            ("recipient of c00", "task of c00")
        ]
        assert rows(file, "SELECT item, sender, receiver, context FROM instance") == [
            ("ann>bob/c00", "ann", "bob", "c00")
        ]
        assert rows(
            file, "SELECT attribute, persona, necessary, inappropriate FROM label_given"
        ) == [
            ("a1", "combined", 1.0, 0.0),
            ("a2", "combined", 0.0, 1.0),
        ]
        assert rows(
            file, "SELECT label_job, weights['pragmatic'], threshold, basics FROM label_rule"
        ) == [("", 0.64, 1.0, "exact")]


def test_votes_arrive_and_forgotten_records_go(tmp_path: Path) -> None:
    world = LabelWorld({"ann": ["a1", "a2"]}, ["c00"])
    world.plan_labels()
    world.sample("ann", "c00", "pragmatic", necessary="a1", both="a2")
    ingest(tmp_path, tmp_path / "x.duckdb", **world.tools)
    with open_file(tmp_path / "x.duckdb", 0, read_only=True) as file:
        assert rows(file, "SELECT attribute, said FROM vote ORDER BY position") == [
            ("a1", "necessary"),
            ("a2", "both"),
        ]
    world.gone = {("records", "one", 0)}
    # a reply with its two votes and its call
    assert ingest(tmp_path, tmp_path / "x.duckdb", **world.tools).removed == 4


def test_rows_of_an_older_leakgrid_lack_the_columns_and_are_read(tmp_path: Path) -> None:
    world = dialogues()

    def older(folder: Path, stream: str, skip: Mapping[str, int]) -> Iterator[Any]:
        for batch in world.scan(folder, stream, skip):
            yield batch.drop_columns(NEW_COLUMNS) if stream == "records" else batch

    taken = ingest(tmp_path, tmp_path / "x.duckdb", **{**world.tools, "scan": older}).rows
    assert (taken["reply"], taken["utterance"], taken["reveal"]) == (1, 0, 0)
    with open_file(tmp_path / "x.duckdb", 0, read_only=True) as file:
        assert rows(file, "SELECT receiver, turns FROM reply") == [(None, None)]
        # and a dialogue of which nothing was heard is unknown, not clean
        assert rows(
            file, "SELECT leak_state, leak_full, leak_full_high FROM dialogue_instance"
        ) == [("undefined", None, None)]
        assert rows(
            file, "SELECT completeness_state, completeness, completeness_low, completeness_high"
            " FROM dialogue_instance"
        ) == [("invalid", None, 0.0, 1.0)]  # fmt: skip


def test_a_file_of_schema_version_3_is_brought_up(tmp_path: Path) -> None:
    world = World()
    column = world.column("m-a", "none", "group")
    world.item("i1", fact="health")
    world.plan()
    with duckdb.connect(str(tmp_path / "x.duckdb")) as file:
        file.execute("CREATE TABLE migration (version INTEGER, applied TIMESTAMPTZ)")
        for version, name in enumerate(("schema.sql", "ratings.sql", "probes.sql"), 1):
            file.execute(read_sql(name))
            file.execute("INSERT INTO migration VALUES (?, now())", [version])
        file.execute(
            "INSERT INTO plan_column (stem, ordinal, column_id, model) VALUES ('old', 0, 'c', 'm')"
        )
    world.record(column, "i1", leak("fact", True))
    ingest(tmp_path, tmp_path / "x.duckdb", **world.tools)
    with open_file(tmp_path / "x.duckdb", 0, read_only=True) as file:
        assert rows(file, "SELECT max(version) FROM migration") == [(steps()[-1][0],)]
        assert rows(file, "SELECT model, turns FROM plan_column WHERE stem = 'old'") == [
            ("m", None)
        ]
        assert rows(file, "SELECT leaks, receiver, turns FROM leak_total, cell") == [(1, "", 0)]


def test_live_shows_what_the_file_shows(tmp_path: Path) -> None:
    world = dialogues()
    world.stem = "two"
    world.dialogue(
        world.columns[0]["id"],
        "ann>bob/c00",
        transcript={"a1": "full", "a2": "partial"},
        turns=[{"a1": "partial"}, {"a1": "full", "a2": "partial"}],
        receiver={"b1": "full"},
        receiver_turns=[{}, {"b1": "full"}],
    )
    write(world, tmp_path, sealed=("one",))
    ingest(tmp_path, tmp_path / "x.duckdb", text_of=text_of)
    names = (
        "reply plan_column utterance hearing reveal profile_attribute context instance label_given"
        " label_rule label dialogue_hearing dialogue_degree dialogue_instance dialogue_receiver"
        " dialogue_rate dialogue_by_round"
    ).split()

    def shown(connection: Any) -> dict[str, list[tuple[Any, ...]]]:
        return {name: sorted(rows(connection, f"FROM {name}"), key=repr) for name in names}

    with open_file(tmp_path / "x.duckdb", 0, read_only=True) as stored:
        expected = shown(stored)
    with open_live(tmp_path, text_of=text_of) as live:
        assert shown(live) == expected
    assert all(expected.values())


def test_muppet_views_see_nothing_of_dialogues() -> None:
    world = World()
    column = world.column("m-a", "none", "group")
    world.item("i1", fact="health")
    world.plan(job="muppet")
    world.record(column, "i1", leak("fact", True))
    alone = query_of(world)
    other = dialogues()
    for event in other.rows["runs"]:
        world.event("plan", json.loads(event["payload"]), job="talk")
    world.rows["records"] += [{**row, "stem": "b"} for row in other.rows["records"]]
    together = query_of(world)
    for view in ("leak_unit", "leak_total", "utility_unit", "joint_unit", "disagreement"):
        assert together(f"FROM {view}") == alone(f"FROM {view}"), view
    assert len(alone("FROM leak_unit")) == 1
    assert [row["job"] for row in together("FROM dialogue_instance")] == ["talk"]


def test_views_of_dialogues_are_made_where_there_are_dialogues(tmp_path: Path) -> None:
    world = World()
    world.column("m-a", "none", "group")
    world.item("i1", fact="health")
    world.plan()
    ingest(tmp_path, tmp_path / "x.duckdb", **world.tools)

    def views() -> set[str]:
        with open_file(tmp_path / "x.duckdb", 0, read_only=True) as file:
            found = rows(file, "SELECT view_name FROM duckdb_views() WHERE NOT internal")
            return {name for (name,) in found}

    assert "leak_rate" in views()
    assert "dialogue_rate" not in views()
    other = dialogues()
    world.event("plan", json.loads(other.rows["runs"][0]["payload"]), job="talk")
    ingest(tmp_path, tmp_path / "x.duckdb", **world.tools)
    assert {"leak_rate", "label", "dialogue_rate", "message_rate"} <= views()


def test_a_real_label_file_is_taken_in_within_the_memory_of_an_ingest(tmp_path: Path) -> None:
    keys = [f"attribute_{number}" for number in range(147)]
    world = DialogueWorld({f"p{n}": keys for n in range(10)}, [f"c{n:02}" for n in range(49)])
    world.facts["labels"] = [
        [profile, context, key, persona, 0.5, 0.5]
        for profile, context, *_ in world.facts["contexts"]
        for key in keys[:90]
        for persona in ("fundamentalist", "pragmatic", "unconcerned")
    ]
    world.plan()
    taken = ingest(tmp_path, tmp_path / "x.duckdb", **world.tools).rows
    assert (taken["label_given"], taken["context"]) == (490 * 90 * 3, 490)
