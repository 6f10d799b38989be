"""The tables of a simulated dialogue: each mistake is named; identity follows the answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from leakgrid.providers.simulated.config import parse
from leakgrid.providers.simulated.process import running
from tests import simulated_world
from tests.simulated_people import (
    label_file,
    table,
)

AGENT: dict[str, Any] = {"necessary": 0.5, "inappropriate": 0.1}


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"agents": {"a": {"necessary": 1}}}, "simulated.agents.a.inappropriate: found nothing"),
        (
            {"agents": {"a": AGENT | {"inappropriate": 1.5}}},
            "simulated.agents.a.inappropriate: found 1.5; allowed: a number from 0 to 1",
        ),
        *(
            ({"agents": {"a": AGENT | {key: -1}}}, f"simulated.agents.a.{key}: found -1; allowed")
            for key in (
                "other", "partial", "repeats", "early_end", "refusal", "truncated", "empty"
            )
        ),
        (
            {"agents": {"a": AGENT | {"rounds": [0.5, 0.4]}}},
            "simulated.agents.a.rounds: found [0.5, 0.4]; allowed: a list of numbers from 0 to 1 "
            "that add up to 1",
        ),
        ({"agents": {"a": AGENT | {"rounds": []}}}, "simulated.agents.a.rounds: found []"),
        ({"agents": {"a": AGENT | {"rounds": [1.5, -0.5]}}}, "simulated.agents.a.rounds: found"),
        ({"agents": {"a": AGENT | {"rounds": [True]}}}, "simulated.agents.a.rounds: found [True]"),
        ({"agents": {"a": AGENT | {"rounds": 1}}}, "simulated.agents.a.rounds: found 1"),
        (
            {"agents": {"a": AGENT | {"prompts": {"pc1": "less"}}}},
            'simulated.agents.a.prompts.pc1: found "less"; allowed: a number from 0 to 100',
        ),
        (
            {"agents": {"a": AGENT | {"necessary_prompts": 2}}},
            "simulated.agents.a.necessary_prompts: found 2; allowed: a table",
        ),
        (
            {"agents": {"a": AGENT | {"thinking": 1}}},
            "simulated.agents.a.thinking: found 1; allowed: true or false",
        ),
        (
            {"agents": {"a": AGENT | {"leak": 1}}},
            "simulated.agents.a.leak: found an unknown key; allowed: early_end",
        ),
        ({"agents": 3}, "simulated.agents: found 3; allowed: a table"),
        (
            {"agents": {"a": AGENT}, "assistants": {"b": {"leak": 0.1}}},
            "simulated.assistants: found assistants beside agents or labellers; allowed: one or",
        ),
        (
            {"agents": {"a": AGENT}, "judges": {"a": {}}},
            "simulated.agents.a: found the name of a judge; allowed: a name that no judge has",
        ),
        (
            {"labellers": {"a": {}}, "agents": {"a": AGENT}},
            "simulated.labellers.a: found the name of another model; allowed: a name of its own",
        ),
        ({"labellers": {"a": {"noise": 2}}}, "simulated.labellers.a.noise: found 2; allowed"),
        ({"labellers": {"a": {"both": "x"}}}, 'simulated.labellers.a.both: found "x"; allowed'),
        (
            {"labellers": {"a": {"pragmatik": {}}}},
            "simulated.labellers.a.pragmatik: found an unknown key",
        ),
        (
            {"labellers": {"a": {"pragmatic": {"necessary": 0.6, "inappropriate": 0.5}}}},
            "simulated.labellers.a.pragmatic.inappropriate: found 0.5; allowed: a number not "
            "above 1 - necessary (0.4)",
        ),
        (
            {"labellers": {"a": {"pragmatic": {"neither": 0.6}}}},
            "simulated.labellers.a.pragmatic.neither: found an unknown key",
        ),
        (
            {"truth": {"necessary": 0.7, "inappropriate": 0.5}},
            "simulated.truth.inappropriate: found 0.5; allowed: a number not above",
        ),
        ({"truth": {"other": 1}}, "simulated.truth.other: found an unknown key"),
        ({"labels": 3}, "simulated.labels: found 3; allowed: the path of a label file"),
        *(
            ({"judges": {"j": {key: 7}}}, f"simulated.judges.j.{key}: found 7; allowed: a number")
            for key in ("reveal_sensitivity", "reveal_specificity", "missing_id", "bad_evidence")
        ),
    ],
)  # fmt: skip
def test_mistakes_are_named(wrong: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse({"items": "p.json"} | wrong)
    lines = str(caught.value).split("\n")
    assert len(lines) == 1 and expected in lines[0]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"items": "/nowhere"}, r'simulated\.items: found "/nowhere", which cannot be read'),
        ({"labels": "/nowhere"}, r'simulated\.labels: found "/nowhere", which cannot be read'),
    ],
)
def test_missing_files_are_named(tmp_path: Path, more: dict[str, Any], expected: str) -> None:
    with pytest.raises(RuntimeError, match=expected):
        with running(table(tmp_path) | more):
            pass
    with pytest.raises(ValueError, match=expected):
        parse(table(tmp_path) | more).identity()


def test_wrong_files_are_named(tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"profile": "nobody", "context": "c00"}\n', encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"labels\.jsonl.*nobody"):
        with running(table(tmp_path, labels=str(labels))):
            pass
    raw = table(tmp_path) | {"items": simulated_world.write_items(tmp_path)}
    with pytest.raises(RuntimeError, match=r"ended with 2: .*items\.jsonl"):
        with running(raw):
            pass


def test_identity_follows_what_changes_answers(tmp_path: Path) -> None:
    def identity(**more: Any) -> str:
        return parse(table(tmp_path, **more)).identity()

    agent = table(tmp_path)["agents"]["sim-open"]
    changed: list[Mapping[str, Any]] = [
        {"necessary": 0.61}, {"inappropriate": 0.31}, {"other": 0.11}, {"partial": 0.26},
        {"repeats": 0.21}, {"prompts": {"pc1": 0.5}}, {"necessary_prompts": {}},
        {"rounds": [0.5, 0.5]}, {"early_end": 0.1}, {"refusal": 0.1}, {"truncated": 0.1},
        {"empty": 0.1}, {"thinking": True},
    ]  # fmt: skip
    found = [identity(agents={"sim-open": agent | one}) for one in changed]
    keys = ("reveal_sensitivity", "reveal_specificity", "missing_id", "bad_evidence")
    found += [identity(judges={"sim-judge": {key: 0.5}}) for key in keys]
    found += [identity(labellers={"sim-labels": one}) for one in
              ({}, {"noise": 0.1}, {"both": 0.1}, {"unparsable": 0.1}, {"truncated": 0.1},
               {"pragmatic": {"necessary": 0.5}})]  # fmt: skip
    found += [identity(truth={"necessary": 0.3}), identity(seed=12), identity(cues={}),
              identity(labels=label_file(tmp_path)), identity()]  # fmt: skip
    assert len(set(found)) == len(found)
    same: list[dict[str, Any]] = [
        {"latency": {"median_ms": 9, "p95_ms": 99}}, {"port": 8123}, {"faults": {"torn": 0.1}},
        {"quota": {"sim-open": {"rpm": 10}}}, {"labels": ""},
    ]  # fmt: skip
    assert {identity(**one) for one in same} == {identity()}


def test_identity_follows_the_bytes_of_both_files(tmp_path: Path) -> None:
    config = parse(table(tmp_path, labels=label_file(tmp_path)))
    found = [config.identity()]
    for path in (config.items, config.labels):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write("\n")
        found.append(config.identity())
    assert len(set(found)) == 3


def test_a_server_of_items_keeps_its_identity(tmp_path: Path) -> None:
    """Answers that were kept before dialogues existed stay valid."""
    config = parse(simulated_world.table(tmp_path))
    kept = "6cbe89c78ac8bcb49332cb1d7c34b83905b080e83aa0597abba69d55c4cdef6a"
    assert config.identity() == kept
