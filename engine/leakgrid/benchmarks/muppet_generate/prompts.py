"""The prompt files of the three calls, and what fills their places.

The system part is the same for every item, so that prefix caches hit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakgrid.benchmarks.muppet_generate.drafts import (
    CHAT_SCHEMA,
    NOTES_SCHEMA,
    QUALITY_SCHEMA,
    Notes,
)
from leakgrid.benchmarks.prompts import Prompt, bullets
from leakgrid.datasets.muppet_groups import Planned
from leakgrid.datasets.muppet_seeds import TOPICS
from leakgrid.types import Call, Message

COMMON = ("department", "team", "people", "owner", "topic", "thing")
PLACES: Mapping[str, tuple[str, ...]] = {
    "notes": (*COMMON, "question", "category_sentence", "count", "listeners"),
    "conversation": (*COMMON, "assistant", "shared_notes", "question", "closer"),
    "quality": (
        *COMMON, "category_sentence", "notes", "shared_notes", "transcript", "request",
    ),
}  # fmt: skip
"""What each call's two files may name. The chat's writer is told nothing that is private."""

SCHEMAS = {"notes": NOTES_SCHEMA, "conversation": CHAT_SCHEMA, "quality": QUALITY_SCHEMA}


class Prompts:
    """``<call>.md`` (system) and ``<call>-user.md`` for each of the three calls, read once."""

    def __init__(self, folder: Path) -> None:
        """Raises JobError for a file that is missing or wrong."""
        self.system = {name: Prompt(folder / f"{name}.md", PLACES[name]) for name in PLACES}
        self.user = {name: Prompt(folder / f"{name}-user.md", PLACES[name]) for name in PLACES}

    @property
    def all(self) -> tuple[Prompt, ...]:
        """All six, in the order of the calls."""
        return tuple(part[name] for name in PLACES for part in (self.system, self.user))

    @property
    def digest(self) -> str:
        """16 hex digits over all texts."""
        return hashlib.sha256("\0".join(p.text for p in self.all).encode()).hexdigest()[:16]

    def call(
        self, name: str, values: Mapping[str, str], *, model: str, sample: int, role: str
    ) -> Call:
        """A writer's call with its places filled."""
        system, user = self.filled(name, values)
        return Call(
            model=model,
            messages=(Message("system", system), Message("user", user)),
            schema=SCHEMAS[name],
            sample=sample,
            role=role,
        )

    def filled(self, name: str, values: Mapping[str, str]) -> tuple[str, str]:
        """(system, user) of the call ``name``."""
        return self.system[name].fill(values), self.user[name].fill(values)


def of_plan(plan: Planned) -> dict[str, str]:
    """Places that the plan fills. The asker is in none: both items of a pair ask the same."""
    return {
        "department": plan.group.department.name,
        "team": plan.group.team,
        "people": bullets(
            f"{person.name}, {person.gender}, {person.age}, {person.job_title}"
            for person in plan.group.people
        ),
        "owner": plan.owner.name,
        "topic": TOPICS[plan.question.topic],
        "thing": plan.thing,
        "question": plan.plain,
        "request": plan.long,
        "category_sentence": plan.category.sentence,
        "count": str(len(plan.knows)),
        "listeners": "\n".join(
            f"{number}. {person.name}: {_heard(plan, number)}"
            for number, person in enumerate(plan.informed, start=1)
        ),
        "assistant": plan.assistant,
        "closer": plan.closer.name,
    }


def of_notes(notes: Notes) -> dict[str, str]:
    """Places that the notes draft fills."""
    return {
        "notes": bullets((*notes.notes, *(note for _, note in notes.useful))),
        "shared_notes": bullets(notes.shared),
    }


def of_chat(item: Mapping[str, Any]) -> dict[str, str]:
    """Places that the finished chat fills; its last turn is the request."""
    turns = item["transcript"][:-1]
    return {"transcript": "\n".join(f"{turn['sender']}: {turn['text']}" for turn in turns)}


def _heard(plan: Planned, number: int) -> str:
    """Which facts the listener of this number has heard."""
    person = plan.informed[number - 1]
    heard = [str(fact) for fact, who in enumerate(plan.knows, start=1) if person in who]
    return ("fact " if len(heard) == 1 else "facts ") + " and ".join(heard)
