"""Contextual-integrity labels: one call a sample, numbered attributes, and what is no sample."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakgrid.benchmarks.benchmark import Point
from leakgrid.benchmarks.dialogue.labelling import Labelling, read, schema
from leakgrid.benchmarks.dialogue.settings import PERSONAS, Subset
from leakgrid.outcomes import Outcome
from leakgrid.types import Answer, Call, Record, Vote
from tests.dialogue_cells import (
    PROMPTS,
    REAL,
    ScriptedAsk,
    ended,
    profiles_file,
    statements,
    tiny_prompts,
)


def world(folder: Path, conditions: tuple[str, ...] = PERSONAS, **subset: int) -> Labelling:
    return Labelling(
        profiles_file(folder / "profiles.json"),
        tiny_prompts(folder / "prompts"),
        conditions,
        Subset(**subset),
    )


def run(benchmark: Labelling, ask: ScriptedAsk, persona: str = "pragmatic", at: int = 0) -> Record:
    where = Point(model="L", defence="none", condition=persona, sample=at)
    return asyncio.run(benchmark.cell(ask, benchmark.items[0], where))


def said(text: str | Answer) -> ScriptedAsk:
    return ScriptedAsk(lambda call, number: text)


def lists(necessary: Any, inappropriate: Any, **more: Any) -> str:
    return json.dumps({"necessary": necessary, "inappropriate": inappropriate, **more})


def test_items_are_profiles_in_contexts(tmp_path: Path) -> None:
    assert [item.id for item in world(tmp_path).items] == [
        "ada/c00", "ada/c01", "ben/c00", "ben/c01", "cleo/c00", "cleo/c01",
    ]  # fmt: skip
    assert [item.id for item in world(tmp_path, profiles=2, contexts=1).items] == [
        "ada/c00", "ben/c00",
    ]  # fmt: skip
    assert len(world(tmp_path, instances=4, seed=2).items) == 4


def test_one_call_a_sample_with_the_persona_in_the_system_message(tmp_path: Path) -> None:
    benchmark = world(tmp_path)
    for sample, persona in enumerate(PERSONAS):
        ask = said(lists([1, 3], [2]))
        record = run(benchmark, ask, persona, sample)
        (call,) = ask.sent
        word = {"fundamentalist": "Guard.", "pragmatic": "Weigh.", "unconcerned": "Trust."}
        assert [(one.role, one.text) for one in call.messages] == [
            ("system", f"Sort. {word[persona]}"),
            (
                "user",
                "<memories>\n1. Ada keeps secret number 0.\n2. Ada keeps secret number 1.\n"
                "3. Ada keeps secret number 2.\n4. Ada keeps secret number 3.\n</memories>\n"
                "<recipient>Clerk 0</recipient>\n<task>Settle matter 0</task>",
            ),
        ]
        assert (call.model, call.sample, call.schema) == ("L", sample, schema(4))
        assert record.votes == (
            Vote(attribute="fact_0", said="necessary"),
            Vote(attribute="fact_1", said="inappropriate"),
            Vote(attribute="fact_2", said="necessary"),
        )
        assert record.extra == {"parsed": True, "why": "", "asked": 4}
        assert record.calls == ((call.role, record.calls[0][1]),)
        assert record.settled


def test_a_number_in_both_lists_is_both(tmp_path: Path) -> None:
    record = run(world(tmp_path), said(lists([2, 4], [4, 1])))
    assert [(vote.attribute, vote.said) for vote in record.votes] == [
        ("fact_0", "inappropriate"), ("fact_1", "necessary"), ("fact_3", "both"),
    ]  # fmt: skip


def test_nothing_listed_is_a_sample(tmp_path: Path) -> None:
    record = run(world(tmp_path), said(lists([], [])))
    assert record.votes == ()
    assert record.extra == {"parsed": True, "why": "", "asked": 4}


READABLE: list[tuple[str, dict[int, str]]] = [
    (lists([1], [2]), {1: "necessary", 2: "inappropriate"}),
    (lists([1, 1], []), {1: "necessary"}),
    (lists(["3"], [" 4 "]), {3: "necessary", 4: "inappropriate"}),
    (lists([1], [1]), {1: "both"}),
    (lists([1, 1], [1]), {1: "both"}),
    ("```json\n" + lists([1], []) + "\n```", {1: "necessary"}),
    ("I think: " + lists([], [4]) + " and no more.", {4: "inappropriate"}),
    ('{"plan": "sort"} ' + lists([1], []), {1: "necessary"}),
    (lists([1], []) + lists([1], []), {1: "necessary"}),
    (lists([1], [], note="x"), {1: "necessary"}),
]

NO_SAMPLE = [
    "",
    "  \n",
    "null",
    "none",
    "[]",
    "{}",
    "[[1], [2]]",
    "Nothing is inappropriate here.",
    '{"necessary": [1]}',
    '{"inappropriate": [1]}',
    '{"Necessary": [1], "Inappropriate": [2]}',
    lists(None, []),
    lists([], None),
    lists("1", []),
    lists({"1": True}, []),
    lists([0], []),
    lists([5], []),
    lists([], [-1]),
    lists([1.0], []),
    lists([True], []),
    lists([None], []),
    lists([[1]], []),
    lists([{"id": 1}], []),
    lists(["Ada keeps secret number 0."], []),
    lists([1], [])[:-1],
    lists([1], []) + lists([2], []),
    "{'necessary': [], 'inappropriate': []}",
]


@pytest.mark.parametrize(("text", "listed"), READABLE)
def test_lists_are_read(text: str, listed: dict[int, str]) -> None:
    assert read(text, 4) == (listed, "")


@pytest.mark.parametrize("text", NO_SAMPLE)
def test_what_cannot_be_read_as_a_whole_is_no_sample(tmp_path: Path, text: str) -> None:
    listed, why = read(text, 4)
    assert listed == {}
    assert why
    record = run(world(tmp_path), said(text))
    assert record.votes == ()
    assert record.extra == {"parsed": False, "why": why, "asked": 4}
    assert record.settled
    assert record.reply == text


@pytest.mark.parametrize(
    ("outcome", "settled"),
    [
        (Outcome.TRUNCATED, True),
        (Outcome.INVALID, True),
        (Outcome.TRANSIENT, False),
        (Outcome.MALFORMED, False),
    ],
)
def test_a_call_that_fails_is_no_sample(tmp_path: Path, outcome: Outcome, settled: bool) -> None:
    record = run(world(tmp_path), said(ended(outcome, lists([1], []))))
    assert record.votes == ()
    assert record.extra["parsed"] is False
    assert outcome in record.extra["why"]
    assert record.settled is settled
    assert record.reply_outcome is outcome


@given(st.lists(st.integers(-1, 9)), st.lists(st.integers(-1, 9)), st.integers(1, 8))
@settings(deadline=None)
def test_every_number_within_range_is_listed_and_one_outside_spoils_all(
    necessary: list[int], inappropriate: list[int], count: int
) -> None:
    listed, why = read(lists(necessary, inappropriate), count)
    named = {*necessary, *inappropriate}
    if named - set(range(1, count + 1)):
        assert (listed, bool(why)) == ({}, True)
        return
    assert why == ""
    assert set(listed) == named
    for number, label in listed.items():
        inside = (number in necessary, number in inappropriate)
        assert label == {
            (True, False): "necessary", (False, True): "inappropriate", (True, True): "both",
        }[inside]  # fmt: skip


def test_what_the_engine_asks_of_it(tmp_path: Path) -> None:
    benchmark = world(tmp_path, profiles=1)
    facts = benchmark.facts()
    assert len(facts["profiles"]) == 4
    assert facts["contexts"] == [
        ["ada", "c00", "Clerk 0", "Settle matter 0"],
        ["ada", "c01", "Clerk 1", "Settle matter 1"],
    ]
    assert facts["instances"] == [["ada/c00", "ada", "", "c00"], ["ada/c01", "ada", "", "c01"]]
    assert benchmark.attributes() == []
    assert set(benchmark.cues()["conditions"]) == set(PERSONAS)
    texts = {persona: benchmark.texts("none", persona) for persona in PERSONAS}
    assert texts["pragmatic"] != texts["unconcerned"]
    (tmp_path / "else").mkdir()
    other = Labelling(
        tmp_path / "profiles.json",
        tiny_prompts(tmp_path / "else", **{"persona-pragmatic": "Consider."}),
        PERSONAS,
        Subset(),
    )
    assert other.texts("none", "pragmatic") != texts["pragmatic"]
    assert other.texts("none", "unconcerned") == texts["unconcerned"]


def test_the_usual_answer_for_forecasts_is_a_sample(tmp_path: Path) -> None:
    benchmark = world(tmp_path)
    ask = ScriptedAsk(lambda call, number: benchmark.example(call) or "")
    assert run(benchmark, ask).extra["parsed"]


def test_labels_of_a_released_profile(tmp_path: Path) -> None:
    if not REAL.exists():
        pytest.skip("the released profiles are not on this machine")
    benchmark = Labelling(REAL, PROMPTS, PERSONAS, Subset())
    assert len(benchmark.items) == 490

    def script(call: Call, number: int) -> str:
        return lists([1], [len(statements(call, "memories"))])

    record = run(benchmark, ScriptedAsk(script))
    memories = benchmark.items[0].sender.memories
    assert record.votes == (
        Vote(attribute=memories[0].key, said="necessary"),
        Vote(attribute=memories[-1].key, said="inappropriate"),
    )
    assert record.extra["asked"] == len(memories) == 147
