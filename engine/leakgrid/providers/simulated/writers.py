"""Simulated writers of MuPPET items: fit drafts, each spoilt in one way at the planted rates.

Who is who and what is asked is read from the request alone, by lines and names that code fills in
whatever the prompts say; only what a question's category is called comes from the seeds. A draft
depends on every byte of its request, as a model's does: what is made from it is asked anew when
its prompt changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from leakgrid.benchmarks.muppet_generate import stand_in
from leakgrid.datasets.items import Person, assistant_name
from leakgrid.datasets.muppet_grammar import SLOT
from leakgrid.datasets.muppet_groups import Group, Planned
from leakgrid.datasets.muppet_seeds import Question, Seeds, load_seeds
from leakgrid.outcomes import DatasetError
from leakgrid.providers.simulated.assistants import REFUSAL
from leakgrid.providers.simulated.planted import Coins
from leakgrid.providers.simulated.schemas import smallest
from leakgrid.providers.simulated.settings import DRAFT_FAULTS, Simulated, Writer
from leakgrid.providers.simulated.wire import BadRequest, Prompt, Reply, schema_of

Draft: TypeAlias = dict[str, Any]

DRAFTS = {"item_notes": "notes", "item_chat": "chat"}
"""Which draft a response schema asks for."""

NUMBERS = 1_000_000
"""So many drafts differ; the number stands in a shared note and in a message."""

PROSE = (
    "Gladly. The team has a busy week behind it, and I would begin by setting the scene before "
    "anybody speaks. Shall I go on like this?"
)
STRANGER = "Quentin Elsewhere"

# A member's card, and what a listener has heard, as muppet_generate/prompts.py writes them.
_MEMBER = re.compile(r"^- ([^,\n]+), ([a-z-]+), (\d+), (.+)$", re.MULTILINE)
_LISTENER = re.compile(r"^\d+\. ([^:\n]+): facts? (\d+(?: and \d+)*)$", re.MULTILINE)


def load(config: Simulated) -> Drafts:
    """The drafts of a configuration. Raises ValueError when a file of seeds is wrong."""
    try:
        return Drafts(load_seeds(Path(config.items)))
    except DatasetError as error:
        raise ValueError(f"simulated.items: {error}") from error


class Drafts:
    """Answers requests for drafts, by the questions and categories of the seeds."""

    def __init__(self, seeds: Seeds) -> None:
        self.seeds = seeds
        self.questions = [(_pattern(question.plain), question) for question in seeds.questions]

    def reply(
        self, writer: Writer, request: Mapping[str, Any], prompt: Prompt, coins: Coins
    ) -> Reply:
        """The draft that is asked for; the smallest object where the request shows no plan."""
        name, definition = schema_of(request) or ("", {})
        kind = DRAFTS.get(name)
        if kind is None:
            return Reply(orjson.dumps(smallest(definition)).decode())
        rates = {fault: getattr(writer, fault) for fault in DRAFT_FAULTS[kind]}
        fault = coins.dealt(f"{kind} draft", rates)
        if fault == "refusal":
            return Reply(None, refusal=REFUSAL)
        if fault == "unreadable":
            return Reply(PROSE)
        plan = self.plan(f"{prompt.system}\n{prompt.rest}", kind)
        if plan is None:
            return Reply(orjson.dumps(smallest(definition)).decode())
        number = 1 + int(coins("number") * NUMBERS)
        try:
            draft = stand_in.notes(plan, number) if kind == "notes" else stand_in.chat(plan, number)
        except DatasetError as error:
            raise BadRequest(f"messages: {error}") from error
        if fault in SPOILT:
            SPOILT[fault](draft, plan)
        text = orjson.dumps(draft).decode()
        if fault == "truncated":
            return Reply(text[: len(text) // 2], "length")
        return Reply(text)

    def plan(self, text: str, kind: str) -> Planned | None:
        """The plan as far as a request for this draft shows it; None where it shows too little.

        A draft needs no ids, no department and no asker, which requests do not show.
        """
        people = [
            Person(name, name.split()[0], gender, int(age), job)
            for name, gender, age, job in dict.fromkeys(_MEMBER.findall(text))
        ]
        heard = {name: facts.split(" and ") for name, facts in _LISTENER.findall(text)}
        rest = _LISTENER.sub("", _MEMBER.sub("", text))
        named = [person for person in people if person.name in rest]
        asked = self._asked(rest)
        if kind == "notes":
            owners, closers = named, named
        else:
            owners = [person for person in named if assistant_name(person.name) in rest]
            closers = [person for person in named if person not in owners]
        if asked is None or len(owners) != 1 or len(closers) != 1:
            return None
        question, plain = asked
        informed = tuple(person for person in people if person.name in heard)
        if kind == "notes" and not informed:
            return None
        known = sorted({fact for facts in heard.values() for fact in facts}, key=int)
        return Planned(
            id=f"the {kind} of {owners[0].name}",
            pair="",
            group=Group("", self.seeds.departments[0], "", tuple(people)),
            question=question,
            category=self.seeds.categories[question.category],
            owner=owners[0],
            asker=closers[0],
            informed=informed,
            uninformed=tuple(p for p in people if p not in informed and p != owners[0]),
            closer=closers[0],
            knows=tuple(tuple(p for p in informed if fact in heard[p.name]) for fact in known),
            thing=question.thing,
            plain=plain,
            long=plain,
            digest=b"",
        )

    def _asked(self, text: str) -> tuple[Question, str] | None:
        """The question that a text holds, and how it stands there."""
        for pattern, question in self.questions:
            if found := pattern.search(text):
                return question, found[0]
        return None


def _pattern(template: str) -> re.Pattern[str]:
    """Finds a filled question; what fills a slot is short and stays on the line."""
    # Every second piece is a slot's name.
    pieces = [re.escape(piece) for piece in SLOT.split(template)[::2]]
    return re.compile("[^\n]{1,60}?".join(pieces))


def _secret_in_notes(draft: Draft, plan: Planned) -> None:
    draft["shared_notes"][0] += f" It is about {draft['facts'][0]['surface_forms'][0]}."


def _wrong_person(draft: Draft, plan: Planned) -> None:
    draft["notes"][0]["text"] += f" {plan.uninformed[0].first} was there too."


def _wrong_useful_fact(draft: Draft, plan: Planned) -> None:
    draft["useful_facts"][0]["note"] = "The sheet is always open for remarks."


def _secret_in_chat(draft: Draft, plan: Planned) -> None:
    draft["turns"][7]["text"] = f"It is because of {plan.category.forms[0]}, surely."


def _stranger(draft: Draft, plan: Planned) -> None:
    draft["turns"][0]["sender"] = STRANGER


def _asked_early(draft: Draft, plan: Planned) -> None:
    draft["turns"][6]["text"] = plan.plain


SPOILT: Mapping[str, Callable[[Draft, Planned], None]] = {
    "secret_in_notes": _secret_in_notes,
    "wrong_person": _wrong_person,
    "wrong_useful_fact": _wrong_useful_fact,
    "secret_in_chat": _secret_in_chat,
    "stranger": _stranger,
    "asked_early": _asked_early,
}
"""What each fault of a draft does to it."""
