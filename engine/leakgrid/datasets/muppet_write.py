"""From a plan to an item's texts: notes with the secret, shared texts and a chat without it.

Frames are dealt evenly over the whole data set; names, days and nouns are fixed per item, so
that whatever is said twice inside an item is said about the same thing.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from leakgrid.datasets.items import Person, assistant_name
from leakgrid.datasets.muppet_grammar import Deck, fill, named, pronoun_slots, sentence
from leakgrid.datasets.muppet_plan import Plan
from leakgrid.datasets.muppet_seeds import TOPICS, Pair, Phrases, Seeds

Card = TypeVar("Card")

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
# Month and the calendar weeks that lie in it, so that an item's week and month agree.
MONTHS = {
    "March": (10, 13),
    "April": (14, 17),
    "May": (19, 21),
    "June": (23, 26),
    "July": (27, 30),
    "September": (36, 39),
    "October": (41, 43),
}
CLOCKS = ("10:00", "10:30", "11:00", "11:30", "13:00", "13:30", "14:00", "14:30")
TOKENS_PER_WORD = 1.33
POSSESSIVES = ("her", "his", "their")
# Question-and-answer pairs of the chat by group size: (topic, department, office).
PAIRS = {3: (1, 1, 0), 4: (1, 1, 0), 5: (1, 1, 1), 6: (1, 1, 1), 10: (2, 1, 1), 20: (2, 2, 1)}


class Writer:
    """Writes items one after the other; its decks remember what earlier items used."""

    def __init__(self, seeds: Seeds, rng: random.Random) -> None:
        self.rng = rng
        phrases: Phrases = seeds.phrases
        self.phrases = phrases
        self.decks: dict[tuple[str, str], Deck[Any]] = {}
        for key in ("that", "np", "also", "tails", "personal"):
            self._deck(key, "", getattr(phrases, key))
        for key in ("pairs", "handover", "assistant_pairs", "comments"):
            self._deck(key, "", getattr(phrases, key))
        for topic in phrases.openers:
            self._deck("openers", topic, phrases.openers[topic])
            self._deck("topic_pairs", topic, phrases.topic_pairs[topic])
            self._deck("shared", topic, phrases.shared[topic])
        for department in seeds.departments:
            self._deck("department_pairs", department.slug, department.pairs)
            self._deck("department_shared", department.slug, department.shared)
            for key in ("projects", "outputs", "tools", "partners"):
                self._deck(key, department.slug, getattr(department, key))
        for question in seeds.questions:
            self._deck("lead", question.id, question.lead)

    def _deck(self, kind: str, of: str, cards: Sequence[Any]) -> None:
        self.decks[kind, of] = Deck(cards, self.rng)

    def write(self, plan: Plan, number: int) -> dict[str, Any]:
        """The item's JSON object, keys in the order of the schema; number counts from 1."""
        page = _Page(self, plan)
        notes, mentioned = page.notes()
        owner = plan.owner
        facts = page.useful()
        attributes = [
            {
                "key": plan.detail.key,
                "text": page.say(plan.detail.fact),
                "category": plan.category.label,
                "surface_forms": _forms([*plan.detail.forms, *plan.category.forms], owner),
                "known_by": [owner.name, *(person.name for person in plan.informed)],
            }
        ]
        if mentioned:
            extra = plan.detail.more[0]
            attributes.append(
                {
                    "key": extra.key,
                    "text": page.say(extra.fact),
                    "category": plan.category.label,
                    "surface_forms": _forms(extra.forms, owner),
                    "known_by": [owner.name, *(person.name for person in mentioned)],
                }
            )
        item: dict[str, Any] = {
            "id": f"muppet-{number:04d}",
            "group": plan.group.id,
            "department": plan.group.department.name,
            "topic": TOPICS[plan.question.topic],
            "category": plan.category.label,
            "question_id": plan.question.id,
            "question": page.say(plan.question.plain),
            "request": page.say(plan.question.long),
            "team": plan.group.team,
            "people": [asdict(person) for person in plan.group.people],
            "owner": owner.name,
            "asker": plan.asker.name,
            "asker_informed": plan.asker in plan.informed,
            "informed": [person.name for person in plan.informed],
            "uninformed": [person.name for person in plan.uninformed],
            "category_sentence": plan.category.sentence,
            "attributes": attributes,
            "useful_facts": [page.say(f"{{O}} {fact}.") for fact in facts],
            "notes": notes,
            "personal_notes": page.personal(facts),
            "shared_notes": page.shared(),
            "transcript": page.chat(),
        }
        item["statistics"] = statistics(item)
        return item


class _Page:
    """One item being written: its fixed slots and what it has used of each deck."""

    def __init__(self, writer: Writer, plan: Plan) -> None:
        self.writer, self.plan, self.rng = writer, plan, writer.rng
        self.plural = plan.owner.gender == "non-binary"
        self.used: dict[tuple[str, str], set[int]] = {}
        self.turns: list[dict[str, str]] = []
        self.colleagues = [p for p in plan.group.people if p is not plan.owner]
        self.spoken = dict.fromkeys((person.name for person in self.colleagues), 0)
        department = plan.group.department.slug
        # Four days of one week in order plus Friday: nothing is planned twice for one day.
        days = list(WEEKDAYS)
        day_a, day_b = sorted(self.rng.sample(range(4), 2))
        meet, due, day_c = (days[i] for i in range(5) if i not in (day_a, day_b))
        month = self.rng.choice(list(MONTHS))
        clock, clock2 = self.rng.sample(CLOCKS, 2)
        self.slots: dict[str, str] = {
            **pronoun_slots(plan.owner.gender),
            "O": plan.owner.first,
            "tag": assistant_name(plan.owner.name),
            "dayA": days[day_a],
            "dayB": days[day_b],
            "dayC": day_c,
            "meet": meet,
            "due": due,
            "month": month,
            "week": str(self.rng.randint(*MONTHS[month])),
            "clock": clock,
            "clock2": clock2,
            "project": self.deal("projects", department),
            "output": self.deal("outputs", department),
            "tool": self.deal("tools", department),
            "partner": self.deal("partners", department),
        }
        self.slots["thing"] = fill(plan.question.thing, self.slots)

    def deal(self, kind: str, of: str = "") -> Any:
        """A card of a deck that this item has not used yet."""
        return self.writer.decks[kind, of].deal(self.used.setdefault((kind, of), set()))

    def say(self, template: str, more: Mapping[str, str] | None = None, **slots: str) -> str:
        """A sentence about the owner by name: verbs that agree are singular."""
        return sentence(template, {**self.slots, **(more or {}), **slots})

    def clause(self, template: str, **slots: str) -> str:
        """A clause about the owner by pronoun: verbs agree with it."""
        return fill(template, {**self.slots, **slots}, plural=self.plural)

    def notes(self) -> tuple[list[str], list[Person]]:
        """One note per informed colleague, and the colleagues who heard the second fact too."""
        plan, rng = self.plan, self.rng
        mentioned: list[Person] = []
        if plan.facts > 1:
            count = (len(plan.informed) + 1) // 2
            mentioned = sorted(rng.sample(plan.informed, count), key=plan.informed.index)
        wordings = Deck(
            [("that", text) for text in plan.detail.that] + [("np", t) for t in plan.detail.np],
            rng,
        )
        used: set[int] = set()
        tails = rng.random() if len(plan.informed) < 3 else 0.0
        notes = []
        for index, person in enumerate(plan.informed):
            # A single note must carry the whole fact, so it is told as a clause.
            allowed = range(len(plan.detail.that)) if not index else None
            kind, wording = wordings.deal(used, allowed)
            if len(used) == len(wordings.cards):
                used.clear()
            about = {"K": person.first, "dayX": rng.choice(WEEKDAYS)}
            about[kind] = self.clause(wording, **about)
            about["that_named"] = self.clause(named(wording), **about)
            text = self.say(self.deal(kind), about)
            if person in mentioned:
                more = self.clause(plan.detail.more[0].that, **about)
                text += " " + self.say(self.deal("also"), {**about, "more": more})
            if (index % 2 == 0) == (tails < 0.6):
                text += " " + self.say(self.deal("tails"), about)
            notes.append(text)
        return notes, mentioned

    def useful(self) -> list[str]:
        """Two or three of the question's useful facts, as predicates with open agreement."""
        count = self.rng.choice((2, 3, 3))
        facts = list(self.plan.question.useful)
        chosen = sorted(self.rng.sample(range(len(facts)), min(count, len(facts))))
        return [facts[index] for index in chosen]

    def personal(self, facts: list[str]) -> list[str]:
        """One owner-only note per useful fact, without the secret."""
        notes = []
        # Past days that no fact names, so that no note is written on the day it speaks of.
        past = (self.slots["meet"], self.slots["dayC"])
        for fact in facts:
            slots = {"dayX": self.rng.choice(past), "fact": self.clause(fact)}
            notes.append(self.say(self.deal("personal"), slots, fact_name=self.say_low(fact)))
        return notes

    def say_low(self, template: str) -> str:
        """A predicate that follows the owner's name: singular, no capital."""
        return fill(template, self.slots)

    def shared(self) -> list[str]:
        """Five notes that all see: two of the question, two of the topic, one of the desk."""
        topic, slug = self.plan.question.topic, self.plan.group.department.slug
        notes = [self.say(text) for text in self.plan.question.shared]
        notes += [self.say(self.deal("shared", topic)) for _ in range(2)]
        notes.append(self.say(self.deal("department_shared", slug)))
        return notes

    def chat(self) -> list[dict[str, str]]:
        """The transcript: an opening, a few exchanges, the assistant's part, the request."""
        plan, topic = self.plan, self.plan.question.topic
        chair = self.rng.choice([p for p in self.colleagues if p is not plan.asker])
        self.turn(chair.name, self.say(self.deal("openers", topic)))
        self.spoken[chair.name] += 1
        in_topic, in_department, in_office = PAIRS[len(plan.group.people)]
        exchanges: list[Pair] = [self.deal("topic_pairs", topic) for _ in range(in_topic)]
        slug = plan.group.department.slug
        exchanges += [self.deal("department_pairs", slug) for _ in range(in_department)]
        exchanges += [self.deal("pairs") for _ in range(in_office)]
        self.rng.shuffle(exchanges)
        exchanges.append(self.rng.choice(plan.question.talk))
        handover = self.rng.randrange(len(exchanges)) if self.owner_speaks() else -1
        for index, pair in enumerate(exchanges):
            self.exchange(pair)
            if index == handover:
                self.turn(plan.owner.name, self.say(self.deal("handover")))
            elif self.rng.random() < 0.35:
                self.comment()
        self.assistant()
        self.turn(chair.name, self.say(self.deal("lead", plan.question.id)))
        self.turn(plan.asker.name, self.say(plan.question.long))
        return self.turns

    def owner_speaks(self) -> bool:
        """Whether the owner hands over in the chat: always in a group of three."""
        return len(self.colleagues) == 2 or self.rng.random() < 0.6

    def turn(self, sender: str, text: str) -> None:
        """Append one message."""
        self.turns.append({"sender": sender, "text": text})

    def speaker(self, *barred: str) -> Person:
        """A colleague who has said least so far and is not barred, if anybody is left."""
        people = [p for p in self.colleagues if p.name not in barred] or self.colleagues
        low = min(self.spoken[person.name] for person in people)
        person = self.rng.choice([p for p in people if self.spoken[p.name] == low])
        self.spoken[person.name] += 1
        return person

    def exchange(self, pair: Pair) -> None:
        """One colleague asks, the other answers."""
        asks = self.speaker(self.turns[-1]["sender"])
        answers = self.speaker(asks.name)
        slots = {"A": answers.first, "Q": asks.first}
        self.turn(asks.name, self.say(pair[0], slots))
        self.turn(answers.name, self.say(pair[1], slots))

    def comment(self) -> None:
        """A short remark by somebody who did not write the last two messages."""
        barred = [turn["sender"] for turn in self.turns[-2:]]
        if len(self.colleagues) > 2:
            self.turn(self.speaker(*barred).name, self.say(self.deal("comments")))

    def assistant(self) -> None:
        """Somebody asks the owner's assistant something harmless and is answered."""
        question, answer = self.deal("assistant_pairs")
        self.turn(self.speaker(self.turns[-1]["sender"]).name, self.say(question))
        self.turn(self.slots["tag"], self.say(answer))


def statistics(item: Mapping[str, Any]) -> dict[str, int | float]:
    """parties, facts, tokens (words of all texts an assistant sees * 1.33), density per 1000."""
    texts = [item["team"], *item["notes"], *item["personal_notes"], *item["shared_notes"]]
    texts += [turn["text"] for turn in item["transcript"]]
    tokens = round(sum(len(text.split()) for text in texts) * TOKENS_PER_WORD)
    facts = len(item["attributes"])
    density = round(1000 * facts / tokens, 3)
    return {
        "parties": len(item["people"]),
        "facts": facts,
        "tokens": tokens,
        "density": density,
    }


def _forms(forms: Sequence[str], owner: Person) -> list[str]:
    """Lower-case forms without repeats; "her mother" also as "priya's mother"."""
    found = []
    for form in forms:
        found.append(form.lower())
        whose, _, rest = form.partition(" ")
        if whose in POSSESSIVES and rest:
            found.append(f"{owner.first}'s {rest}".lower())
    return list(dict.fromkeys(found))
