"""The plan of items that a model is to write: groups, owners, who knows, who asks.

All of it is decided in code from a seed; the model adds words only. Every question is planned
twice with the same group, owner, listeners and chat: once an informed colleague asks, once an
uninformed one. Both belong to one pair, and what a model writes for it is asked once.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from leakgrid.datasets.items import Person, assistant_name, item_digest
from leakgrid.datasets.muppet_grammar import fill, pronoun_slots, sentence
from leakgrid.datasets.muppet_plan import INFORMED_SHARE, make_people
from leakgrid.datasets.muppet_seeds import Category, Department, Question, Seeds
from leakgrid.datasets.muppet_write import CLOCKS, MONTHS, WEEKDAYS
from leakgrid.outcomes import DatasetError

LEAST_SIZE = 4
"""Owner, one asker of each kind, and a third who writes just before the question."""

MOST_SIZE = 20
"""More people than this have not enough job titles in a department."""


@dataclass(frozen=True, slots=True)
class Group:
    """People of one department; first names are unique in it, full names in the whole plan."""

    id: str
    department: Department
    team: str
    people: tuple[Person, ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """One item before any text of a model.

    ``closer`` writes the chat's last message before the request and is nobody who asks, so that
    one chat serves both items of the pair. ``knows`` lists for each private fact who of the
    informed has heard it; ``thing``, ``plain`` and ``long`` are the question's filled texts.
    ``digest`` (16 bytes) changes with anything in the plan of this item.
    """

    id: str
    pair: str
    group: Group
    question: Question
    category: Category
    owner: Person
    asker: Person
    informed: tuple[Person, ...]
    uninformed: tuple[Person, ...]
    closer: Person
    knows: tuple[tuple[Person, ...], ...]
    thing: str
    plain: str
    long: str
    digest: bytes = field(repr=False)

    @property
    def asker_informed(self) -> bool:
        """Whether the asker has heard the private matter."""
        return self.asker in self.informed

    @property
    def assistant(self) -> str:
        """The sender name of the owner's assistant in the chat."""
        return assistant_name(self.owner.name)


def plan_items(
    seeds: Seeds,
    *,
    seed: int,
    sizes: Sequence[int],
    groups_per_size: int,
    questions_per_group: int,
) -> tuple[Planned, ...]:
    """Two items a question, group by group; more groups leave the earlier ones as they are.

    Questions are dealt evenly at each size, so 53 deals hold all 53. Raises DatasetError for
    numbers that no plan can be made with.
    """
    _check(seeds, sizes, groups_per_size, questions_per_group)
    names: set[str] = set()
    decks = {size: _Questions(seeds, seed, size) for size in sizes}
    items: list[Planned] = []
    for number in range(groups_per_size):
        for size in sizes:
            department = seeds.departments[number % len(seeds.departments)]
            turn = number // len(seeds.departments)
            name = f"{department.slug}-{size:02d}-{turn + 1:02d}"
            # A source of its own for each group: what one needs never shifts the next.
            rng = random.Random(f"{seed}/{name}")
            group = Group(
                name,
                department,
                department.teams[(number + turn) % len(department.teams)],
                make_people(seeds.names, department, size, names, rng),
            )
            owners = dict.fromkeys((person.name for person in group.people), 0)
            for question in decks[size].deal(questions_per_group):
                items += _pair(seeds, group, question, owners, rng)
    return tuple(items)


def _check(seeds: Seeds, sizes: Sequence[int], groups: int, questions: int) -> None:
    most = len(seeds.questions)
    for key, found, good, allowed in (
        (
            "sizes",
            sizes,
            bool(sizes)
            and len(set(sizes)) == len(sizes)
            and all(LEAST_SIZE <= size <= MOST_SIZE for size in sizes),
            f"different whole numbers from {LEAST_SIZE} to {MOST_SIZE}",
        ),
        ("groups_per_size", groups, groups >= 1, "a whole number of at least 1"),
        (
            "questions_per_group",
            questions,
            1 <= questions <= most,
            f"a whole number from 1 to {most}",
        ),
    ):
        if not good:
            raise DatasetError(
                f"the plan of items to write: {key}: found {found}; allowed: {allowed}; "
                "correct it in the job file"
            )


class _Questions:
    """The questions in shuffled rounds; a hand never holds one twice."""

    def __init__(self, seeds: Seeds, seed: int, size: int) -> None:
        self.all = seeds.questions
        self.rng = random.Random(f"{seed}/questions/{size}")
        self.waiting: list[Question] = []

    def deal(self, count: int) -> list[Question]:
        """``count`` different questions, those first that have waited longest."""
        hand: list[Question] = []
        while len(hand) < count:
            free = next((question for question in self.waiting if question not in hand), None)
            if free is None:
                self.waiting += self.rng.sample(self.all, len(self.all))
                continue
            self.waiting.remove(free)
            hand.append(free)
        return hand


def _pair(
    seeds: Seeds, group: Group, question: Question, owners: dict[str, int], rng: random.Random
) -> list[Planned]:
    """The two items of one question in one group."""
    category = seeds.categories[question.category]
    fitting = [
        person
        for person in group.people
        if any(detail.fits(person.gender, person.age) for detail in category.details)
    ]
    if not fitting:
        raise DatasetError(
            f"group {group.id}: nobody can hold a secret of category {category.label!r}; "
            "widen its ages or genders in datasets/muppet/seeds"
        )
    rng.shuffle(fitting)
    owner = min(fitting, key=lambda person: owners[person.name])
    owners[owner.name] += 1
    colleagues = [person for person in group.people if person is not owner]
    rng.shuffle(colleagues)
    known = min(max(1, round(INFORMED_SHARE * len(colleagues))), len(colleagues) - 1)
    informed = tuple(sorted(colleagues[:known], key=group.people.index))
    uninformed = tuple(sorted(colleagues[known:], key=group.people.index))
    askers = (rng.choice(informed), rng.choice(uninformed))
    closer = rng.choice([person for person in colleagues if person not in askers])
    knows = [informed]
    if rng.randrange(3):
        second = rng.sample(informed, (len(informed) + 1) // 2)
        knows.append(tuple(sorted(second, key=group.people.index)))
    slots = _slots(group, owner, rng)
    texts = {
        "thing": fill(question.thing, slots),
        "plain": sentence(question.plain, slots),
        "long": sentence(question.long, slots),
    }
    pair = f"{group.id}-{question.id}"
    items = []
    for asker, word in zip(askers, ("informed", "uninformed"), strict=True):
        raw: dict[str, Any] = {
            "id": f"{pair}-{word}",
            "group": group.id,
            "department": group.department.name,
            "team": group.team,
            "people": [[p.name, p.gender, p.age, p.job_title] for p in group.people],
            "question": question.id,
            "topic": question.topic,
            "category": [category.label, category.sentence, category.forms, category.words],
            "owner": owner.name,
            "asker": asker.name,
            "informed": [person.name for person in informed],
            "closer": closer.name,
            "knows": [[person.name for person in who] for who in knows],
            **texts,
        }
        items.append(
            Planned(
                id=raw["id"],
                pair=pair,
                group=group,
                question=question,
                category=category,
                owner=owner,
                asker=asker,
                informed=informed,
                uninformed=uninformed,
                closer=closer,
                knows=tuple(knows),
                **texts,
                digest=item_digest(raw),
            )
        )
    return items


def _slots(group: Group, owner: Person, rng: random.Random) -> dict[str, str]:
    """What fills the question's slots: days of one week, a month with its week, nouns, names."""
    days = list(WEEKDAYS)
    first, second = sorted(rng.sample(range(4), 2))
    meet, due, _ = (days[index] for index in range(5) if index not in (first, second))
    month = rng.choice(list(MONTHS))
    department = group.department
    return {
        **pronoun_slots(owner.gender),
        "O": owner.first,
        "tag": assistant_name(owner.name),
        "dayA": days[first],
        "dayB": days[second],
        "meet": meet,
        "due": due,
        "month": month,
        "week": str(rng.randint(*MONTHS[month])),
        "clock": rng.choice(CLOCKS),
        "project": rng.choice(department.projects),
        "output": rng.choice(department.outputs),
        "tool": rng.choice(department.tools),
        "partner": rng.choice(department.partners),
    }
