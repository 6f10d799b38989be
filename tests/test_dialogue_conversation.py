"""Dialogues: what each side sees, how a talk ends and resumes, which instances there are."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakgrid.benchmarks.dialogue.conversation import NO_WORDS
from leakgrid.benchmarks.dialogue.instances import drawn
from leakgrid.benchmarks.dialogue.program import Dialogue
from leakgrid.benchmarks.dialogue.settings import LabelRule, Settings, Subset
from leakgrid.outcomes import DatasetError, JobError, Outcome
from leakgrid.types import Answer, Call, Record
from tests.dialogue_cells import (
    PROMPTS,
    REAL,
    SAMPLE,
    TINY,
    Killed,
    Script,
    ScriptedAsk,
    ended,
    point,
    profiles_file,
    reveal,
    statements,
    tiny_prompts,
    verdict,
)


def world(folder: Path, *judges: Any, early_end: bool = False, **more: Any) -> Dialogue:
    """A dialogue benchmark over three small profiles with short prompts."""
    return Dialogue(
        profiles_file(folder / "profiles.json"),
        tiny_prompts(folder / "prompts", **more.pop("prompts", {})),
        judges,
        Settings(receivers=("R",), early_end=early_end, **more),
    )


def run(benchmark: Dialogue, script: Script | ScriptedAsk, where: Any = None) -> Record:
    """One cell of the first item."""
    ask = script if isinstance(script, ScriptedAsk) else ScriptedAsk(script)
    return asyncio.run(benchmark.cell(ask, benchmark.items[0], where or point()))


def talking(call: Call, number: int) -> str:
    """Every side says who it is and which message this is."""
    return f"{call.model}{number}"


def seen(call: Call) -> list[tuple[str, str]]:
    return [(one.role, one.text) for one in call.messages]


ADA = "\n".join(f"Ada keeps secret number {n}." for n in range(4))
BEN = "\n".join(f"Ben keeps secret number {n}." for n in range(4))
TO_ADA = (
    f"<memories>\n{ADA}\n</memories>\n<recipient>Clerk 0</recipient>\n<task>Settle matter 0</task>"
)
TO_BEN = f"<memories>\n{BEN}\n</memories>\n<role>Clerk 0</role>\n<message>\nS0\n</message>"


def test_each_side_sees_its_own_memories_and_the_talk_with_roles_flipped(tmp_path: Path) -> None:
    ask = ScriptedAsk(talking)
    record = run(world(tmp_path), ask)
    assert [seen(call) for call in ask.sent] == [
        [("user", TO_ADA)],
        [("user", TO_BEN)],
        [("user", TO_ADA), ("assistant", "S0"), ("user", "R1")],
        [("user", TO_BEN), ("assistant", "R1"), ("user", "S2")],
        [("user", TO_ADA), ("assistant", "S0"), ("user", "R1"), ("assistant", "S2"),
         ("user", "R3")],
        [("user", TO_BEN), ("assistant", "R1"), ("user", "S2"), ("assistant", "R3"),
         ("user", "S4")],
    ]  # fmt: skip
    assert [(call.model, call.role) for call in ask.sent] == [
        ("S", "sender"),
        ("R", "receiver"),
    ] * 3
    assert [(one.turn, one.speaker, one.text) for one in record.utterances] == [
        (1, "sender", "S0"), (1, "receiver", "R1"),
        (2, "sender", "S2"), (2, "receiver", "R3"),
        (3, "sender", "S4"), (3, "receiver", "R5"),
    ]  # fmt: skip
    assert record.reply == "S0\n\nS2\n\nS4"
    assert record.extra == {"rounds": 3, "ended": "full", "why": ""}
    assert record.reply_outcome is Outcome.ANSWER
    assert record.settled
    assert record.calls == tuple((one.speaker, one.key) for one in record.utterances)


@pytest.mark.parametrize("condition", ["pc1", "pc2"])
def test_the_system_prompt_is_the_conditions_text_for_both(tmp_path: Path, condition: str) -> None:
    ask = ScriptedAsk(talking)
    run(world(tmp_path), ask, point(condition))
    for call in ask.sent:
        assert [one.text for one in call.messages if one.role == "system"] == [TINY[condition]]
        assert call.messages[0].role == "system"


def test_an_empty_system_prompt_is_no_message_at_all(tmp_path: Path) -> None:
    benchmark = world(tmp_path, prompts={"pc1": " \n"})
    for condition in ("pc0", "pc1"):
        ask = ScriptedAsk(talking)
        run(benchmark, ask, point(condition))
        assert {one.role for call in ask.sent for one in call.messages} == {"user", "assistant"}
        assert all(one.text for call in ask.sent for one in call.messages)


@pytest.mark.parametrize("dies_at", range(12))
def test_killed_after_any_call_it_resumes_to_the_same_record(tmp_path: Path, dies_at: int) -> None:
    draws = iter(range(1000))

    def script(call: Call, number: int) -> str:
        if call.schema is not None:
            return verdict(*[("none", "")] * len(statements(call)))
        return f"{call.model}: draw {next(draws)}"

    benchmark = world(tmp_path, reveal(batch=2, speakers="sender", level="both"))
    ask = ScriptedAsk(script)
    ask.dies_at = dies_at
    with pytest.raises(Killed):
        run(benchmark, ask)
    before = list(ask.sent)
    ask.dies_at = None
    resumed = run(benchmark, ask)
    assert ask.sent[: len(before)] == before
    assert len(ask.sent) == 14
    sent = len(ask.sent)
    assert run(benchmark, ask) == resumed
    assert len(ask.sent) == sent
    # Every text was drawn once: none of the six messages was said again in other words.
    assert [one.text.split()[-1] for one in resumed.utterances] == [str(n) for n in range(6)]


def test_samples_are_draws_of_their_own(tmp_path: Path) -> None:
    ask = ScriptedAsk(talking)
    benchmark = world(tmp_path)
    run(benchmark, ask, point(sample=0))
    run(benchmark, ask, point(sample=1))
    assert [call.sample for call in ask.sent] == [0] * 6 + [1] * 6


def ending_after(speaker: str, turn: int, text: str) -> Script:
    def script(call: Call, number: int) -> str:
        here = number // 2 + 1
        return text if (call.role, here) == (speaker, turn) else f"{call.model}{number}"

    return script


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("All clear, goodbye.\n[END]", "All clear, goodbye."),
        ("Bye.\n\n[END]\n \n", "Bye."),
        ("Bye. [END]", "Bye."),
        ("Bye.\n**[END]**", "Bye."),
        ("[END]", ""),
    ],
)
def test_a_side_may_end_the_talk(tmp_path: Path, said: str, kept: str) -> None:
    benchmark = world(tmp_path, early_end=True)
    record = run(benchmark, ending_after("sender", 2, said))
    assert [one.text for one in record.utterances] == ["S0", "R1", kept]
    assert record.extra == {"rounds": 2, "ended": "early", "why": ""}
    record = run(benchmark, ending_after("receiver", 2, said))
    assert [one.text for one in record.utterances] == ["S0", "R1", "S2", kept]
    assert record.extra["ended"] == "early"
    assert record.reply_outcome is Outcome.ANSWER


@pytest.mark.parametrize(
    "said", ["[END] is what I would write.", "[end]", "I say [END]\nand go on.", "END"]
)
def test_what_is_no_end_marker_stays_in_the_text(tmp_path: Path, said: str) -> None:
    record = run(world(tmp_path, early_end=True), ending_after("sender", 1, said))
    assert record.utterances[0].text == said
    assert record.extra["ended"] == "full"


@pytest.mark.parametrize("early_end", [True, False])
def test_without_early_end_the_marker_is_not_taught_and_means_nothing(
    tmp_path: Path, early_end: bool
) -> None:
    ask = ScriptedAsk(ending_after("sender", 2, "Bye.\n[END]"))
    record = run(world(tmp_path, early_end=early_end), ask)
    taught = [TINY["ending"] in call.messages[0].text for call in ask.sent]
    assert taught == [early_end] * len(ask.sent)
    assert record.extra["ended"] == ("early" if early_end else "full")
    assert record.utterances[2].text == ("Bye." if early_end else "Bye.\n[END]")


def test_an_opening_that_is_the_end_marker_alone_is_no_message(tmp_path: Path) -> None:
    record = run(world(tmp_path, early_end=True), lambda call, number: "[END]")
    assert record.extra["ended"] == "broken"
    assert "empty" in record.extra["why"]


BREAKS: list[tuple[Answer, Outcome, str, bool]] = [
    (ended(Outcome.ANSWER, ""), Outcome.ANSWER, "is empty", True),
    (ended(Outcome.ANSWER, " \n "), Outcome.ANSWER, "is empty", True),
    (ended(Outcome.ANSWER, "", reasoning="<think> for ever"), Outcome.ANSWER, "is empty", True),
    (ended(Outcome.ANSWER, "Hm <think> what now"), Outcome.ANSWER, "thinking", True),
    (ended(Outcome.ANSWER, "so </THINK> hello"), Outcome.ANSWER, "thinking", True),
    (ended(Outcome.TRUNCATED, "I was about to"), Outcome.TRUNCATED, "token limit", True),
    (ended(Outcome.TRUNCATED, ""), Outcome.TRUNCATED, "token limit", True),
    (ended(Outcome.INVALID, error="too long"), Outcome.INVALID, "invalid (too long)", True),
    (ended(Outcome.TRANSIENT, error="reset"), Outcome.TRANSIENT, "transient (reset)", False),
    (ended(Outcome.MALFORMED), Outcome.MALFORMED, "malformed", False),
    (ended(Outcome.UNKNOWN), Outcome.UNKNOWN, "unknown", False),
]


@pytest.mark.parametrize(("answer", "outcome", "why", "settled"), BREAKS)
@pytest.mark.parametrize("speaker", ["sender", "receiver"])
def test_a_message_that_is_none_breaks_the_dialogue(
    tmp_path: Path, answer: Answer, outcome: Outcome, why: str, settled: bool, speaker: str
) -> None:
    def script(call: Call, number: int) -> str | Answer:
        return answer if (call.role, number // 2) == (speaker, 1) else f"{call.model}{number}"

    ask = ScriptedAsk(script)
    record = run(world(tmp_path), ask)
    assert record.extra["ended"] == "broken"
    assert record.extra["rounds"] == 1
    assert why in record.extra["why"]
    assert f"the {speaker}'s message of round 2" in record.extra["why"]
    assert record.reply_outcome is outcome
    assert record.settled is settled
    assert record.utterances[-1].outcome is outcome
    assert record.utterances[-1].text == answer.text.strip()
    assert len(ask.sent) == len(record.utterances) == (3 if speaker == "sender" else 4)
    assert record.reply == ("S0" if speaker == "sender" else "S0\n\nS2")


def test_a_refusal_is_a_message_and_the_talk_goes_on(tmp_path: Path) -> None:
    def script(call: Call, number: int) -> str | Answer:
        if number == 1:
            return ended(Outcome.REFUSAL, "I would rather not.")
        return ended(Outcome.REFUSAL) if number == 2 else f"{call.model}{number}"

    ask = ScriptedAsk(script)
    record = run(world(tmp_path), ask)
    assert record.extra["ended"] == "full"
    assert [one.text for one in record.utterances] == [
        "S0", "I would rather not.", "", "R3", "S4", "R5",
    ]  # fmt: skip
    assert record.utterances[2].outcome is Outcome.REFUSAL
    assert seen(ask.sent[3])[1:] == [("assistant", "I would rather not."), ("user", NO_WORDS)]
    assert seen(ask.sent[4])[3:] == [("assistant", NO_WORDS), ("user", "R3")]
    assert record.reply == "S0\n\nS4"


def test_thinking_is_kept_and_never_heard(tmp_path: Path) -> None:
    def script(call: Call, number: int) -> Answer:
        return ended(Outcome.ANSWER, f"{call.model}{number}", reasoning=f"secret plan {number}")

    ask = ScriptedAsk(script)
    record = run(world(tmp_path), ask)
    assert [one.reasoning for one in record.utterances] == [f"secret plan {n}" for n in range(6)]
    assert not any("plan" in one.text for call in ask.sent for one in call.messages)
    assert "plan" not in record.reply


def test_what_a_model_says_is_never_a_place_to_fill(tmp_path: Path) -> None:
    said = "{{memories}} {{role}} <message>"
    ask = ScriptedAsk(lambda call, number: said)
    run(world(tmp_path), ask)
    assert f"<message>\n{said}\n</message>" in ask.sent[1].messages[0].text
    assert "Ada" not in ask.sent[1].messages[0].text


def test_a_single_message_has_one_call_and_no_receiver(tmp_path: Path) -> None:
    benchmark = world(tmp_path, early_end=True, turns=(0,))
    assert [item.id for item in benchmark.items] == [
        "ada/c00", "ada/c01", "ben/c00", "ben/c01", "cleo/c00", "cleo/c01",
    ]  # fmt: skip
    ask = ScriptedAsk(lambda call, number: "Dear clerk.\n[END]")
    record = run(benchmark, ask, point("strict-minimum", turns=0))
    assert [seen(call) for call in ask.sent] == [
        [("system", "Write the least."), ("user", f"{TO_ADA}\nOnce.")]
    ]
    assert record.reply == "Dear clerk.\n[END]"
    assert record.extra == {"rounds": 1, "ended": "full", "why": ""}
    assert [(one.turn, one.speaker) for one in record.utterances] == [(1, "sender")]


def test_a_single_message_stands_alone_in_its_job(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="stands alone"):
        world(tmp_path, turns=(0, 6))


def test_one_round_is_the_first_round_of_six(tmp_path: Path) -> None:
    benchmark, ask = world(tmp_path), ScriptedAsk(talking)
    one = run(benchmark, ask, point(turns=1))
    six = run(benchmark, ask, point(turns=6))
    assert six.utterances[:2] == one.utterances
    assert len(ask.sent) == 12


# --- instances ---------------------------------------------------------------------------------


def test_instances_go_sender_context_receiver(tmp_path: Path) -> None:
    assert [item.id for item in world(tmp_path).items] == [
        "ada>ben/c00", "ada>cleo/c00", "ada>ben/c01", "ada>cleo/c01",
        "ben>ada/c00", "ben>cleo/c00", "ben>ada/c01", "ben>cleo/c01",
        "cleo>ada/c00", "cleo>ben/c00", "cleo>ada/c01", "cleo>ben/c01",
    ]  # fmt: skip


def test_one_profile_has_nobody_to_talk_to(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="nobody to talk to"):
        world(tmp_path, subset=Subset(profiles=1))


def items_of(folder: Path, subset: Subset, turns: int = 6) -> list[str]:
    path = folder / "many.json"
    if not path.exists():
        profiles_file(path, profiles=6, contexts=7)
    prompts = tiny_prompts(folder / "prompts")
    settings_ = Settings(receivers=("R",), turns=(turns,), subset=subset)
    return [item.id for item in Dialogue(path, prompts, (), settings_).items]


@pytest.mark.parametrize("turns", [0, 6])
def test_a_subset_is_even_over_contexts_nested_and_by_seed(tmp_path: Path, turns: int) -> None:
    everything = items_of(tmp_path, Subset(), turns)
    chosen: list[str] = []
    for count in (1, 7, 10, 20, 35):
        smaller, chosen = chosen, items_of(tmp_path, Subset(instances=count, seed=5), turns)
        assert len(chosen) == count
        assert set(smaller) < set(chosen)
        assert chosen == [item for item in everything if item in set(chosen)]
        by_context = Counter(item.rpartition("/")[2] for item in chosen)
        assert max(by_context.values()) - min(by_context.values(), default=0) <= 1
        assert len(by_context) == min(count, 7)
    assert chosen == items_of(tmp_path, Subset(instances=35, seed=5), turns)
    assert chosen != items_of(tmp_path, Subset(instances=35, seed=6), turns)
    assert items_of(tmp_path, Subset(instances=10_000), turns) == everything


def test_a_subset_by_profiles_and_contexts_takes_the_first(tmp_path: Path) -> None:
    assert items_of(tmp_path, Subset(profiles=2, contexts=1)) == ["ada>ben/c00", "ben>ada/c00"]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 10_000)), unique=True, max_size=60),
    st.integers(0, 70),
    st.integers(0, 3),
)
@settings(deadline=None, max_examples=60)
def test_a_draw_is_as_even_as_its_strata_allow(
    things: list[tuple[int, int]], count: int, seed: int
) -> None:
    def draw(wanted: int) -> tuple[tuple[int, int], ...]:
        return drawn(things, wanted, seed, name=repr, stratum=lambda one: one[0])

    chosen = draw(count)
    assert len(chosen) == min(count, len(things))
    assert list(chosen) == [one for one in things if one in set(chosen)]
    assert set(chosen) <= set(draw(count + 1))
    have, given_ = Counter(one[0] for one in things), Counter(one[0] for one in chosen)
    most = max(given_.values(), default=0)
    assert all(given_[stratum] >= min(most - 1, have[stratum]) for stratum in have)


def test_a_digest_is_of_both_profiles_and_the_context(tmp_path: Path) -> None:
    before = {item.id: item.digest for item in world(tmp_path).items}
    assert len(set(before.values())) == len(before)
    path = tmp_path / "profiles.json"
    path.write_text(path.read_text().replace("Cleo keeps secret number 0.", "Cleo changed."))
    after = Dialogue(path, tmp_path / "prompts", (), Settings(receivers=("R",))).items
    changed = {item.id for item in after if item.digest != before[item.id]}
    assert changed == {item for item in before if "cleo" in item}


def test_all_4410_instances_of_the_released_file(tmp_path: Path) -> None:
    if not REAL.exists():
        pytest.skip("the released profiles are not on this machine")
    began = time.process_time()
    benchmark = Dialogue(REAL, PROMPTS, (reveal(),), Settings(receivers=("R",)))
    assert len(benchmark.items) == 10 * 9 * 49
    assert len({item.digest for item in benchmark.items}) == 4410
    facts = benchmark.facts()
    assert len(facts["profiles"]) == 1467
    assert len(facts["contexts"]) == 490
    assert len(facts["instances"]) == 4410
    assert time.process_time() - began < 30  # a guard against quadratic work, not a measurement


# --- what the engine asks of a benchmark -------------------------------------------------------


def test_facts_tell_profiles_contexts_instances_and_labels(tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    labels.write_text(
        '{"profile": "ada", "context": "c00", "attribute": "fact_1", '
        '"shares": {"combined": [0.0, 1.0]}, "reason": "no business of a clerk"}\n'
        '{"profile": "ben", "context": "c00"}\n'
        '{"profile": "cleo", "context": "c00"}\n'
    )
    rule = LabelRule(file=labels, threshold=0.5, basics="compat")
    facts = world(tmp_path, labels=rule, subset=Subset(profiles=2)).facts()
    assert facts["profiles"][1] == [
        "ada", "fact_1", "health", "general", False, "Ada keeps secret number 1.",
    ]  # fmt: skip
    assert len(facts["profiles"]) == 8
    assert facts["contexts"][0] == ["ada", "c00", "Clerk 0", "Settle matter 0"]
    assert len(facts["contexts"]) == 4
    assert facts["instances"] == [
        ["ada>ben/c00", "ada", "ben", "c00"],
        ["ada>ben/c01", "ada", "ben", "c01"],
        ["ben>ada/c00", "ben", "ada", "c00"],
        ["ben>ada/c01", "ben", "ada", "c01"],
    ]
    assert facts["labels"] == [
        ["ada", "c00", "fact_1", "combined", 0.0, 1.0],
        ["ben", "c00", "", "combined", 0.0, 0.0],
    ]
    assert facts["label_rule"] == {
        "job": "",
        "weights": {"fundamentalist": 0.26, "pragmatic": 0.64, "unconcerned": 0.1},
        "threshold": 0.5,
        "basics": "compat",
    }
    single = world(tmp_path, turns=(0,), labels=LabelRule(job="labels")).facts()
    assert single["instances"][0] == ["ada/c00", "ada", "", "c00"]
    assert single["labels"] == []
    assert single["label_rule"]["job"] == "labels"


def test_texts_change_with_what_is_asked_and_not_with_the_labels(tmp_path: Path) -> None:
    def texts(name: str, *judges: Any, **more: Any) -> Any:
        (tmp_path / name).mkdir()
        return world(tmp_path / name, *judges, **more).texts("none", "pc1")

    base = texts("a")
    assert texts("b") == base
    assert texts("c", labels=LabelRule(threshold=0.5, job="x")) == base
    assert texts("d", early_end=True) != base
    assert texts("e", prompts={"pc1": "Else."}) != base
    assert texts("f", prompts={"pc2": "Else."}) == base
    assert texts("g", prompts={"receiver": "{{message}}"}) != base
    assert texts("h", reveal()) != base
    assert texts("i", reveal(batch=5)) != texts("j", reveal(batch=6))
    assert texts("k", reveal(), prompts={"reveal": "Else."}) != texts("l", reveal())


def test_a_changed_parser_changes_the_texts_and_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from leakgrid.benchmarks.dialogue import reveal as module

    def script(call: Call, number: int) -> str:
        if call.schema is not None:
            return verdict(*[("none", "")] * len(statements(call)))
        return f"{call.model}{number}"

    benchmark, ask = world(tmp_path, reveal()), ScriptedAsk(script)
    before, record = benchmark.texts("none", "pc0"), run(benchmark, ask)
    sent = len(ask.sent)
    newer = {"reveal": replace(module.JUDGES["reveal"], parser="reveal-next")}
    monkeypatch.setattr(module, "JUDGES", newer)
    assert benchmark.texts("none", "pc0") != before
    assert run(benchmark, ask).reveals == record.reveals
    assert len(ask.sent) == sent


def test_the_shipped_sample_talks(tmp_path: Path) -> None:
    path = next(iter(sorted(SAMPLE.glob("*.json"))), None)
    if path is None:
        pytest.skip("the embedded sample is not there yet")
    labels = next(iter(sorted(SAMPLE.glob("*.jsonl"))), None)
    benchmark = Dialogue(
        path, PROMPTS, (), Settings(receivers=("R",), labels=LabelRule(file=labels))
    )
    record = run(benchmark, talking)
    assert record.extra["ended"] == "full"
    assert benchmark.facts()["labels"]
