"""From a plan and drafts to an item's JSON object, keys in the order of the schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from leakgrid.benchmarks.muppet_generate.drafts import Chat, Fact, Notes
from leakgrid.datasets.muppet_groups import Planned
from leakgrid.datasets.muppet_seeds import TOPICS
from leakgrid.datasets.muppet_write import statistics


def noted(plan: Planned, notes: Notes) -> dict[str, Any]:
    """The item without its chat and statistics."""
    owner = plan.owner
    return {
        "id": plan.id,
        "group": plan.group.id,
        "department": plan.group.department.name,
        "topic": TOPICS[plan.question.topic],
        "category": plan.category.label,
        "question_id": plan.question.id,
        "question": plan.plain,
        "request": plan.long,
        "team": plan.group.team,
        "people": [asdict(person) for person in plan.group.people],
        "owner": owner.name,
        "asker": plan.asker.name,
        "asker_informed": plan.asker_informed,
        "informed": [person.name for person in plan.informed],
        "uninformed": [person.name for person in plan.uninformed],
        "category_sentence": plan.category.sentence,
        "attributes": [
            {
                "key": f"fact-{number}",
                "text": fact.text,
                "category": plan.category.label,
                "surface_forms": _forms(plan, number, fact),
                "known_by": [owner.name, *(person.name for person in knows)],
            }
            for number, (fact, knows) in enumerate(
                zip(notes.facts, plan.knows, strict=True), start=1
            )
        ],
        "useful_facts": [fact for fact, _ in notes.useful],
        "notes": list(notes.notes),
        "personal_notes": [note for _, note in notes.useful],
        "shared_notes": list(notes.shared),
        "transcript": [],
    }


def _forms(plan: Planned, number: int, fact: Fact) -> list[str]:
    """The draft's own forms; the first fact has the category's plain words too."""
    more: Sequence[str] = plan.category.forms if number == 1 else ()
    return list(dict.fromkeys([*fact.forms, *(form.lower() for form in more)]))


def finished(plan: Planned, item: dict[str, Any], chat: Chat, sample: int) -> dict[str, Any]:
    """The whole item; the request is put in by code, word for word. Samples after 0 are named."""
    turns = [*chat.turns, (plan.asker.name, plan.long)]
    whole = {
        **item,
        "id": plan.id if not sample else f"{plan.id}-s{sample}",
        "transcript": [{"sender": sender, "text": text} for sender, text in turns],
    }
    return {**whole, "statistics": statistics(whole)}
