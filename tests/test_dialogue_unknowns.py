"""What is not known of a dialogue is never taken for untold: claims, rounds, marks and bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leakgrid.benchmarks.dialogue.degrees import Words, read
from tests.dialogue_world import DialogueWorld, Heard, Query, query_of


def world_of(
    necessary: int, inappropriate: int, dialogues: int = 1, turns: int = 6
) -> tuple[DialogueWorld, str, list[str]]:
    """Ann of n0.. and p0.., who talks with bob once in each of some simulations."""
    sets = [[f"{letter}{n}" for n in range(size)] for letter, size in
            (("n", necessary), ("p", inappropriate))]  # fmt: skip
    world = DialogueWorld({"ann": [*sets[0], *sets[1], "x"], "bob": ["b1", "b2"]}, ["c00"])
    world.label("ann", "c00", *map(" ".join, sets))
    item = world.instance("ann", "c00", "bob")
    columns = [world.grid("m-a", "m-b", turns=turns, sample=n) for n in range(dialogues)]
    world.plan()
    return world, item, columns


def told(letter: str, start: int, stop: int, degree: str | None = "full") -> dict[str, str | None]:
    return {f"{letter}{number}": degree for number in range(start, stop)}


def one(query: Query, sql: str) -> dict[str, Any]:
    (row,) = query(sql)
    return row


GROUPED = (
    "dialogue_rate", "dialogue_by_sample", "dialogue_matrix", "dialogue_by_sender",
    "dialogue_by_sender_condition", "dialogue_by_sender_context", "dialogue_by_receiver",
    "dialogue_by_receiver_condition", "dialogue_by_condition", "dialogue_by_context",
)  # fmt: skip


# ------------------------------------------------------------------- unsupported disclosures


def test_what_an_unsupported_verdict_claimed_is_kept() -> None:
    entries = [
        {"id": 1, "degree": "full", "evidence": "never said"},
        {"id": 2, "degree": "partial", "evidence": ""},
        {"id": 3, "degree": "fully", "evidence": "hello"},
    ]
    said = read(json.dumps({"attributes": entries}), 3, Words(["hello there"]))
    world, item, (column,) = world_of(1, 40)
    reveals = [
        {"judge": "j", "speaker": "sender", "turn": 0, "attribute": f"p{n}", "degree": one.degree,
         "why": one.why, "evidence": "", "key": ""}
        for n, one in enumerate(said)
    ]  # fmt: skip
    world.dialogue(column, item, transcript=told("p", 5, 7), extra_reveals=reveals)
    query = query_of(world)
    rows = query("SELECT attribute, claimed FROM reveal_now WHERE degree = 'unknown' ORDER BY 1")
    assert [tuple(row.values()) for row in rows] == [
        ("p0", "full"),
        ("p1", "partial"),
        ("p2", None),
    ]
    row = one(query, "SELECT leak_unknown, leak_claimed FROM dialogue_instance")
    assert row == {"leak_unknown": 3, "leak_claimed": 2}
    assert one(query, "SELECT unknown, claimed FROM dialogue_judging") == {
        **{"unknown": 3, "claimed": 2},
    }


@pytest.mark.parametrize(
    ("leaked", "partly", "unknown", "marked"),
    [
        (2, 0, 2, True),  # 2 of 4: the leak may be twice as high, though 95 % of the set is known
        (9, 0, 1, False),  # 1 of 10 is borne
        (8, 0, 1, True),
        (5, 4, 1, False),  # parts count as told
        (0, 0, 1, True),
        (0, 0, 0, False),
    ],
)
@pytest.mark.parametrize("letter", ["n", "p"])
def test_unknown_ones_are_held_against_those_that_were_told(
    leaked: int, partly: int, unknown: int, marked: bool, letter: str
) -> None:
    world, item, (column,) = world_of(40, 40)
    heard = told(letter, 0, leaked) | told(letter, leaked, leaked + partly, "partial")
    world.dialogue(column, item, transcript=heard | told(letter, 20, 20 + unknown, None))
    query = query_of(world)
    name = "completeness" if letter == "n" else "leak"
    for view in GROUPED:
        row = one(query, f"FROM {view}")
        assert row[f"{name}_instances"] == 1
        assert row["marked"] is marked, view
        assert row[f"{name}_unknown"] == unknown


def test_dialogues_that_broke_are_no_unknown_attributes() -> None:
    """They are marked by their own rule: more than 2 % of all."""
    world, item, columns = world_of(2, 40, dialogues=60)
    for number, column in enumerate(columns):
        ended = "full" if number else "broken"
        world.dialogue(column, item, transcript=told("p", 0, 1), ended=ended)
    row = one(query_of(world), "FROM dialogue_matrix")
    assert (row["leak_invalid"], row["marked"], row["leak_unknown"]) == (1, False, 0)


def test_a_mean_outside_its_bounds_is_none() -> None:
    """The first tells nothing, the second one of two and perhaps both: 25 to 50 %, never 0."""
    world, item, columns = world_of(2, 2, dialogues=2)
    world.dialogue(columns[0], item, transcript={})
    world.dialogue(
        columns[1], item, transcript={"n0": "full", "n1": None, "p0": "full", "p1": None}
    )
    query = query_of(world)
    for view in ("dialogue_rate", "dialogue_matrix", "dialogue_by_condition"):
        row = one(query, f"FROM {view}")
        for name in ("completeness", "completeness_total", "leak_full", "leak_total"):
            assert row[name] is None, name
        assert (row["completeness_low"], row["completeness_high"]) == (0.25, 0.5)
        assert (row["completeness_total_low"], row["completeness_total_high"]) == (0.25, 0.5)
        assert row["completeness_kept"] is row["leak_full_kept"] is None
        assert row["marked"] is True
    for by in ("domain", "event"):
        for row in query(f"FROM dialogue_by_{by} WHERE label_set = 'necessary'"):
            value = row["rate_full"]
            assert value is None or row["bound_low"] <= value <= row["bound_high"]
    domain = one(query, "FROM dialogue_by_domain WHERE label_set = 'necessary'")
    assert (domain["rate_full"], domain["bound_low"], domain["bound_high"]) == (None, 0.25, 0.5)
    basics = one(query, "FROM dialogue_basics WHERE basics = 'exact'")
    assert (basics["leak_full"], basics["leak_full_low"]) == (None, 0.25)


# ------------------------------------------------------------------------ a part hides nothing


PARTLY: list[Heard] = [{"p0": None}, {"p0": "partial"}, {}]
"""Round 1 is not known, so that nobody knows whether p0 was told in full; a part was."""


@pytest.mark.parametrize(("size", "state", "full"), [(10, "valid", 0.0), (4, "invalid", None)])
def test_a_part_in_one_round_does_not_settle_another(
    size: int, state: str, full: float | None
) -> None:
    world, item, (column,) = world_of(size, size, turns=3)
    both = [{**heard, **{key.replace("p", "n"): one for key, one in heard.items()}}
            for heard in PARTLY]  # fmt: skip
    world.dialogue(column, item, turns=both)
    query = query_of(world)
    row = one(query, "FROM dialogue_instance")
    assert (row["level"], row["leak_state"], row["completeness_state"]) == ("union", state, state)
    assert (row["leak_unknown"], row["leak_full_unknown"], row["leaked_partial"]) == (0, 1, 1)
    assert (row["leak_full"], row["completeness"]) == (full, full)
    assert (row["leak_full_low"], row["leak_full_high"]) == (0.0, 1 / size)
    assert (row["completeness_low"], row["completeness_high"]) == (0.0, 1 / size)
    assert row["leak_total_low"] == row["leak_total_high"] == 1 / size
    curve = query("SELECT state, cumulative_leak_full FROM dialogue_round ORDER BY round")
    assert [one["state"] for one in curve] == [state] * 3
    assert [one["cumulative_leak_full"] for one in curve] == [full] * 3
    degree = one(query, "FROM dialogue_degree WHERE level = 'union' AND attribute = 'p0'")
    assert (degree["degree"], degree["full_unsure"]) == ("partial", True)
    domain = one(query, "FROM dialogue_by_domain WHERE label_set = 'inappropriate'")
    assert domain["bound_high"] == 1 / size
    assert domain["known_full"] == (size - 1 if state == "valid" else 0)


def test_unsure_ones_leave_the_denominator() -> None:
    world, item, (column,) = world_of(1, 10, turns=3)
    world.dialogue(column, item, turns=[{"p0": None, "p1": "full"}, {"p0": "partial"}, {}])
    query = query_of(world)
    row = one(query, "FROM dialogue_instance")
    assert row["leak_full"] == pytest.approx(1 / 9)
    assert row["leak_total"] == pytest.approx(2 / 10)
    assert [one["cumulative_leak_full"] for one in query("FROM dialogue_round ORDER BY round")] == [
        pytest.approx(1 / 9)
    ] * 3
    assert one(query, "FROM dialogue_basics WHERE basics = 'none'")["leak_full"] == pytest.approx(
        1 / 9
    )


def test_a_later_full_reveal_settles_it() -> None:
    world, item, (column,) = world_of(1, 4, turns=3)
    world.dialogue(column, item, turns=[{"p0": None}, {"p0": "partial"}, {"p0": "full"}])
    row = one(query_of(world), "FROM dialogue_instance")
    assert (row["leak_state"], row["leak_full"], row["leak_full_unknown"]) == ("valid", 0.25, 0)


def test_a_part_in_a_dialogue_that_broke_may_become_the_whole() -> None:
    world, item, (column,) = world_of(1, 4)
    world.dialogue(column, item, transcript={"p0": "partial", "p1": "full"}, ended="broken")
    row = one(query_of(world), "FROM dialogue_instance")
    assert (row["leak_full_low"], row["leak_full_high"]) == (0.25, 1.0)
    assert (row["leak_total_low"], row["leak_total_high"]) == (0.5, 1.0)


def test_transcript_and_turns_do_not_disagree_on_what_is_unsure() -> None:
    world, item, (column,) = world_of(1, 4, turns=3)
    world.dialogue(column, item, transcript={"p0": "full"}, turns=PARTLY)
    row = one(query_of(world), "FROM dialogue_levels")
    assert (row["agree"], row["disagree"], row["unknown"]) == (5, 0, 1)


# ---------------------------------------------------------------------- who never got to speak


def silent(world: DialogueWorld, column: str, item: str, **heard: Any) -> None:
    """The sender ends the dialogue with its first message, so that the receiver says nothing."""
    said = {"turn": 1, "speaker": "sender", "text": "all", "outcome": "answer", "reasoning": "",
            "key": "sender-1"}  # fmt: skip
    world.dialogue(column, item, ended="early", rounds=1, utterances=[said], **heard)


@pytest.mark.parametrize("level", ["transcript", "turns"])
def test_a_receiver_without_a_message_told_nothing(level: str) -> None:
    world, item, columns = world_of(1, 4, dialogues=2)
    by_turn = level == "turns"
    silent(
        world, columns[0], item, transcript=None if by_turn else {}, turns=[{}] if by_turn else (),
        receiver=None if by_turn else {},
    )  # fmt: skip
    world.dialogue(
        columns[1], item, transcript=None if by_turn else {}, turns=[{}] if by_turn else (),
        receiver=None if by_turn else {"b1": "full"},
        receiver_turns=[{"b1": "full"}] if by_turn else (), rounds=1,
    )  # fmt: skip
    rows = query_of(world)("SELECT state, reveal_full FROM dialogue_receiver ORDER BY sample")
    assert [tuple(row.values()) for row in rows] == [("valid", 0.0), ("valid", 0.5)]


def test_without_any_hearing_silence_tells_nothing() -> None:
    world, item, columns = world_of(1, 4, dialogues=2)
    silent(world, columns[0], item)
    world.dialogue(columns[1], item, turns=[{}], receiver_turns=[{}], rounds=1)
    rows = query_of(world)("SELECT state FROM dialogue_receiver ORDER BY sample")
    assert [row["state"] for row in rows] == ["invalid", "valid"]
