"""Plans of items that a model is to write: who is in a group, who knows, who asks."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

import pytest

from leakgrid.benchmarks.muppet_generate.settings import Settings
from leakgrid.datasets.muppet_groups import Planned, plan_items
from leakgrid.datasets.muppet_seeds import MATERIAL, TOPICS, Seeds, load_seeds
from leakgrid.outcomes import DatasetError


@pytest.fixture(scope="module")
def seeds() -> Seeds:
    return load_seeds(MATERIAL)


@pytest.fixture(scope="module")
def whole_plan(seeds: Seeds) -> tuple[Planned, ...]:
    return planned(seeds)


def planned(seeds: Seeds, **changes: Any) -> tuple[Planned, ...]:
    return plan_items(seeds, **{**asdict(Settings()), **changes})


def test_every_question_is_planned_at_every_size_with_both_askers(
    seeds: Seeds, whole_plan: tuple[Planned, ...]
) -> None:
    assert len(whole_plan) == 3 * 11 * 5 * 2
    for size in (5, 10, 20):
        mine = [plan for plan in whole_plan if len(plan.group.people) == size]
        for informed in (True, False):
            asked = {plan.question.id for plan in mine if plan.asker_informed is informed}
            assert asked == {question.id for question in seeds.questions}
    assert {plan.question.topic for plan in whole_plan} == set(TOPICS)
    assert {plan.category.label for plan in whole_plan} == set(seeds.categories)
    assert {plan.group.department.name for plan in whole_plan} == {
        department.name for department in seeds.departments
    }


def test_a_plan_says_who_knows_who_asks_and_who_leads_up_to_it(
    whole_plan: tuple[Planned, ...],
) -> None:
    for plan in whole_plan:
        people = set(plan.group.people)
        assert {plan.owner, *plan.informed, *plan.uninformed} == people
        assert 1 + len(plan.informed) + len(plan.uninformed) == len(people)
        assert plan.asker in (plan.informed if plan.id.endswith("-informed") else plan.uninformed)
        assert len({person.first for person in people}) == len(people)
        assert plan.knows[0] == plan.informed
        assert all(set(who) <= set(plan.informed) and who for who in plan.knows)
        assert any(d.fits(plan.owner.gender, plan.owner.age) for d in plan.category.details)
        assert "{" not in plan.plain + plan.long + plan.thing
        assert plan.assistant in plan.long
    groups = {plan.group.id: plan.group for plan in whole_plan}.values()
    names = [person.name for group in groups for person in group.people]
    assert len(names) == len(set(names)) == 11 * (5 + 10 + 20)
    assert {len(plan.knows) for plan in whole_plan} == {1, 2}


def test_the_two_items_of_a_pair_differ_in_the_asker_alone(
    whole_plan: tuple[Planned, ...],
) -> None:
    pairs: dict[str, list[Planned]] = {}
    for plan in whole_plan:
        pairs.setdefault(plan.pair, []).append(plan)
    for first, second in pairs.values():
        same = ("group", "question", "owner", "informed", "uninformed", "closer", "knows", "long")
        assert all(getattr(first, key) == getattr(second, key) for key in same)
        assert first.asker_informed and not second.asker_informed
        assert first.closer not in (first.asker, second.asker, first.owner)


def test_the_seed_decides_and_more_groups_leave_the_earlier_ones_alone(seeds: Seeds) -> None:
    small: dict[str, Any] = {"sizes": (5, 10), "groups_per_size": 3}
    once = planned(seeds, **small)
    assert planned(seeds, **small) == once
    assert planned(seeds, **{**small, "groups_per_size": 12})[: len(once)] == once
    other = planned(seeds, **small, seed=1)
    assert not {plan.digest for plan in other} & {plan.digest for plan in once}
    assert len({plan.digest for plan in once}) == len(once)
    assert len({plan.id for plan in planned(seeds, groups_per_size=24)}) == 24 * 3 * 5 * 2


def test_a_group_is_never_asked_the_same_twice(seeds: Seeds) -> None:
    plans = planned(seeds, questions_per_group=53, groups_per_size=2)
    for group, count in Counter((p.group.id, p.question.id) for p in plans).items():
        assert count == 2, group


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"sizes": ()}, "sizes"),
        ({"sizes": (3,)}, "sizes"),
        ({"sizes": (21,)}, "sizes"),
        ({"sizes": (5, 5)}, "sizes"),
        ({"groups_per_size": 0}, "groups_per_size"),
        ({"questions_per_group": 54}, "questions_per_group"),
    ],
)
def test_numbers_that_make_no_plan_are_told(
    seeds: Seeds, changes: dict[str, Any], key: str
) -> None:
    with pytest.raises(DatasetError, match=f"{key}: found .*; allowed: "):
        planned(seeds, **changes)
