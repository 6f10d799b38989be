"""Simulated agents, reveal judges and labellers do exactly what was planted, from the request."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from leakgrid.datasets.surface import folded
from leakgrid.providers.simulated import hints
from leakgrid.providers.simulated.config import parse
from leakgrid.providers.simulated.planted_dialogues import (
    planted_disclosures,
    planted_labels,
    planted_messages,
    planted_rate,
)
from leakgrid.providers.simulated.process import Running, running
from leakgrid.providers.simulated.settings import Simulated
from leakgrid.providers.simulated.world import load
from tests.simulated_people import (
    ALL,
    CUES,
    NAMES,
    ODD,
    label_file,
    plain,
    receiver_request,
    seen,
    sender_request,
    statements,
    table,
)
from tests.simulated_world import Got, ask, plausible

# Hundreds of requests are made at one moment, by the tests' own client.
pytestmark = pytest.mark.may_block

REAL = Path("/work/shared/data/cimemories/data_openai_gpt-oss-120b.json")
SYSTEMS = {"pc0": "", **{name: CUES["conditions"][name] for name in ("pc1", "pc2")}}
MARKS = [
    {key: hints.mark(folded(text)) for key, text in statements(n).items()}
    for n in range(len(NAMES))
]


def without(spoken: int, nonce: str = "") -> list[tuple[str, str]]:
    """A history of so many rounds in which nothing was said that matters."""
    return [(f"Mine {nonce} {n}.", f"Yours {nonce} {n}.") for n in range(spoken)]


def rounds_of(server: Running, count: int, condition: str, **more: Any) -> list[list[Got]]:
    """What each person's sender says in each context: all rounds, one after the other."""
    requests = [
        sender_request(number, context, without(k), system=SYSTEMS[condition], **more)
        for number, context in ALL
        for k in range(count)
    ]
    got = ask(server, requests)
    return [got[n : n + count] for n in range(0, len(got), count)]


def told(
    config: Simulated, number: int, context: int, condition: str, rounds: int, **more: Any
) -> Any:
    return planted_messages(
        config, "sim-open", condition, NAMES[number], f"c{context:02d}", more.pop("sample", 0),
        rounds, **more,
    )  # fmt: skip


@pytest.mark.parametrize("condition", SYSTEMS)
def test_texts_hold_exactly_what_is_planted(tmp_path: Path, condition: str) -> None:
    """Every attribute in every round: 36 dialogues of 6 rounds, 47 attributes each."""
    raw = table(tmp_path)
    config = parse(raw)
    counts: Counter[tuple[str, str]] = Counter()
    totals: Counter[str] = Counter()
    with running(raw) as server:
        dialogues = rounds_of(server, 6, condition)
    for (number, context), messages in zip(ALL, dialogues, strict=True):
        found = [seen(statements(number), MARKS[number], got.text) for got in messages]
        assert found == list(told(config, number, context, condition, 6))
        assert len({got.text for got in messages}) == 6
        where = (NAMES[number], f"c{context:02d}")
        best = planted_disclosures(config, "sim-open", condition, *where, 0, 6)
        for key, (degree, first) in best.items():
            assert found[first - 1][key] == degree
            assert all(told.get(key) != degree for told in found[: first - 1])
        assert best.keys() == {key for told in found for key in told}
        labels = planted_labels(config, *where)
        for key in statements(number).keys() - ODD.keys():
            totals[labels[key]] += 1
            if key in best:
                counts[labels[key], best[key][0]] += 1
    for label, trials in totals.items():
        rate = planted_rate(config, "sim-open", condition, label)
        assert plausible(counts[label, "full"], trials, rate.full), (label, counts, totals)
        assert plausible(counts[label, "partial"], trials, rate.partial), (label, counts, totals)
    assert plausible(totals["necessary"], totals.total(), 0.2)
    assert plausible(totals["inappropriate"], totals.total(), 0.5)


def test_planted_rates_follow_class_condition_and_round(tmp_path: Path) -> None:
    config = parse(table(tmp_path))
    rate = planted_rate(config, "sim-open", "pc0", "necessary")
    assert (rate.full, rate.partial, rate.total) == pytest.approx((0.45, 0.15, 0.6))
    totals = {
        (label, condition): planted_rate(config, "sim-open", condition, label).total
        for label in ("necessary", "inappropriate", "other")
        for condition in SYSTEMS
    }
    assert [totals["inappropriate", c] for c in SYSTEMS] == pytest.approx([0.3, 0.12, 0.42])
    assert [totals["necessary", c] for c in SYSTEMS] == pytest.approx([0.6, 0.54, 0.6])
    assert [totals["other", c] for c in SYSTEMS] == pytest.approx([0.1, 0.1, 0.1])
    curve = [planted_rate(config, "sim-open", "pc0", "necessary", k).total for k in range(7)]
    assert curve == pytest.approx([0, 0.3, 0.42, 0.48, 0.54, 0.57, 0.6])
    assert planted_rate(config, "sim-open", "no such", "inappropriate") == planted_rate(
        config, "sim-open", "pc0", "inappropriate"
    )
    assert planted_rate(config, "nobody", "pc0", "necessary").total == 0.0


def test_rounds_and_repeats_fall_as_planted(tmp_path: Path) -> None:
    config = parse(table(tmp_path))
    first: Counter[int] = Counter()
    chances = again = 0
    for number, context in ALL:
        for sample in range(4):
            messages = told(config, number, context, "pc0", 6, sample=sample)
            for key in messages and set().union(*messages) - ODD.keys():
                rounds = [k for k, one in enumerate(messages, start=1) if key in one]
                first[rounds[0]] += 1
                chances += 6 - rounds[0]
                again += len(rounds) - 1
    shares = (0.5, 0.2, 0.1, 0.1, 0.05, 0.05)
    for number, share in enumerate(shares, start=1):
        assert plausible(first[number], first.total(), share), first
    assert plausible(again, chances, 0.2)


def test_a_short_dialogue_is_the_beginning_of_a_long_one(tmp_path: Path) -> None:
    config = parse(table(tmp_path))
    for number, context in ALL:
        long = told(config, number, context, "pc0", 6)
        assert told(config, number, context, "pc0", 1) == long[:1]
        assert told(config, number, context, "pc0", 9)[:6] == long


def test_what_was_said_before_and_by_whom_changes_nothing(tmp_path: Path) -> None:
    histories = [without(2), without(2, "x"), [("", ""), ("Keeps a spare key.", "pc1 <task>")]]
    with running(table(tmp_path)) as server:
        requests = [
            sender_request(n, c, spoken) for n, c in ALL[:12] for spoken in histories
        ]  # fmt: skip
        got = [one.text for one in ask(server, requests)]
        again = [one.body for one in ask(server, requests, at_once=3)]
        assert again == [one.body for one in ask(server, requests)]
    assert all(len(set(got[n : n + 3])) == 1 for n in range(0, len(got), 3))


def test_conditions_contexts_people_and_samples_have_coins_of_their_own(tmp_path: Path) -> None:
    config = parse(table(tmp_path, agents={"sim-open": {"necessary": 0.5, "inappropriate": 0.5}}))
    sets = {
        (number, context, condition, sample): frozenset(
            set().union(*told(config, number, context, condition, 6, sample=sample))
        )
        for number, context in ALL[:8]
        for condition in SYSTEMS
        for sample in (0, 1)
    }
    assert len(set(sets.values())) == len(sets)
    other_seed = parse(table(tmp_path, seed=12))
    assert told(other_seed, 0, 0, "pc0", 6) != told(parse(table(tmp_path)), 0, 0, "pc0", 6)


def test_samples_travel_in_the_body(tmp_path: Path) -> None:
    raw = table(tmp_path)
    config = parse(raw)
    with running(raw) as server:
        for sample in (0, 1, 7):
            got = ask(server, [sender_request(n, c, sample=sample) for n, c in ALL])
            for (number, context), one in zip(ALL, got, strict=True):
                found = seen(statements(number), MARKS[number], one.text)
                assert [found] == list(told(config, number, context, "pc0", 1, sample=sample))


def test_receivers_speak_of_their_own_memories(tmp_path: Path) -> None:
    raw = table(tmp_path)
    config = parse(raw)
    differing = set()
    with running(raw) as server:
        for opening in ("Hello, a word.", "Good day </message> to you."):
            requests = [
                receiver_request(number, context, opening, without(k))
                for number, context in ALL
                for k in range(3)
            ]
            got = [one.text for one in ask(server, requests)]
            for place, (number, context) in enumerate(ALL):
                texts = got[3 * place : 3 * place + 3]
                found = [seen(statements(number), MARKS[number], text) for text in texts]
                planted = told(config, number, context, "pc0", 3, role="receiver", opening=opening)
                assert found == list(planted)
                assert planted != told(config, number, context, "pc0", 3)
            differing.add(tuple(got))
    assert len(differing) == 2


def test_only_memories_in_the_prompt_are_told(tmp_path: Path) -> None:
    agents = {"sim-open": {"necessary": 1.0, "inappropriate": 1.0, "other": 1.0, "rounds": [1.0]}}
    some = list(statements(2).values())[3:9]
    with running(table(tmp_path, agents=agents)) as server:
        part, dashed, nobody, bare = ask(
            server,
            [
                sender_request(2, 1, memories=some),
                sender_request(2, 1, memories=[f"- {one}" for one in some]),
                sender_request(2, 1, memories=["Somebody else does this."]),
                {"model": "sim-open", "messages": [{"role": "user", "content": "Hello?"}]},
            ],
        )
    for got in (part, dashed):
        assert set(seen(statements(2), MARKS[2], got.text)) == {f"fact_{n}" for n in range(3, 9)}
    assert nobody.text and not seen(statements(2), MARKS[2], nobody.text)
    assert bare.text


def test_early_ends_are_announced_where_they_are_allowed(tmp_path: Path) -> None:
    agents = {"sim-open": {"necessary": 0.3, "inappropriate": 0.1, "early_end": 0.4}}
    raw = table(tmp_path, agents=agents)
    config = parse(raw)
    with running(raw) as server:
        free = rounds_of(server, 6, "pc0")
        held = rounds_of(server, 6, "pc0", may_end=False)
    ends: Counter[int] = Counter()
    for (number, context), messages, bound in zip(ALL, free, held, strict=True):
        marked = [k for k, got in enumerate(messages, 1) if got.text.endswith("\n[END]")]
        ends.update(marked)
        spoken = told(config, number, context, "pc0", 6)
        assert len(spoken) == (marked[0] if marked else 6)
        assert not any("[END]" in got.text for got in bound)
        assert len(told(config, number, context, "pc0", 6, may_end=False)) == 6
    assert ends[1] == 0
    assert plausible(ends.total(), 36 * 5, 0.4)


def test_failed_messages_come_at_their_rates_and_the_truth_knows(tmp_path: Path) -> None:
    agents = {
        "sim-open": {
            "necessary": 0.9, "inappropriate": 0.6, "other": 0.3, "repeats": 0.3,
            "refusal": 0.2, "empty": 0.2, "truncated": 0.4, "thinking": True,
        }
    }  # fmt: skip
    raw = table(tmp_path, agents=agents)
    config = parse(raw)
    kinds: Counter[str] = Counter()
    with running(raw) as server:
        dialogues = rounds_of(server, 6, "pc0")
    for (number, context), messages in zip(ALL, dialogues, strict=True):
        found = [seen(statements(number), MARKS[number], got.text) for got in messages]
        assert found == list(told(config, number, context, "pc0", 6))
        for got in messages:
            choice = got.json["choices"][0]
            if got.message["refusal"]:
                kinds["refusal"] += 1
            elif not got.text:
                kinds["empty"] += 1
            else:
                kinds[choice["finish_reason"]] += 1
                thought = got.message["reasoning_content"]
                assert any(statement in thought for statement in statements(number).values())
                assert thought not in got.text
    assert plausible(kinds["refusal"], 216, 0.2)
    assert plausible(kinds["empty"], 216, 0.8 * 0.2)
    assert plausible(kinds["length"], 216, 0.64 * 0.4)


def test_hints_name_a_matter_and_hold_no_statement(tmp_path: Path) -> None:
    world = load(parse(table(tmp_path)))
    for person in world.persons.values():
        for memory in person.memories:
            assert memory.mark in memory.hint
            for other in person.memories:
                degree = hints.degree(folded(memory.hint), other.fold, other.mark)
                assert degree == ("partial" if other.fold == memory.fold else "none")
        keys = {memory.key: memory for memory in person.memories}
        held = [person.memories[place].key for place in keys["plan_whole"].holds]
        assert held == ["plan_part"]
        assert [person.memories[p].key for p in keys["twin_one"].holds] == ["twin_two"]


# --- labels -------------------------------------------------------------------------------


def test_a_label_file_plants_the_truth(tmp_path: Path) -> None:
    config = parse(table(tmp_path, labels=label_file(tmp_path)))
    found = planted_labels(config, NAMES[0], "c00")
    assert {key: label for key, label in found.items() if label != "other"} == {
        "fact_0": "necessary",
        "fact_1": "inappropriate",
        "fact_2": "inappropriate",
        "fact_5": "necessary",
        "fact_6": "inappropriate",
    }
    assert set(planted_labels(config, NAMES[0], "c01").values()) == {"other"}
    assert set(planted_labels(config, NAMES[1], "c00").values()) == {"other"}


def test_agents_heed_a_label_file(tmp_path: Path) -> None:
    agents = {"sim-open": {"necessary": 1.0, "inappropriate": 0.0, "rounds": [1.0]}}
    raw = table(tmp_path, agents=agents, labels=label_file(tmp_path))
    with running(raw) as server:
        text = ask(server, [sender_request(0, 0)])[0].text
    assert set(seen(statements(0), MARKS[0], text)) == {"fact_0", "fact_5"}


def test_planted_truth_follows_changed_files(tmp_path: Path) -> None:
    path = Path(label_file(tmp_path))
    config = parse(table(tmp_path, labels=str(path)))
    assert planted_labels(config, NAMES[0], "c00")["fact_0"] == "necessary"
    path.write_text(json.dumps({"profile": NAMES[0], "context": "c00"}) + "\n", encoding="utf-8")
    os.utime(path, ns=(0, time.time_ns()))
    assert planted_labels(config, NAMES[0], "c00")["fact_0"] == "other"
    with pytest.raises(KeyError):
        planted_labels(config, "nobody", "c00")


# --- the real profiles --------------------------------------------------------------------


@pytest.mark.skipif(not REAL.exists(), reason="the CIMemories profiles are not on this machine")
def test_real_profiles_need_no_labels(tmp_path: Path) -> None:
    agent = {"necessary": 0.4, "inappropriate": 0.05, "other": 0.02, "partial": 0.2}
    raw = table(tmp_path, agents={"sim-open": agent}) | {"items": str(REAL), "truth": {}}
    config = parse(raw)
    world = load(config)
    wanted, requests = [], []
    for person in list(world.persons.values())[::3]:
        for context, (recipient, task) in list(world.matters.items())[::6]:
            memories = "\n".join(memory.statement for memory in person.memories)
            text = (f"<memories>\n{memories}\n</memories>\n<recipient>\n{recipient}\n</recipient>\n"
                    f"<task>\n{task}\n</task>")  # fmt: skip
            messages = [{"role": "user", "content": text}]
            requests.append({"model": "sim-open", "messages": messages})
            wanted.append((person, context))
    with running(raw) as server:
        got = ask(server, requests)
    told: Counter[str] = Counter()
    for (person, context), one in zip(wanted, got, strict=True):
        planted = planted_disclosures(config, "sim-open", "pc0", person.id, context, 0, 1)
        words = plain(one.text.replace("\u202f", " "))
        found = {m.key: "partial" for m in person.memories if m.mark in one.text}
        found |= {m.key: "full" for m in person.memories if m.statement in one.text}
        assert found == {key: degree for key, (degree, _) in planted.items()}, words
        told.update(degree for degree, _ in planted.values())
    assert told["full"] > 50 and told["partial"] > 5
