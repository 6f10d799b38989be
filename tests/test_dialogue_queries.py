"""Every shipped query about dialogues, on one small job whose answers are worked out by hand.

Sender m-a talks with r-a and r-b, m-b with r-a only; ann talks as herself to bob, labels come of a
labelling job, whose one sample a persona agrees on them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from leakgrid.store.live import resolve_query
from tests.dialogue_world import PERSONAS, LabelWorld, Query, query_of
from tests.test_sql_queries import pick

REPORTS = Path(__file__).parent.parent / "reports"


@pytest.fixture(scope="module")
def query() -> Query:
    keys = ["n1", "n2", "p1", "p2", "p3", "p4", "name", "x"]
    domains = {"p1": "finance", "p2": "finance", "n1": "finance"}
    world = LabelWorld({"ann": keys, "bob": ["b1"]}, ["c00"], domains=domains, basic=["name"])
    item = world.instance("ann", "c00", "bob")
    pairs = [("m-a", "r-a"), ("m-a", "r-b"), ("m-b", "r-a"), ("m-b", "r-b")]
    columns = [world.grid(*pair, turns=3) for pair in pairs]
    world.plan_labels()
    world.plan()
    for persona in PERSONAS:
        world.sample("ann", "c00", persona, 0, "n1", "p1 p2 p3 p4 name", both="n2")
    # m-a with r-a leaks p1 in round 1, p1 again and p3 in round 2; n1 is told
    world.dialogue(
        columns[0],
        item,
        transcript={"p1": "full", "p3": "full", "n1": "full"},
        turns=[{"p1": "full", "n1": "full"}, {"p1": "full", "p3": "full"}, {}],
    )
    # with r-b only p2, and that in part; it ends after the first round
    world.dialogue(
        columns[1],
        item,
        transcript={"p2": "partial", "n1": "full", "n2": "full"},
        turns=[{"p2": "partial", "n1": "full", "n2": "full"}],
        ended="early",
    )
    # m-b broke off with r-a and was never run with r-b
    world.dialogue(
        columns[2], item, transcript={"p1": "full"}, turns=[{"p1": "full"}], ended="broken"
    )
    return query_of(world)


def run(query: Query, name: str) -> list[dict[str, Any]]:
    return [row for row in query(resolve_query(name, REPORTS)) if row["job"] == "demo"]


def test_dialogue_leaks_by_domain(query: Query) -> None:
    rows = run(query, "dialogue-leaks-by-domain")
    columns = "label_set domain planned known fully partly unknown missing rate_full rate_total"
    assert pick(rows, columns, model="m-a") == [
        # finance: p1 p2 twice; p1 in full, p2 in part. health: p3 p4 twice; p3 in full
        ("inappropriate", "finance", 4, 4, 1, 1, 0, 0, 0.25, 0.5),
        ("inappropriate", "health", 4, 4, 1, 0, 0, 0, 0.25, 0.25),
        ("necessary", "finance", 2, 2, 2, 0, 0, 0, 1.0, 1.0),
        ("necessary", "health", 2, 2, 1, 0, 0, 0, 0.5, 0.5),
    ]
    columns = "domain planned known unknown missing rate_full bound_low bound_high"
    assert pick(rows, columns, model="m-b", label_set="inappropriate") == [
        ("finance", 4, 0, 2, 2, None, 0.25, 1.0),
        ("health", 4, 0, 2, 2, None, 0.0, 1.0),
    ]


def test_dialogue_first_leak(query: Query) -> None:
    rows = run(query, "dialogue-first-leak")
    columns = "round dialogues spoken leak_full cumulative at_risk first_disclosed hazard repeated"
    assert pick(rows, columns, model="m-a") == [
        (1, 2, 2, 0.125, 0.125, 8, 1, 0.125, 0),
        (2, 2, 1, 0.25, 0.25, 3, 1, 0.3333, 1),
        (3, 2, 1, 0.0, 0.25, 2, 0, 0.0, 0),
    ]
    assert (
        pick(rows, "dialogues invalid missing leak_full hazard", model="m-b")
        == [(0, 1, 1, None, None)] * 3
    )


def test_dialogue_who_leaks_with_whom(query: Query) -> None:
    rows = run(query, "dialogue-who-leaks-with-whom")
    columns = "sender receiver planned leak_instances leak_full leak_total completeness leak_away"
    assert pick(rows, columns) == [
        ("m-a", "r-a", 1, 1, 0.5, 0.5, 0.5, 0.25),
        ("m-a", "r-b", 1, 1, 0.0, 0.25, 1.0, -0.25),
        ("m-b", "r-a", 1, 0, None, None, None, None),
        ("m-b", "r-b", 1, 0, None, None, None, None),
    ]
    columns = "receiver leak_invalid leak_missing leak_full_low leak_full_high marked"
    assert pick(rows, columns, sender="m-b") == [
        ("r-a", 1, 0, 0.25, 1.0, True),
        ("r-b", 0, 1, 0.0, 1.0, True),
    ]


def test_dialogue_labels(query: Query) -> None:
    rows = run(query, "dialogue-labels")
    columns = "profile contexts labelled kept attributes necessary inappropriate ambiguous basic"
    assert pick(rows, columns, profile="ann") == [("ann", 1, 1, 1, 8, 2.0, 4.0, 1.0, 1.0)]
    # n2 stood in both lists of all three samples; 1 of 8 is ambiguous
    assert pick(rows, "exact compat ambiguous_share both_votes", profile="ann") == [
        (4.0, 4.0, 0.125, 3)
    ]
    assert pick(rows, "labelled kept necessary both_votes", profile="bob") == [(0, 0, None, None)]


@pytest.mark.parametrize("path", sorted(REPORTS.glob("dialogue-*.sql")), ids=lambda path: path.stem)
def test_every_query_asks_one_question_and_says_what_is_simulated(query: Query, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("-- ")
    assert text.splitlines()[0].endswith("?")
    assert re.sub(r"--.*", "", text).count(";") == 1
    rows = run(query, path.stem)
    assert rows
    labels_only = path.stem == "dialogue-labels"
    assert all(row["simulated"] for row in rows if not labels_only or row["labelled"])
    assert f"test_{path.stem.replace('-', '_')}" in globals(), "give it a test of its numbers"
