"""The plan: who is in which group, who holds which secret, who knows it, who asks.

Everything that the benchmark measures against is decided here, in code, with a fixed seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from leakgrid.datasets.items import Person
from leakgrid.datasets.muppet_seeds import Category, Department, Detail, Names, Question, Seeds
from leakgrid.outcomes import DatasetError

# Sizes by position among a question's items: each of 3 to 6 once, one large, one more small.
SMALL_SIZES = (3, 4, 5, 6)
LARGE_SIZES = (10, 20, 10)
ITEMS_PER_GROUP = 3
INFORMED_SHARE = 0.6


@dataclass(slots=True)
class Group:
    """People of one department; owners counts how often each has held a secret."""

    id: str
    department: Department
    team: str
    people: tuple[Person, ...]
    owners: dict[str, int]
    left: int = ITEMS_PER_GROUP


@dataclass(frozen=True, slots=True)
class Plan:
    """One planned item, before any text exists. facts: how many private facts it has."""

    question: Question
    category: Category
    detail: Detail
    group: Group
    owner: Person
    asker: Person
    informed: tuple[Person, ...]
    uninformed: tuple[Person, ...]
    facts: int


def group_size(question: int, position: int) -> int:
    """People in the group of a question's item; both arguments count from 0."""
    place = position % 6
    if place < 4:
        return SMALL_SIZES[place]
    return LARGE_SIZES[question % 3] if place == 4 else SMALL_SIZES[question // 2 % 4]


def make_plan(seeds: Seeds, per_question: int, rng: random.Random) -> list[Plan]:
    """One Plan per item in question order. Raises DatasetError when nobody fits a category."""
    sizes = [
        group_size(q, position)
        for q in range(len(seeds.questions))
        for position in range(per_question)
    ]
    groups = _make_groups(seeds, sizes, rng)
    uses = dict.fromkeys((d.key for c in seeds.categories.values() for d in c.details), 0)
    plans = []
    for index, question in enumerate(seeds.questions):
        category = seeds.categories[question.category]
        taken: set[str] = set()
        for position in range(per_question):
            size = group_size(index, position)
            group = _pick_group(groups[size], taken, rng)
            taken.add(group.department.slug)
            # The parity runs over position and question, so each size has as many of both.
            asker_informed = (position + index) % 2 == 0
            facts = 1 + ((position + index // 2) % 3 > 0)
            plans.append(_plan_item(question, category, group, uses, asker_informed, facts, rng))
    return plans


def _pick_group(groups: list[Group], taken: set[str], rng: random.Random) -> Group:
    """A group with items left, if possible of a department that this question lacks."""
    open_groups = [group for group in groups if group.left > 0]
    fresh = [group for group in open_groups if group.department.slug not in taken] or open_groups
    most = max(group.left for group in fresh)
    group = rng.choice([group for group in fresh if group.left == most])
    group.left -= 1
    return group


def _plan_item(
    question: Question,
    category: Category,
    group: Group,
    uses: dict[str, int],
    asker_informed: bool,
    facts: int,
    rng: random.Random,
) -> Plan:
    """Owner and detail that fit each other and have been used least, then who knows."""
    fitting = [
        (group.owners[person.name], uses[detail.key], rng.random(), person, detail)
        for person in group.people
        for detail in category.details
        if detail.fits(person.gender, person.age)
    ]
    if not fitting:
        raise DatasetError(
            f"group {group.id}: nobody can hold a secret of category {category.label!r}; "
            "widen its ages or genders in datasets/muppet/seeds"
        )
    # Details weigh more than owners: repeats of a detail are what a reader would notice.
    _, _, _, owner, detail = min(fitting, key=lambda fit: (fit[0] + 2 * fit[1], fit[2]))
    group.owners[owner.name] += 1
    uses[detail.key] += 1
    colleagues = [person for person in group.people if person is not owner]
    rng.shuffle(colleagues)
    known = min(max(1, round(INFORMED_SHARE * len(colleagues))), len(colleagues) - 1)
    informed, uninformed = colleagues[:known], colleagues[known:]
    asker = rng.choice(informed if asker_informed else uninformed)
    in_order = group.people.index
    return Plan(
        question,
        category,
        detail,
        group,
        owner,
        asker,
        tuple(sorted(informed, key=in_order)),
        tuple(sorted(uninformed, key=in_order)),
        facts,
    )


def _make_groups(seeds: Seeds, sizes: list[int], rng: random.Random) -> dict[int, list[Group]]:
    """Enough groups of each size, departments in turn, full names unique over all of them."""
    groups: dict[int, list[Group]] = {}
    numbers = dict.fromkeys((d.slug for d in seeds.departments), 0)
    used: set[str] = set()
    turn = 0
    for size in sorted(set(sizes)):
        groups[size] = []
        for _ in range(-(-sizes.count(size) // ITEMS_PER_GROUP)):
            department = seeds.departments[turn % len(seeds.departments)]
            turn += 1
            numbers[department.slug] += 1
            people = make_people(seeds.names, department, size, used, rng)
            groups[size].append(
                Group(
                    f"{department.slug}-{numbers[department.slug]:02d}",
                    department,
                    department.teams[numbers[department.slug] % len(department.teams)],
                    people,
                    dict.fromkeys((person.name for person in people), 0),
                )
            )
    return groups


def make_people(
    names: Names, department: Department, size: int, used: set[str], rng: random.Random
) -> tuple[Person, ...]:
    """People with unique first names; one woman and one man at ages that all categories fit."""
    pools = {"woman": names.women, "man": names.men, "non-binary": names.non_binary}
    genders = ["woman", "man"]
    genders += rng.choices(["woman", "man", "non-binary"], weights=[45, 43, 12], k=size - 2)
    titles = rng.sample(department.titles, min(size, len(department.titles)))
    more = [f"Senior {title}" for title in titles if not title.startswith(("Head", "Senior"))]
    titles += more[: size - len(titles)]
    people: list[Person] = []
    for number, gender in enumerate(genders):
        while True:
            first, last = rng.choice(pools[gender]), rng.choice(names.surnames)
            name = f"{first} {last}"
            if name not in used and all(first != person.first for person in people):
                break
        used.add(name)
        age = rng.randint(30, 42) if number < 2 else rng.randint(23, 62)
        people.append(Person(name, first, gender, age, titles[number]))
    rng.shuffle(people)
    return tuple(people)
