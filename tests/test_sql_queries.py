"""Every shipped query, on one small job whose answers are worked out by hand.

Two models, two defences, group and private; judges "exact" and "llm"; items i1 and i2 (health)
and i3 (money). What leaked, by column and item, stands in TOLD as (exact, llm).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from leakgrid.store.live import resolve_query
from tests.store_world import World, leak
from tests.test_sql_views import Query, query_of

REPORTS = Path(__file__).parent.parent / "reports"
Y, N, U = True, False, None
# whether the reply was useful; None of a reply that is there is unknown
USE: dict[tuple[str, str, str], list[bool | None]] = {
    ("m-a", "none", "group"): [Y, N, Y],
    ("m-a", "guard", "group"): [Y, Y, N],
    ("m-b", "none", "group"): [Y, U, N],
}
TOLD: dict[tuple[str, str, str], list[tuple[bool | None, bool | None] | None]] = {
    ("m-a", "none", "group"): [(Y, Y), (Y, Y), (N, Y)],
    ("m-a", "none", "one-to-one"): [(Y, Y), (N, N), (N, U)],
    ("m-a", "guard", "group"): [(N, N), (Y, U), (N, N)],
    ("m-a", "guard", "one-to-one"): [(N, N), (N, N), (N, N)],
    ("m-b", "none", "group"): [(Y, Y), (N, N), None],
    ("m-b", "none", "one-to-one"): [(N, N), (N, Y), (N, N)],
    ("m-b", "guard", "group"): [(N, N), (Y, Y), (N, N)],
    ("m-b", "guard", "one-to-one"): [(N, N), (N, N), (N, N)],
}


# how sure "llm" says it is of its verdicts
SURE = {("m-a", "none", "group"): 5, ("m-b", "none", "one-to-one"): 2}


def probed(number: int, leaked: bool | None) -> dict[str, Any]:
    """What an ablation with error attribution adds to a record: i2 is told apart by one person."""
    people = [
        {"kind": "user", "target": "A", "truth": False, "said": number == 2},
        {"kind": "user", "target": "B", "truth": True, "said": True},
        {"kind": "group", "target": "", "truth": False, "said": False},
    ]
    extra = {
        "probed": "leak" if leaked else "control",
        "topic": "rota" if number < 3 else "travel",
        "asker_informed": number == 1,
        "statistics": {"parties": 5, "facts": 1, "tokens": 400 + number, "density": 2.0},
        "variant": {"base": "b", "arm": "parties", "parties": 2 * number, "tokens": 400},
    }
    return {"probes": people, "extra": json.dumps(extra)}


@pytest.fixture(scope="module")
def query() -> Query:
    world = World()
    judges = [{"name": "exact", "kind": "exact"}, {"name": "llm", "kind": "model"}]
    judges.append({"name": "use", "kind": "utility"})
    for item, category in (("i1", "health"), ("i2", "health"), ("i3", "money")):
        world.item(item, fact=category)
    columns = {where: world.column(*where, judges=judges) for where in TOLD}
    world.plan()
    for where, told in TOLD.items():
        for number, pair in enumerate(told, start=1):
            if pair is not None:
                exact, model = pair
                world.record(
                    columns[where],
                    f"i{number}",
                    leak("fact", exact),
                    leak(
                        "fact",
                        model,
                        judge="llm",
                        why="" if model is not None else "not JSON",
                        score=SURE.get(where),
                    ),
                    ratings=[{"judge": "use", "useful": USE.get(where, [N, N, N])[number - 1]}],
                    **(probed(number, exact) if where == ("m-a", "none", "group") else {}),
                )
    world.answer("key-m-a/none/group/0-i1", latency_ms=900.0)
    world.answer("fast", latency_ms=10.0, usd=0.25)
    failed = {"kind": "attempt", "outcome": "transient", "usd": None, "input": 0, "output": 0}
    world.answer("slow", latency_ms=5000.0, **failed)
    world.answer("judged", latency_ms=50.0, model="j", role="judge:llm", lane="sim:j", usd=None)
    whose = {"job": "demo", "run": "run-1", "lane": "sim:m-a", "simulated": True, "model": "m-a"}
    world.batch_event("intent", "b1", calls=3, usd=0.5, **whose)
    world.batch_event("uploaded", "b1", file="file-1")
    world.batch_event("created", "b1", batch="batch-1")
    world.batch_event("intent", "b2", calls=2, usd=0.25, **whose)
    world.batch_event("harvested", "b1", state="completed", answered=2, failed=1, usd=0.125)
    return query_of(world)


def run(query: Query, name: str) -> list[dict[str, Any]]:
    return query(resolve_query(name, REPORTS))


def pick(rows: list[dict[str, Any]], columns: str, **where: Any) -> list[tuple[Any, ...]]:
    return [
        tuple(row[column] for column in columns.split())
        for row in rows
        if all(row[name] == value for name, value in where.items())
    ]


def test_leaks_by_attribute(query: Query) -> None:
    rows = run(query, "leaks-by-attribute")
    assert len(rows) == 2 * 2 * 2 * 2 * 2
    where = {"model": "m-a", "defence": "none", "condition": "group", "category": "health"}
    # 2 of 2: the Wilson interval starts at n / (n + z * z) = 2 / 5.8415 = 0.3424
    assert pick(rows, "judge planned known leaks unknown missing rate lo hi marked", **where) == [
        ("exact", 2, 2, 2, 0, 0, 1.0, 0.3424, 1.0, False),
        ("llm", 2, 2, 2, 0, 0, 1.0, 0.3424, 1.0, False),
    ]
    where |= {"defence": "guard", "judge": "llm"}
    assert pick(rows, "known leaks unknown rate bound_low bound_high marked", **where) == [
        (1, 0, 1, 0.0, 0.0, 0.5, True)
    ]
    where = {"model": "m-b", "defence": "none", "condition": "group", "category": "money"}
    assert pick(rows, "judge planned known missing rate lo bound_low bound_high", **where) == [
        ("exact", 1, 0, 1, None, None, 0.0, 1.0),
        ("llm", 1, 0, 1, None, None, 0.0, 1.0),
    ]


def test_group_vs_one_to_one(query: Query) -> None:
    rows = run(query, "group-vs-one-to-one")
    columns = "judge pairs unknown both_leak b c neither group_rate one_to_one_rate p"
    assert pick(rows, columns, model="m-a", defence="none") == [
        ("exact", 3, 0, 1, 1, 0, 1, 0.6667, 0.3333, 1.0),
        ("llm", 3, 1, 1, 1, 0, 0, 1.0, 0.5, 1.0),
    ]
    assert pick(rows, columns, model="m-b", defence="none") == [
        ("exact", 3, 1, 0, 1, 0, 1, 0.5, 0.0, 1.0),
        ("llm", 3, 1, 0, 1, 1, 0, 0.5, 0.5, 1.0),
    ]


def test_spend_by_lane(query: Query) -> None:
    rows = run(query, "spend-by-lane")
    columns = "lane requests failed uncounted input_tokens unpriced_tokens usd usd_complete"
    assert pick(rows, columns) == [
        ("sim:m-a", 3, 1, 1, 200, 0, 0.75, True),
        ("sim:j", 1, 0, 0, 100, 110, None, False),
    ]


def test_outcomes_by_model(query: Query) -> None:
    assert pick(run(query, "outcomes-by-model"), "model role kind outcome attempts share") == [
        ("j", "judge:llm", "kept", "answer", 1, 1.0),
        ("m-a", "assistant", "kept", "answer", 2, 0.6667),
        ("m-a", "assistant", "failed", "transient", 1, 0.3333),
    ]


def test_slowest_calls(query: Query) -> None:
    rows = run(query, "slowest-calls")
    assert pick(rows, "key latency_ms kind outcome item defence condition") == [
        ("slow", 5000.0, "failed", "transient", None, None, None),
        ("key-m-a/none/group/0-i1", 900.0, "kept", "answer", "i1", "none", "group"),
        ("judged", 50.0, "kept", "answer", None, None, None),
        ("fast", 10.0, "kept", "answer", None, None, None),
    ]


def test_leaked_by_every_model(query: Query) -> None:
    rows = run(query, "leaked-by-every-model")
    # i2 under guard is not on llm's list: its verdict on m-a is unknown
    assert pick(rows, "judge defence condition item category models") == [
        ("exact", "guard", "group", "i2", "health", 2),
        ("exact", "none", "group", "i1", "health", 2),
        ("llm", "none", "group", "i1", "health", 2),
    ]


def test_unknown_verdicts(query: Query) -> None:
    rows = run(query, "unknown-verdicts")
    assert pick(rows, "judge model defence condition state cell why verdicts example_item") == [
        ("exact", "m-b", "none", "group", "missing", "missing", "not run yet", 1, "i3"),
        ("llm", "m-a", "guard", "group", "unknown", "done", "not JSON", 1, "i2"),
        ("llm", "m-a", "none", "one-to-one", "unknown", "done", "not JSON", 1, "i3"),
        ("llm", "m-b", "none", "group", "missing", "missing", "not run yet", 1, "i3"),
    ]


def test_judge_agreement(query: Query) -> None:
    rows = run(query, "judge-agreement")
    # m-a: 12 pairs, 2 unknown; yes-yes 3, only llm 1, neither 6; chance (3*4 + 7*6) / 100 = 0.54
    # m-b: 12 pairs, 1 missing; yes-yes 2, only llm 1, neither 8; chance (2*3 + 9*8) / 121
    assert pick(rows, "judge_a judge_b model pairs unknown both_leak a_only b_only neither") == [
        ("exact", "llm", "m-a", 12, 2, 3, 0, 1, 6),
        ("exact", "llm", "m-b", 12, 1, 2, 0, 1, 8),
    ]
    assert pick(rows, "agreement kappa") == [
        (0.9, round((0.9 - 0.54) / 0.46, 4)),
        (0.9091, round((10 / 11 - 78 / 121) / (1 - 78 / 121), 4)),
    ]


def test_utility_by_defence(query: Query) -> None:
    rows = run(query, "utility-by-defence")
    assert len(rows) == 8 * 2  # a row a judge of leaks
    where = {"model": "m-a", "defence": "none", "condition": "group"}
    columns = "leak_judge planned known useful unknown missing rate joint joint_rate marked"
    assert pick(rows, columns, **where) == [
        ("exact", 3, 3, 2, 0, 0, 0.6667, 1, 0.3333, False),
        ("llm", 3, 3, 2, 0, 0, 0.6667, 0, 0.0, False),
    ]
    where = {"model": "m-b", "defence": "none", "condition": "group", "leak_judge": "llm"}
    columns = "planned known useful unknown missing rate bound_low bound_high joint marked"
    assert pick(rows, columns, **where) == [(3, 1, 1, 1, 1, 1.0, 0.3333, 1.0, 0, True)]


def test_leak_against_utility(query: Query) -> None:
    rows = run(query, "leak-against-utility")
    columns = "known unknown missing joint useful_leak useless_clean useless_leak"
    rates = "leak_rate utility_rate joint_rate leak_change utility_change"
    where = {"model": "m-a", "condition": "group", "leak_judge": "exact"}
    assert pick(rows, f"defence {columns}", **where) == [
        ("guard", 3, 0, 0, 1, 1, 1, 0),
        ("none", 3, 0, 0, 1, 1, 0, 1),
    ]
    assert pick(rows, rates, **where) == [
        (0.3333, 0.6667, 0.3333, -0.3333, 0.0),
        (0.6667, 0.6667, 0.3333, None, None),
    ]
    # llm left i2 under guard unknown: it is out of every share
    where |= {"leak_judge": "llm", "defence": "guard"}
    assert pick(rows, f"{columns} {rates}", **where) == [
        (2, 1, 0, 1, 0, 1, 0, 0.0, 0.5, 0.5, -1.0, -0.1667)
    ]


def test_why_it_leaked(query: Query) -> None:
    rows = run(query, "why-it-leaked")
    columns = "cause replies probed_replies share"
    assert pick(rows, columns, probed="leak", reading="strict") == [
        ("lost track of users", 1, 2, 0.5),
        ("understanding-action gap", 1, 2, 0.5),
    ]
    # One of two wrong is a balanced accuracy of 0.5, below 0.8, so lenient says the same.
    assert pick(rows, columns, probed="leak", reading="lenient") == [
        ("lost track of users", 1, 2, 0.5),
        ("understanding-action gap", 1, 2, 0.5),
    ]
    assert pick(rows, columns, probed="control", reading="strict") == [
        ("understanding-action gap", 1, 1, 1.0)
    ]


def test_parties_ablation(query: Query) -> None:
    rows = run(query, "parties-ablation")
    columns = "arm parties tokens bases replies known leaks unknown rate"
    assert pick(rows, columns, judge="exact") == [
        ("parties", 2, 400, 1, 1, 1, 1, 0, 1.0),
        ("parties", 4, 400, 1, 1, 1, 1, 0, 1.0),
        ("parties", 6, 400, 1, 1, 1, 0, 0, 0.0),
    ]


def test_condition_statistics(query: Query) -> None:
    rows = run(query, "condition-statistics")
    columns = "condition arm target_parties items parties facts tokens density"
    assert pick(rows, columns) == [
        ("group", "parties", 2 * number, 1, 5.0, 1.0, 400.0 + number, 2.0) for number in (1, 2, 3)
    ]


def test_by_topic(query: Query) -> None:
    rows = run(query, "by-topic")
    columns = "measure judge rater topic planned known hits unknown missing rate"
    where = {"model": "m-b", "defence": "none", "condition": "group"}
    # m-b has no record of i3, whose topic a record of m-a tells
    assert pick([row for row in rows if row["judge"] != "llm"], columns, **where) == [
        ("both", "exact", "use", "rota", 2, 1, 0, 1, 0, 0.0),
        ("both", "exact", "use", "travel", 1, 0, 0, 0, 1, None),
        ("leak", "exact", "", "rota", 2, 2, 1, 0, 0, 0.5),
        ("leak", "exact", "", "travel", 1, 0, 0, 0, 1, None),
        ("useful", "", "use", "rota", 2, 1, 1, 1, 0, 1.0),
        ("useful", "", "use", "travel", 1, 0, 0, 0, 1, None),
    ]


def test_by_group_size(query: Query) -> None:
    rows = run(query, "by-group-size")
    where = {"model": "m-a", "defence": "none", "condition": "group"}
    columns = "measure judge rater people band planned known hits"
    assert pick([row for row in rows if row["judge"] != "llm"], columns, **where) == [
        ("both", "exact", "use", 5, "up to 5", 3, 3, 1),
        ("leak", "exact", "", 5, "up to 5", 3, 3, 2),
        ("useful", "", "use", 5, "up to 5", 3, 3, 2),
    ]


def test_by_asker(query: Query) -> None:
    rows = run(query, "by-asker")
    where = {"model": "m-a", "defence": "guard", "condition": "group", "measure": "leak"}
    assert pick(rows, "judge asker planned known hits unknown bound_high", **where) == [
        ("exact", "did not know", 2, 2, 1, 0, 0.5),
        ("exact", "knew", 1, 1, 0, 0, 0.0),
        ("llm", "did not know", 2, 1, 0, 1, 0.5),
        ("llm", "knew", 1, 1, 0, 0, 0.0),
    ]


def test_still_to_do(query: Query) -> None:
    rows = run(query, "still-to-do")
    assert pick(rows, "model defence condition status reply_outcome cells last_tried") == [
        ("m-b", "none", "group", "missing", None, 1, None)
    ]


def test_batches(query: Query) -> None:
    rows = run(query, "batches")
    columns = "lane state batch calls answered failed ended_as usd_expected usd"
    assert pick(rows, columns) == [
        ("sim:m-a", "written", None, 2, None, None, None, 0.25, None),
        ("sim:m-a", "harvested", "batch-1", 3, 2, 1, "completed", 0.5, 0.125),
    ]
    assert [row["ended"] is None for row in rows] == [True, False]


def test_judge_confidence(query: Query) -> None:
    rows = run(query, "judge-confidence")
    # of the three verdicts of a 2 the second, and of those of a 5 the third, differ from "exact"
    assert pick(rows, "judge score verdicts leaks compared differ share") == [
        ("llm", 2.0, 3, 1, 3, 1, 0.3333),
        ("llm", 5.0, 3, 3, 3, 1, 0.3333),
    ]


OF_MUPPET = sorted(path for path in REPORTS.glob("*.sql") if not path.stem.startswith("dialogue-"))
"""Those of dialogues are checked in test_dialogue_queries.py."""


@pytest.mark.parametrize("path", OF_MUPPET, ids=lambda path: path.stem)
def test_every_query_asks_one_question_and_says_what_is_simulated(query: Query, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("-- ")
    assert text.splitlines()[0].endswith("?")
    assert re.sub(r"--.*", "", text).count(";") == 1
    rows = query(text)
    assert rows
    assert all(row["simulated"] is True and row["job"] == "demo" for row in rows)
    assert f"test_{path.stem.replace('-', '_')}" in globals(), "give it a test of its numbers"
