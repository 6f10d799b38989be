"""Simulated agents tell what is planted, and measured rates come back to it, whole engine through.

A sender tells every receiver the same in a context, and in another one anew: so a sender's profile
in a context is what intervals leave out (by ``reports/dialogue_sums``, where reports leave out
profiles). What a seed draws is common to conditions and lengths, so several seeds are pooled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from leakgrid.providers.simulated.config import Simulated
from leakgrid.providers.simulated.planted_dialogues import (
    Rate,
    planted_disclosures,
    planted_labels,
    planted_rate,
)
from leakgrid.reports.dialogue_sums import People, estimate, grouped
from leakgrid.reports.statistics import rogan_gladen
from tests.dialogue_cells import REAL
from tests.dialogue_project import DialogueProject, needs_real
from tests.project import merged

pytestmark = pytest.mark.timeout(240)

SENDERS = ("sim-discreet", "sim-open")
CONDITIONS = ("pc0", "pc1", "pc2")
TURNS = (1, 6)
SENSITIVITY, SPECIFICITY = 0.93, 0.995
SEEDS = {"sample": (1, 2, 3), "released": (1, 2)}
"""The first ones, whatever they give; a world of released profiles takes three times as long."""
TRUTH = {"necessary": 0.15, "inappropriate": 0.5}

PLANTED: dict[str, Any] = {
    "job": {
        "models": list(SENDERS),
        "conditions": list(CONDITIONS),
        "turns": list(TURNS),
        "judges": ["noisy", "exact"],
    },
    "models": {
        "sim-judge": {"params": {"max_tokens": 20_000}},
        "sim-exact": {"provider": "simulated", "params": {"max_tokens": 20_000}},
    },
    "judges": {
        "reveal": None,
        "noisy": {
            "kind": "reveal", "model": "sim-judge", "batch": 75, "level": "both",
            "speakers": "sender",
        },
        "exact": {"kind": "reveal", "model": "sim-exact", "batch": 150, "speakers": "sender"},
    },
    "simulated": {
        "agents": {
            "sim-discreet": {
                "necessary": 0.5, "inappropriate": 0.2, "other": 0.1, "partial": 0.25,
                "prompts": {"pc1": 0.4, "pc2": 1.5}, "necessary_prompts": {"pc2": 1.2},
                "rounds": [0.45, 0.25, 0.12, 0.08, 0.06, 0.04], "repeats": 0.1,
            },
            "sim-open": {
                "necessary": 0.7, "inappropriate": 0.4, "other": 0.2, "partial": 0.2,
                "prompts": {"pc1": 0.5, "pc2": 1.3},
                "rounds": [0.40, 0.25, 0.15, 0.10, 0.06, 0.04], "repeats": 0.15,
                "truncated": 0.01,
            },
        },
        "judges": {
            "sim-judge": {
                "reveal_sensitivity": SENSITIVITY, "reveal_specificity": SPECIFICITY,
                "unparsable": 0.01, "missing_id": 0.02, "bad_evidence": 0.002,
            },
            "sim-exact": {},
        },
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ran:
    """A project whose dialogues are done, and what was planted in them."""

    project: DialogueProject
    planted: Simulated
    instances: int


def ran(project: DialogueProject, *jobs: str, instances: int) -> Ran:
    for job in jobs:
        assert project.main("run", f"jobs/{job}.toml", "--quiet") == 0
    return Ran(project, project.planted(), instances)


def of_sample(folder: Path, seed: int) -> Ran:
    """The embedded sample, whose label file plants the truth."""
    changes = {
        "subset": {"instances": 32}, "job": {"samples": 2}, "simulated": {"seed": seed}
    }  # fmt: skip
    made = DialogueProject(folder, **merged(PLANTED, changes))
    return ran(made, "job", instances=64)


def of_released(folder: Path, seed: int) -> Ran:
    """The released profiles; a simulated labeller finds the labels that a coin plants."""
    changes = {
        "subset": {"contexts": 10, "instances": 30},
        "labels": {"file": None, "job": "labels"},
        "simulated": {"seed": seed, "truth": TRUTH},
    }
    made = DialogueProject(folder, profiles=REAL, **merged(PLANTED, changes))
    made.write_labels_job(
        subset={"contexts": 10}, simulated={"seed": seed, "labels": None, "truth": TRUTH}
    )
    return ran(made, "labels", "job", instances=30)


@pytest.fixture(scope="module")
def world_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Ran]:
    """Makes a world when it is first asked for."""

    @cache
    def made(kind: str, seed: int) -> Ran:
        folder = tmp_path_factory.mktemp("planted") / "project"
        return {"sample": of_sample, "released": of_released}[kind](folder, seed)

    return made


WorldOf: TypeAlias = Callable[[str, int], Ran]
kinds = pytest.mark.parametrize(
    "kind", ["sample", pytest.param("released", marks=needs_real)]
)  # fmt: skip


# --- what should be measured ---------------------------------------------------------------------


def called(rate: Rate, *, total: bool) -> float:
    """Share that the noisy judge calls disclosed: the told ones by its sensitivity, none by error.

    What it calls disclosed by mistake it calls full.
    """
    told = rate.total if total else rate.full
    return told * SENSITIVITY + (1 - rate.total) * (1 - SPECIFICITY)


def by_round(planted: Simulated, sender: str, condition: str) -> tuple[list[float], list[float]]:
    """Shares of inappropriate attributes that the noisy judge calls full in each round's message,
    and in any message up to it.
    """
    agent = planted.agents[sender]
    rate = planted_rate(planted, sender, condition, "inappropriate")
    miss, silent = 1 - SENSITIVITY, SPECIFICITY
    again = agent.repeats
    each: list[float] = []
    upto: list[float] = []
    for now in range(1, len(agent.rounds) + 1):
        full = partly = untold = 0.0
        never_full = never_part = 0.0
        for first, share in enumerate(agent.rounds, start=1):
            said = 1.0 if first == now else again if first < now else 0.0
            full += share * said
            partly += share * said
            # What a later message repeats has another chance to be heard.
            later = max(0, now - first)
            before = min(now, first - 1)
            heard_now = first <= now
            never_full += (
                share
                * silent**before
                * (miss if heard_now else 1.0)
                * (again * miss + (1 - again) * silent) ** later
            )
            never_part += share * silent**before * (again + (1 - again) * silent) ** later
        untold = 1 - rate.full * full - rate.partial * partly
        each.append(rate.full * full * SENSITIVITY + untold * (1 - SPECIFICITY))
        upto.append(
            1 - rate.full * never_full - rate.partial * never_part - (1 - rate.total) * silent**now
        )
    return each, upto


def groups(world: Ran, judge: str) -> Iterator[tuple[tuple[str, str, int], list[dict[str, Any]]]]:
    """(sender, condition, turns) with its dialogues as one judge heard them.

    Their ``profile``, by which they are drawn, is the sender's profile in one context and sample.
    """
    rows = world.project.rows(
        "SELECT *, concat_ws('/', sender_profile, context, sample) AS profile "
        f"FROM dialogue_instance WHERE job = 'job' AND judge = '{judge}' ORDER BY ALL"
    )
    found = grouped(rows, ("model", "condition", "turns"))
    assert len(found) == len(SENDERS) * len(CONDITIONS) * len(TURNS)
    for (sender, condition, turns), mine in found.items():
        assert len(mine) == world.instances
        yield (sender, condition, turns), mine


def mean(rows: Sequence[dict[str, Any]], value: str) -> dict[str, Any]:
    """value, lo and hi over the rows that have one."""
    known = [{**row, "n": 1} for row in rows if row[value] is not None]
    people = People(row["profile"] for row in known)
    return estimate(people.mean(known, value, "n"))


def dialogues(
    world: Ran, judge: str
) -> Iterator[tuple[dict[str, Any], dict[str, str], dict[str, str | None]]]:
    """Each dialogue with what its sender was planted to tell, and what a judge said of it."""
    reveals = grouped(
        world.project.rows(
            "SELECT stem, ordinal, attribute, degree FROM reveal "
            f"WHERE judge = '{judge}' AND speaker = 'sender' AND turn = 0"
        ),
        ("stem", "ordinal"),
    )
    for cell in world.project.rows(
        "SELECT i.*, c.sound, c.why FROM dialogue_instance i "
        "JOIN dialogue_cell c USING (job, column_id, item, digest) "
        f"WHERE i.job = 'job' AND i.judge = '{judge}' ORDER BY ALL"
    ):
        truth = planted_disclosures(
            world.planted,
            cell["model"],
            cell["condition"],
            cell["sender_profile"],
            cell["context"],
            cell["sample"],
            cell["turns"],
        )
        found = reveals.get((cell["stem"], cell["ordinal"]), [])
        yield (
            cell,
            {key: degree for key, (degree, _) in truth.items()},
            {row["attribute"]: row["degree"] for row in found},
        )


MEASURES: dict[str, tuple[str, Callable[[Rate], float]]] = {
    "leak_full": ("inappropriate", lambda rate: called(rate, total=False)),
    "leak_total": ("inappropriate", lambda rate: called(rate, total=True)),
    "completeness": ("necessary", lambda rate: called(rate, total=False)),
}


# --- tests ---------------------------------------------------------------------------------------

Pair: TypeAlias = tuple[dict[str, Any], float]


def check(found: Mapping[str, Sequence[Pair]]) -> None:
    """At least 90 % of all truths lie in their intervals, and no measure leans to one side.

    An interval is some four standard errors wide; groups of one seed lean together.
    """
    pairs = [pair for mine in found.values() for pair in mine]
    assert all(row["lo"] is not None and row["lo"] < row["hi"] for row, _ in pairs)
    hits = [row["lo"] <= truth <= row["hi"] for row, truth in pairs]
    assert sum(hits) >= 0.9 * len(hits), [p for p, hit in zip(pairs, hits, strict=True) if not hit]
    for name, mine in found.items():
        leaning = [4 * (row["value"] - truth) / (row["hi"] - row["lo"]) for row, truth in mine]
        assert abs(sum(leaning)) < 1.2 * len(leaning), (name, leaning)


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        pytest.param(kind, seed, marks=[needs_real] if kind == "released" else [])
        for kind, seeds in SEEDS.items()
        for seed in seeds
    ],
)
def test_an_exact_judge_finds_exactly_what_was_planted(
    world_of: WorldOf, kind: str, seed: int
) -> None:
    """Attribute by attribute in every dialogue that went on to its end; the others say so."""
    world = world_of(kind, seed)
    sets = grouped(
        world.project.rows("FROM label WHERE job = 'job' AND label_set = 'inappropriate'"),
        ("profile", "context"),
    )
    broken = listed = rightly = 0
    for cell, truth, degrees in dialogues(world, "exact"):
        matter = cell["sender_profile"], cell["context"]
        inappropriate = [row["attribute"] for row in sets[matter]]
        classes = planted_labels(world.planted, *matter)
        listed += len(inappropriate)
        rightly += sum(classes[key] == "inappropriate" for key in inappropriate)
        if not cell["sound"]:
            broken += 1
            assert cell["why"].endswith("was cut at the token limit")
            assert cell["leak_full"] is None and cell["leak_state"] == "invalid"
            continue
        assert degrees == truth, cell
        told = sum(truth.get(key) == "full" for key in inappropriate)
        assert cell["leak_full"] == pytest.approx(told / len(inappropriate))
    # Votes that all agree by chance put a few attributes into the set that are planted otherwise.
    assert rightly > 0.99 * listed
    assert 0 < broken < 0.2 * world.instances * len(SENDERS) * len(CONDITIONS) * len(TURNS)


def pooled(of: Callable[[Ran], dict[str, list[Pair]]], world_of: WorldOf, kind: str) -> None:
    """Check what several seeds give together."""
    found: dict[str, list[Pair]] = {}
    for seed in SEEDS[kind]:
        for name, pairs in of(world_of(kind, seed)).items():
            found.setdefault(name, []).extend(pairs)
    check(found)


def rates(world: Ran) -> dict[str, list[Pair]]:
    found: dict[str, list[Pair]] = {name: [] for name in MEASURES}
    for (sender, condition, turns), rows in groups(world, "noisy"):
        for name, (label, expected) in MEASURES.items():
            rate = planted_rate(world.planted, sender, condition, label, turns)
            found[name].append((mean(rows, name), expected(rate)))
    return found


@kinds
def test_leakage_and_completeness_come_back(world_of: WorldOf, kind: str) -> None:
    pooled(rates, world_of, kind)


def curve_of(world: Ran) -> dict[str, list[Pair]]:
    """Of each round: what its message leaks, and what all rounds up to it do."""
    rows = world.project.rows(
        "SELECT *, concat_ws('/', sender_profile, context, sample) AS profile FROM dialogue_round "
        "WHERE job = 'job' AND judge = 'noisy' AND turns = 6 ORDER BY ALL"
    )
    curves = {
        (sender, condition): by_round(world.planted, sender, condition)
        for sender in SENDERS
        for condition in CONDITIONS
    }
    found: dict[str, list[Pair]] = {"each": [], "upto": []}
    # Conditions together: by the last rounds too little is told to part it further.
    for (sender, number), mine in grouped(rows, ("model", "round")).items():
        known = [row for row in mine if row["leak_full"] is not None]
        assert len(known) > 0.8 * len(mine)
        for place, (name, value) in enumerate(
            (("each", "leak_full"), ("upto", "cumulative_leak_full"))
        ):
            truths = [curves[sender, row["condition"]][place][number - 1] for row in known]
            found[name].append((mean(known, value), sum(truths) / len(truths)))
    assert len(found["each"]) == 6 * len(SENDERS)
    return found


@kinds
def test_the_curve_over_rounds_comes_back(world_of: WorldOf, kind: str) -> None:
    """Repeats included."""
    pooled(curve_of, world_of, kind)


def corrected(world: Ran) -> dict[str, list[Pair]]:
    """Errors measured on a part whose truth is known correct the rest: Rogan and Gladen's way.

    A sender tells each receiver the same, so that of a context one dialogue counts.
    """
    called_on: dict[bool, list[bool]] = {True: [], False: []}
    rates: dict[tuple[str, str, int], list[bool]] = {}
    seen: set[tuple[Any, ...]] = set()
    unsure = 0
    for cell, truth, degrees in dialogues(world, "noisy"):
        group = (cell["model"], cell["condition"], cell["turns"])
        matter = (*group, cell["sender_profile"], cell["context"], cell["sample"])
        if not cell["sound"] or matter in seen:
            continue
        seen.add(matter)
        classes = planted_labels(world.planted, cell["sender_profile"], cell["context"])
        for key, label in classes.items():
            degree = degrees.get(key, "none")
            if degree is None:
                unsure += 1
            elif len(seen) % 3 == 0:
                called_on[key in truth].append(degree != "none")
            elif label == "inappropriate":
                rates.setdefault(group, []).append(degree != "none")
    right = {told: sum(called is told for called in found) for told, found in called_on.items()}
    sensitivity, specificity = (right[told] / len(called_on[told]) for told in (True, False))
    for measured, planted, of in (
        (sensitivity, SENSITIVITY, called_on[True]),
        (specificity, SPECIFICITY, called_on[False]),
    ):
        assert abs(measured - planted) < 3.5 * math.sqrt(planted * (1 - planted) / len(of))
    assert len(rates) == len(SENDERS) * len(CONDITIONS) * len(TURNS)
    pairs = []
    for (sender, condition, turns), calls in rates.items():
        found = rogan_gladen(
            sum(calls),
            len(calls),
            true_positives=right[True],
            leaks=len(called_on[True]),
            true_negatives=right[False],
            clean=len(called_on[False]),
        )
        assert found is not None
        truth_of = planted_rate(world.planted, sender, condition, "inappropriate", turns).total
        row = {"value": found.value, "lo": found.low, "hi": found.high}
        pairs.append((row, truth_of))
    assert unsure < 0.01 * sum(map(len, rates.values()))
    return {"corrected": pairs}


@kinds
def test_rates_corrected_for_the_judges_errors_come_back(world_of: WorldOf, kind: str) -> None:
    pooled(corrected, world_of, kind)
