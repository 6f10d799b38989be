"""The parties ablation: one base item with 2 to 20 people, all else held; and with other lengths.

Run: python -m leakgrid.datasets.muppet_parties [--out PATH] [--seed N] [--each]
Raises DatasetError (printed, exit code 2) when a variant has a fault or cannot meet its target.
"""

from __future__ import annotations

import argparse
import copy
import os
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakgrid.datasets.items import parse_item
from leakgrid.datasets.muppet_checks import reasons
from leakgrid.datasets.muppet_generate import PER_QUESTION, SEED, TRIES, item_lines
from leakgrid.datasets.muppet_parties_match import (
    TOTAL,
    condition_table,
    counted_tokens,
    faults,
    match_lines,
    matches,
)
from leakgrid.datasets.muppet_plan import Plan, make_plan
from leakgrid.datasets.muppet_seeds import MATERIAL, Names, Pair, Seeds, load_seeds

# The page is a base's fixed slots (days, project, names): only it can add turns that agree.
from leakgrid.datasets.muppet_write import Writer, _Page, statistics
from leakgrid.outcomes import DatasetError

PARTIES = (2, 3, 5, 10, 20)
MIDDLE = 5
LENGTHS = (560, 760, 960, 1160)
TOKENS = 760
TOTAL_TOKENS = 840
TOLERANCE = 0.05
NOTES = 2
POOLS = {"woman": "women", "man": "men", "non-binary": "non_binary"}


@dataclass(frozen=True, slots=True)
class Base:
    """A shipped item with its twenty chat members and the turns that every variant draws on.

    members: owner and asker first, then who joins, so that smaller groups are part of larger
    ones. order: theirs in the list of people. fillers: exchanges in the order of their use.
    """

    item: dict[str, Any]
    plan: Plan
    page: _Page
    members: tuple[dict[str, Any], ...]
    order: tuple[str, ...]
    fillers: tuple[Pair, ...]
    opener: str
    comment: str
    handover: str
    harmless: Pair
    lead: str


def make_bases(seeds: Seeds, seed: int = SEED) -> list[Base]:
    """One base for each pair of topic and category, as the shipped file has it.

    It is the pair's first item with two notes and an asker who is not informed.
    """
    rng = random.Random(seed)
    writer = Writer(seeds, rng)
    plans = make_plan(seeds, PER_QUESTION, rng)
    used = {person.name for plan in plans for person in plan.group.people}
    bases: dict[tuple[str, str], Base] = {}
    for number, plan in enumerate(plans, start=1):
        pair = (plan.question.topic, plan.category.label)
        fits = len(plan.informed) == NOTES and plan.asker in plan.uninformed
        wanted, twin, item = fits and pair not in bases, writer, {}
        for _ in range(TRIES):
            # A page draws its slots first, so a copy of the writer's state gives the same page.
            twin = copy.deepcopy(writer) if wanted else writer
            item = writer.write(plan, number)
            if not reasons(item, plan.category.words):
                break
        if wanted:
            own = random.Random(f"parties-{seed}-{number}")
            bases[pair] = _base(item, plan, _Page(twin, plan), seeds.names, used, own)
    return list(bases.values())


def _base(
    item: dict[str, Any],
    plan: Plan,
    page: _Page,
    names: Names,
    used: set[str],
    rng: random.Random,
) -> Base:
    """The people and turns of a base; rng is its own, so that bases do not shift each other."""
    first = [p for p in item["people"] if p["name"] in (item["owner"], item["asker"])]
    first.sort(key=lambda person: person["name"] != item["owner"])
    rest = [p for p in item["people"] if p["name"] in item["uninformed"] and p not in first]
    members = [*first, *rest, *_joining(item, plan, max(PARTIES) - 2 - len(rest), names, used, rng)]
    order = [person["name"] for person in members]
    rng.shuffle(order)
    phrases, topic = page.writer.phrases, plan.question.topic
    fillers = [*phrases.pairs, *plan.group.department.pairs, *phrases.topic_pairs[topic]]
    rng.shuffle(fillers)
    return Base(
        item,
        plan,
        page,
        tuple(members),
        tuple(order),
        tuple(fillers),
        rng.choice(phrases.openers[topic]),
        rng.choice(phrases.comments),
        rng.choice(phrases.handover),
        rng.choice(phrases.assistant_pairs),
        rng.choice(plan.question.lead),
    )


def _joining(
    item: dict[str, Any],
    plan: Plan,
    count: int,
    names: Names,
    used: set[str],
    rng: random.Random,
) -> list[dict[str, Any]]:
    """New colleagues of the department: new full names, first names unlike any in the item."""
    taken = {person["first"] for person in item["people"]}
    titles = list(plan.group.department.titles)
    titles += [f"Senior {t}" for t in titles if not t.startswith(("Head", "Senior"))]
    titles = [t for t in titles if t not in {p["job_title"] for p in item["people"]}]
    rng.shuffle(titles)
    people = []
    for title in titles[:count]:
        gender = rng.choices(list(POOLS), weights=[45, 43, 12])[0]
        while True:
            first = rng.choice(getattr(names, POOLS[gender]))
            name = f"{first} {rng.choice(names.surnames)}"
            if first not in taken and name not in used:
                break
        taken.add(first)
        used.add(name)
        age = rng.randint(23, 62)
        people.append(
            {"name": name, "first": first, "gender": gender, "age": age, "job_title": title}
        )
    return people


class _Chat:
    """One variant's transcript; the same turns whoever is there, only the speakers differ."""

    def __init__(self, base: Base, parties: int) -> None:
        self.base, self.page = base, base.page
        self.owner, self.asker, *others = base.members[:parties]
        # With two people the owner asks and the asker answers: the owner tells nothing of itself.
        self.two = not others
        self.colleagues = [self.asker, *others]
        self.chair = others[0] if others else self.asker
        # Chair and asker have turns of their own, so the others are picked first.
        self.spoken = {p["name"]: int(p in (self.chair, self.asker)) for p in self.colleagues}
        self.turns: list[dict[str, str]] = []

    def write(self, fillers: Sequence[Pair]) -> list[dict[str, str]]:
        """Opening, fillers, the talk about the matter, the assistant's part, the request."""
        base, say = self.base, self.page.say
        self.turn(self.chair, say(base.opener))
        for pair in (*fillers, base.plan.question.talk[0]):
            self.exchange(pair)
        self.turn(self.owner if self.two else self.pick(self.chair), say(base.comment))
        self.turn(self.chair, say(base.lead))
        self.turn(self.owner, say(base.handover))
        self.turn(self.asker if self.two else self.pick(self.owner), say(base.harmless[0]))
        self.turns.append({"sender": self.page.slots["tag"], "text": say(base.harmless[1])})
        self.turn(self.asker, base.item["request"])
        return self.turns

    def exchange(self, pair: Pair) -> None:
        """One asks, another answers."""
        asks = self.owner if self.two else self.pick()
        answers = self.asker if self.two else self.pick(asks)
        slots = {"A": answers["first"], "Q": asks["first"]}
        self.turn(asks, self.page.say(pair[0], slots))
        self.turn(answers, self.page.say(pair[1], slots))

    def pick(self, *barred: Mapping[str, Any]) -> Mapping[str, Any]:
        """The colleague who has said least, neither the last sender nor barred."""
        last = self.turns[-1]["sender"]
        free = [p for p in reversed(self.colleagues) if p["name"] != last and p not in barred]
        chosen = min(free or self.colleagues, key=lambda person: self.spoken[person["name"]])
        self.spoken[chosen["name"]] += 1
        return chosen

    def turn(self, person: Mapping[str, Any], text: str) -> None:
        """Append one message."""
        self.turns.append({"sender": person["name"], "text": text})


def make_variant(base: Base, arm: str, parties: int, tokens: int) -> dict[str, Any]:
    """The variant whose fillers bring it nearest to `tokens`; facts and notes stay the base's."""
    chosen: list[Pair] = []
    best: tuple[int, dict[str, Any]] | None = None
    for pair in (None, *base.fillers):
        # Fillers are taken in order while they fit; one that would go past the mark is tried as
        # the last one only, and the nearest of all these drafts is the variant.
        trial = [*chosen, pair] if pair else chosen
        draft = _assemble(base, arm, parties, tokens, trial)
        off = counted_tokens(draft) - tokens
        if best is None or abs(off) < abs(best[0]):
            best = (off, draft)
        if off <= 0:
            chosen = trial
    assert best is not None
    if abs(best[0]) > TOLERANCE * tokens:
        raise DatasetError(
            f"{base.item['id']}, {arm}, {parties} parties: found {tokens + best[0]} tokens at the "
            f"nearest; allowed: {tokens} within {TOLERANCE:.0%}; change the target or add phrases"
        )
    return best[1]


def _assemble(
    base: Base, arm: str, parties: int, tokens: int, fillers: Sequence[Pair]
) -> dict[str, Any]:
    """The variant's JSON object with these fillers, keys in the order of the schema."""
    item = base.item
    inside = {person["name"]: person for person in base.members[:parties]}
    people = [inside[name] for name in base.order if name in inside]
    owner = item["owner"]
    label = f"{tokens}" if arm == "length" else f"{parties:02d}"
    made: dict[str, Any] = {
        **item,
        "id": f"{item['id']}-{arm}-{label}",
        "people": people,
        "asker_informed": False,
        "informed": [],
        "uninformed": [person["name"] for person in people if person["name"] != owner],
        "attributes": [{**fact, "known_by": [owner]} for fact in item["attributes"]],
        "transcript": _Chat(base, parties).write(fillers),
        "outside": list(item["informed"]),
        "variant": {"base": item["id"], "arm": arm, "parties": parties, "tokens": tokens},
    }
    made["statistics"] = statistics(made)
    return made


def make_variants(bases: Sequence[Base]) -> list[dict[str, Any]]:
    """All arms of all bases, base by base. Raises DatasetError for a fault."""
    made = []
    for base in bases:
        conditions = [("parties", parties, TOKENS) for parties in PARTIES]
        conditions += [(TOTAL, parties, TOTAL_TOKENS) for parties in PARTIES]
        conditions += [("length", MIDDLE, tokens) for tokens in LENGTHS]
        for arm, parties, tokens in conditions:
            item = make_variant(base, arm, parties, tokens)
            found = faults(item, base.plan.category.words)
            if found:
                raise DatasetError(
                    f"{item['id']}: found {found[0]}; allowed: no fault; correct the seed phrases"
                )
            made.append(item)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Make, check and write the file; prints the table of conditions. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="muppet_parties", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=MATERIAL / "parties.jsonl")
    parser.add_argument("--seed", type=int, default=SEED, help="the seed of the base items")
    parser.add_argument("--each", action="store_true", help="print every variant's match")
    options = parser.parse_args(argv)
    try:
        bases = make_bases(load_seeds(), options.seed)
        items = make_variants(bases)
        data = item_lines(items)
        for number, line in enumerate(data.splitlines(), start=1):
            parse_item(line, options.out, number)
    except DatasetError as error:
        print(error, file=sys.stderr)
        return 2
    temporary = options.out.with_name(options.out.name + ".part")
    temporary.write_bytes(data)
    os.replace(temporary, options.out)
    print(f"{len(items)} variants of {len(bases)} base items, {len(data):,} bytes")
    print(condition_table(items))
    if options.each:
        print("\n".join(match_lines(matches(items, {b.item["id"]: b.item for b in bases}))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
