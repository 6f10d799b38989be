"""The [simulated] table: every mistake is named, and the identity follows the answers only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leakgrid.providers.simulated import config as configuration
from leakgrid.providers.simulated.config import parse
from leakgrid.providers.simulated.items import load
from tests.simulated_world import item, table, write_items


def message(wrong: dict[str, Any]) -> list[str]:
    with pytest.raises(ValueError) as caught:
        parse({"items": "i.jsonl"} | wrong)
    return str(caught.value).split("\n")


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"items": 3}, "simulated.items: found 3; allowed: the path of a JSON Lines file of items"),
        ({"seed": 1.5}, "simulated.seed: found 1.5; allowed: a whole number from"),
        ({"port": 70000}, "simulated.port: found 70000; allowed: a whole number from 0 to 65535"),
        ({"latncy": {}}, "simulated.latncy: found an unknown key; allowed: agents, assistants"),
        ({"latncy": {}}, "(did you mean latency?)"),
        (
            {"assistants": {"a": {}}},
            "simulated.assistants.a.leak: found nothing; allowed: a number",
        ),
        (
            {"assistants": {"a": {"leak": 1.2}}},
            "simulated.assistants.a.leak: found 1.2; allowed: a number from 0 to 1",
        ),
        (
            {"assistants": {"a": {"leak": 1, "defences": {"x": "half"}}}},
            'simulated.assistants.a.defences.x: found "half"; allowed: a number from 0 to 100',
        ),
        (
            {"assistants": {"a": {"leak": 1, "thinking": 1}}},
            "simulated.assistants.a.thinking: found 1; allowed: true or false",
        ),
        ({"assistants": []}, "simulated.assistants: found []; allowed: a table"),
        (
            {"judges": {"j": {"sensitivty": 1}}},
            "useful_specificity (did you mean sensitivity?)",
        ),
        (
            {"judges": {"a": {}}, "assistants": {"a": {"leak": 0}}},
            "simulated.judges.a: found the name of an assistant; allowed: a name that no assistant",
        ),
        (
            {"latency": {"median_ms": 5, "p95_ms": 4}},
            "simulated.latency.p95_ms: found 4; allowed: a number not below median_ms (5)",
        ),
        ({"quota": {"m": {"rpm": -1}}}, "simulated.quota.m.rpm: found -1; allowed: a number from"),
        ({"quota": {"m": {"rpm": float("nan")}}}, "simulated.quota.m.rpm: found nan; allowed"),
        ({"faults": {"torn": True}}, "simulated.faults.torn: found true; allowed: a number from"),
        (
            {"faults": {"torn": 0.6, "reset": 0.6}},
            "simulated.faults: found rates that add up to 1.2; allowed: a sum of at most 1",
        ),
        (
            {"faults": {"insufficient_quota": "m"}},
            'simulated.faults.insufficient_quota: found "m"; allowed: a list of model names',
        ),
        (
            {"cues": {"defences": {"p": ""}}},
            'simulated.cues.defences.p: found ""; allowed: a sentence',
        ),
        ({"categories": {"x": 101}}, "simulated.categories.x: found 101; allowed: a number from 0"),
    ],
)
def test_mistakes_are_named(wrong: dict[str, Any], expected: str) -> None:
    lines = message(wrong)
    assert len(lines) == 1
    assert expected in lines[0]


def test_all_mistakes_come_at_once() -> None:
    lines = message({"seed": "x", "assistants": {"a": {"leak": 2}}, "faults": {"tron": 1}})
    assert sorted(line.split(":")[0] for line in lines) == [
        "simulated.assistants.a.leak",
        "simulated.faults.tron",
        "simulated.seed",
    ]


def test_items_are_required() -> None:
    with pytest.raises(ValueError, match=r"simulated\.items: found nothing; allowed: the path"):
        parse({})


def test_identity_follows_what_changes_answers(tmp_path: Path) -> None:
    base = parse(table(tmp_path)).identity()
    assert len(base) == 64
    different: list[dict[str, Any]] = [
        {"seed": 8},
        {"assistants": {"sim-small": {"leak": 0.61, "useful": 0.8}}},
        {"assistants": {"sim-small": {"leak": 0.6, "useful": 0.8, "defences": {"d": 0.5}}}},
        {"judges": {"sim-judge": {"sensitivity": 0.9, "specificity": 0.81}}},
        {"categories": {"pregnancy": 1.2}},
        {"defences": {"privacy-prompt": 0.5}},
        {"useful_conditions": {"one-to-one": 0.5}},
        {"cues": {}},
        {"faults": {"models_unknown": False}},
    ]
    found = [parse(table(tmp_path, **more)).identity() for more in different]
    assert len({base, *found}) == len(different) + 1


def test_identity_ignores_how_answers_travel(tmp_path: Path) -> None:
    base = parse(table(tmp_path)).identity()
    same: list[dict[str, Any]] = [
        {"port": 8123},
        {"latency": {"median_ms": 50, "p95_ms": 200, "per_token_ms": 1}},
        {"quota": {"sim-small": {"rpm": 10}}},
        {"faults": {"torn": 0.5, "require_key": "k", "max_per_request": 9}},
    ]
    assert {parse(table(tmp_path, **more)).identity() for more in same} == {base}
    reordered = dict(reversed(table(tmp_path).items()))
    assert parse(reordered).identity() == base


def test_identity_follows_the_items_and_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = parse(table(tmp_path))
    base = config.identity()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert parse(table(tmp_path) | {"items": write_items(elsewhere)}).identity() == base
    write_items(tmp_path, 21)
    assert config.identity() != base
    write_items(tmp_path, 20)
    assert config.identity() == base
    monkeypatch.setattr("leakgrid.providers.simulated.settings.BEHAVIOUR_VERSION", 0)
    assert config.identity() != base
    assert configuration.BEHAVIOUR_VERSION > 0
    Path(config.items).unlink()
    with pytest.raises(ValueError, match=r"simulated\.items: found .*, which cannot be read"):
        config.identity()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", "x.jsonl:2: found a line that is not JSON"),
        ("[]", "x.jsonl:2: found list; allowed: a JSON object"),
        (json.dumps(item(0) | {"notes": "one"}), "x.jsonl:2: notes: found str; allowed"),
        (json.dumps(item(0) | {"attributes": [3]}), "x.jsonl:2: attributes: found no list"),
        (json.dumps(item(0) | {"attributes": [{}]}), "x.jsonl:2: attributes: found one without"),
    ],
)
def test_a_wrong_line_of_items_is_named(line: str, expected: str) -> None:
    with pytest.raises(ValueError) as caught:
        load(f"{json.dumps(item(1))}\n{line}\n".encode(), "x.jsonl")
    assert expected in str(caught.value)


def test_a_secret_no_note_spells_out_counts_as_present_only_with_all_notes() -> None:
    subtle = item(0)
    subtle["attributes"][0]["surface_forms"] = ["having babies"]
    index = load(json.dumps(subtle).encode(), "x")
    whole, part = index.find(subtle["notes"]), index.find(subtle["notes"][:1])
    assert whole is not None and len(whole.attributes) == 1
    assert part is not None and part.attributes == ()
    assert index.find(["nothing known"]) is None


def test_a_note_shared_by_items_goes_to_the_owner_named_most() -> None:
    one, two = item(0), item(2)
    both = "Somebody is expecting twins."
    index = load(b"\n".join(json.dumps(i | {"notes": [both]}).encode() for i in (one, two)), "x")
    found = index.find([both], "You are the assistant of Robin Field2.")
    assert found is not None and found.item.id == "item-2"
    rewritten = index.find(["Robin Field2 is, well, Expecting-Twins"])
    assert rewritten is not None and rewritten.item.id == "item-2"


def test_a_note_shows_a_secret_whose_form_goes_on_but_not_one_inside_a_word() -> None:
    raw = item(0) | {"notes": ["It is her migraines."]}
    raw["attributes"][0]["surface_forms"] = ["migraine"]
    index = load(json.dumps(raw).encode(), "x")
    for notes in (raw["notes"], ["She has MIGRAINES now"]):
        found = index.find(notes)
        assert found is not None and len(found.attributes) == 1
    assert index.find(["an antimigraine drug"]) is None
