"""Rounds, accumulated violations and totals stand between bounds: all unknown untold, all told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.dialogue_world import DialogueWorld, Query, query_of
from tests.test_report_dialogue import page, read, rows_of
from tests.test_report_page import Page


def values(query: Query, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in query(sql)]


# --- rounds -----------------------------------------------------------------------------------


def rounds() -> DialogueWorld:
    """Four dialogues of three rounds: known, broken after two, one round not heard, not run."""
    world = DialogueWorld({"ann": ["n", "p1", "p2", "p3", "p4"], "bob": ["b"]}, ["c0"])
    world.label("ann", "c0", "n", "p1 p2 p3 p4")
    item = world.instance("ann", "c0", "bob")
    columns = [world.grid("m-a", "m-b", turns=3, sample=number) for number in range(4)]
    world.plan()
    world.dialogue(columns[0], item, turns=[{"p1": "full"}, {}, {}])
    world.dialogue(columns[1], item, turns=[{"p1": "full"}, {"p2": "partial"}], ended="broken")
    world.dialogue(columns[2], item, turns=[{"p1": "full"}, None, {"p2": "full", "p3": None}])
    return world


def test_bounds_of_single_rounds_and_of_all_up_to_them() -> None:
    query = query_of(rounds())
    names = "leak_full_low, leak_full_high, leak_total_low, leak_total_high"
    assert values(
        query, f"SELECT sample, round, heard, {names} FROM dialogue_round ORDER BY sample, round"
    ) == [
        (0, 1, True, 0.25, 0.25, 0.25, 0.25),
        (0, 2, True, 0.0, 0.0, 0.0, 0.0),
        (0, 3, True, 0.0, 0.0, 0.0, 0.0),
        (1, 1, True, 0.25, 0.25, 0.25, 0.25),
        (1, 2, True, 0.0, 0.0, 0.25, 0.25),
        (1, 3, False, 0.0, 1.0, 0.0, 1.0),  # it never came to its third message
        (2, 1, True, 0.25, 0.25, 0.25, 0.25),
        (2, 2, False, 0.0, 1.0, 0.0, 1.0),  # nobody heard it
        (2, 3, True, 0.25, 0.5, 0.25, 0.5),  # p2, and perhaps p3
        (3, 1, False, 0.0, 1.0, 0.0, 1.0),
        (3, 2, False, 0.0, 1.0, 0.0, 1.0),
        (3, 3, False, 0.0, 1.0, 0.0, 1.0),
    ]
    names = ", ".join(
        f"cumulative_leak_{what}_{end}" for what in ("full", "total") for end in ("low", "high")
    )
    assert values(
        query, f"SELECT {names} FROM dialogue_round WHERE sample IN (1, 2) ORDER BY sample, round"
    ) == [
        (0.25, 0.25, 0.25, 0.25),
        (0.25, 0.25, 0.5, 0.5),
        (0.25, 1.0, 0.5, 1.0),
        (0.25, 0.25, 0.25, 0.25),
        (0.25, 1.0, 0.25, 1.0),
        (0.5, 1.0, 0.5, 1.0),  # one round before it was not heard
    ]


def test_a_mean_of_rounds_outside_its_bounds_is_none() -> None:
    query = query_of(rounds())
    names = (
        "round, dialogues, leak_full, leak_full_low, leak_full_high, cumulative_leak_full,"
        " cumulative_leak_full_low, cumulative_leak_full_high, marked"
    )
    assert values(query, f"SELECT {names} FROM dialogue_by_round ORDER BY round") == [
        (1, 1, 0.25, 3 / 16, 7 / 16, 0.25, 3 / 16, 7 / 16, True),
        (2, 1, 0.0, 0.0, 0.5, 0.25, 3 / 16, 0.625, True),
        # only the first is known; but the third told at least one of four: 1/16, never 0
        (3, 1, None, 1 / 16, 0.625, 0.25, 0.25, 13 / 16, True),
    ]


def test_a_part_beside_an_unknown_verdict_in_one_round_may_be_the_whole() -> None:
    world = DialogueWorld({"ann": [f"p{n}" for n in range(10)], "bob": ["b"]}, ["c0"])
    world.label("ann", "c0", "", " ".join(f"p{n}" for n in range(10)))
    item = world.instance("ann", "c0", "bob")
    column = world.grid("m-a", "m-b", turns=1)
    world.plan()
    unsure = {"judge": "j", "speaker": "sender", "turn": 1, "attribute": "p0", "degree": None,
              "evidence": "", "why": "cut", "key": ""}  # fmt: skip
    world.dialogue(column, item, turns=[{"p0": "partial", "p1": "full"}], extra_reveals=[unsure])
    (row,) = query_of(world)("FROM dialogue_round")
    assert row["leak_full"] == pytest.approx(1 / 9)
    assert (row["leak_full_low"], row["leak_full_high"], row["leak_total"]) == (0.1, 0.2, 0.2)
    assert (row["leak_total_low"], row["leak_total_high"]) == (0.2, 0.2)
    assert (row["leak_unknown"], row["leak_told_or_unknown"], row["at_risk"]) == (1, 2, 9)


@pytest.mark.parametrize(
    ("unknown", "marked"), [(0, False), (1, False), (2, True)], ids=["none", "a tenth", "more"]
)
def test_rounds_are_marked_by_unknown_ones_beside_told_ones(unknown: int, marked: bool) -> None:
    keys = [f"p{n}" for n in range(40)]
    world = DialogueWorld({"ann": keys, "bob": ["b"]}, ["c0"])
    world.label("ann", "c0", "", " ".join(keys))
    item = world.instance("ann", "c0", "bob")
    column = world.grid("m-a", "m-b", turns=1)
    world.plan()
    told: dict[str, str | None] = dict.fromkeys(keys[: 10 - unknown], "full")
    world.dialogue(column, item, turns=[told | dict.fromkeys(keys[30 : 30 + unknown])])
    (row,) = query_of(world)("FROM dialogue_by_round")
    assert (row["leak_unknown"], row["leak_told_or_unknown"]) == (unknown, 10)
    assert row["marked"] is marked


def test_the_page_shows_bounds_of_rounds_only_where_something_is_unknown(tmp_path: Path) -> None:
    made = rounds()
    told = read(made, tmp_path / "read")
    first, second, third = told.rounds.by_sender
    assert (first["leak"]["value"], first["leak_low"], first["leak_high"]) == (0.25, 3 / 16, 7 / 16)
    assert (second["cumulative_low"], second["cumulative_high"]) == (3 / 16, 0.625)
    assert third["leak"]["value"] is None and third["marked"]
    assert (third["invalid"], third["missing"], third["defined"]) == (2, 1, 4)
    text = page(made, tmp_path / "open")
    head = Page(text).tables["By sender and round, over"[:18]][0]
    assert head[2:6] == ["round", "leakage of it", "bounds of it", "up to it"]
    rows = rows_of(text, "By sender and round, over")
    assert [row[3:5] for row in rows] == [
        ["25.00 % †", "18.8–43.8 %"],
        ["0.00 % †", "0.0–50.0 %"],
        ["– †", "6.2–62.5 %"],
    ]
    assert rows[2][6] == "25.0–81.2 %"
    assert "Faint bars of both charts" in text
    whole = DialogueWorld({"ann": ["n", "p1"], "bob": ["b"]}, ["c0"])
    whole.label("ann", "c0", "n", "p1")
    item = whole.instance("ann", "c0", "bob")
    column = whole.grid("m-a", "m-b", turns=3)
    whole.plan()
    whole.dialogue(column, item, turns=[{"p1": "full"}, {}, {}])
    text = page(whole, tmp_path / "known")
    assert "bounds of it" not in Page(text).tables["By sender and round, over"[:18]][0]
    assert "†" not in "".join(map("".join, rows_of(text, "By sender and round, over")))


def test_what_a_receiver_tells_stands_between_bounds(tmp_path: Path) -> None:
    world = DialogueWorld({"ann": ["n", "p1"], "bob": ["b1", "b2"]}, ["c0"])
    world.label("ann", "c0", "n", "p1")
    item = world.instance("ann", "c0", "bob")
    columns = [world.grid("m-a", "m-b", turns=1, sample=number) for number in range(2)]
    world.plan()
    world.dialogue(columns[0], item, transcript={}, receiver={"b1": "partial", "b2": None})
    world.dialogue(columns[1], item, transcript={}, receiver={})
    (row,) = read(world, tmp_path / "read").revealed
    # the first told a part of one of two, and perhaps the other in full; the second nothing
    assert (row["reveal_full"]["value"], row["reveal_full_low"]) == (0.0, 0.0)
    assert row["reveal_full_high"] == 0.25
    assert row["reveal_total"]["value"] is None
    assert (row["reveal_total_low"], row["reveal_total_high"]) == (0.25, 0.5)
    table = Page(page(world, tmp_path / "page")).tables["The share of its own memory"[:18]]
    assert table[1][table[0].index("bounds of in full")] == "0.0–25.0 %"
    assert table[1][table[0].index("bounds of in full or part")] == "25.0–50.0 %"


# --- messages ---------------------------------------------------------------------------------


def messages(*, unknown: bool = True) -> DialogueWorld:
    """Two profiles in two contexts: p is inappropriate in both, q in the second only."""
    world = DialogueWorld({name: ["n", "m", "p", "q"] for name in ("ann", "bob")}, ["c0", "c1"])
    for name in ("ann", "bob"):
        world.label(name, "c0", "n m", "p")
        world.label(name, "c1", "n", "p q")
    items = [world.instance(name, c) for name in ("ann", "bob") for c in ("c0", "c1")]
    column = world.grid(condition="base")
    world.plan()
    doubt = None if unknown else "partial"
    world.dialogue(column, items[0], transcript={"p": doubt, "n": "partial", "m": doubt})
    world.dialogue(column, items[1], transcript={"q": "full", "n": "full"})
    world.dialogue(column, items[2], transcript={})
    world.dialogue(column, items[3], transcript={})
    return world


ACCUMULATED = (
    "SELECT tasks, profiles, violation_profiles, violation_full, violation_full_low,"
    " violation_full_high, violation_unknown, inappropriate, violation_marked"
    " FROM message_accumulation ORDER BY tasks"
)


def test_violations_over_tasks_stand_between_bounds() -> None:
    assert values(query_of(messages()), ACCUMULATED) == [
        # ann may have told her only one; bob did not
        (1, 2, 1, 0.0, 0.0, 0.5, 1, 2, True),
        # ann told q and perhaps p, bob nothing: 1/4 to 1/2, so that bob's 0 is no mean
        (2, 2, 1, None, 0.25, 0.5, 1, 4, True),
    ]
    assert values(query_of(messages(unknown=False)), ACCUMULATED) == [
        (1, 2, 2, 0.0, 0.0, 0.0, 0, 2, False),
        (2, 2, 2, 0.25, 0.25, 0.25, 0, 4, False),
    ]


def test_a_message_that_never_came_is_unknown_over_tasks() -> None:
    world = DialogueWorld({"ann": ["p"]}, ["c0", "c1"])
    for context in ("c0", "c1"):
        world.label("ann", context, "", "p")
    items = [world.instance("ann", context) for context in ("c0", "c1")]
    column = world.grid(condition="base")
    world.plan()
    world.dialogue(column, items[0], transcript={})
    assert [row[3:6] for row in values(query_of(world), ACCUMULATED)] == [
        (0.0, 0.0, 0.0),
        (None, 0.0, 1.0),
    ]


TOTALS = ", ".join(
    f"{name}_total{end}" for name in ("violation", "completeness") for end in ("", "_low", "_high")
)


def test_totals_of_messages_stand_between_bounds() -> None:
    query = query_of(messages())
    # ann: q, and perhaps p; completeness of c0: n in part, and perhaps m; of c1 all
    assert values(query, f"SELECT profile, {TOTALS} FROM message_profile ORDER BY profile") == [
        ("ann", None, 0.5, 1.0, 1.0, 0.75, 1.0),
        ("bob", 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    ]
    # bob's 0 is below the bound of both; completeness: 1 of c1 and 0 of bob
    assert values(query, f"SELECT {TOTALS} FROM message_rate") == [
        (None, 0.25, 0.5, 0.5, 0.375, 0.5),
    ]
    # with parts told for certain: ann 2 of 2, and (1 + 1) / 2
    assert values(query_of(messages(unknown=False)), f"SELECT {TOTALS} FROM message_rate") == [
        (0.5, 0.5, 0.5, 0.5, 0.5, 0.5),
    ]


def test_the_page_shows_bounds_of_totals_only_where_something_is_unknown(tmp_path: Path) -> None:
    made = messages()
    (row,) = read(made, tmp_path / "read").messages.rates
    assert row["violation_total"]["value"] is None
    assert (row["violation_total_low"], row["violation_total_high"]) == (0.25, 0.5)
    text = page(made, tmp_path / "open")
    table = Page(text).tables["The paper’s form: every"[:18]]
    assert table[1][table[0].index("bounds of full or partial")] == "25.0–50.0 %"
    assert "Faint areas and bars run from" in text
    text = page(messages(unknown=False), tmp_path / "known")
    assert "bounds of full or partial" not in Page(text).tables["The paper’s form: every"[:18]][0]
    assert "Faint areas" not in text
