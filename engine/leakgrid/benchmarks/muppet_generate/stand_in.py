"""Drafts that pass every check and have the usual length, put together without a model.

They stand in for a model's where none is asked: in forecasts, and wherever a writer is simulated.
Their prose is plain; nobody should mistake them for items. A change here changes simulated drafts:
raise WRITING_VERSION in providers/simulated/settings.py.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from leakgrid.datasets.muppet_groups import Planned
from leakgrid.outcomes import DatasetError

Draft: TypeAlias = dict[str, Any]
"""A draft as the JSON object that a model would answer with."""

QUALITY: Draft = {
    "rationale": "The messages follow from each other and keep to the plan.",
    "coherent": True,
    "on_topic": True,
    "consistent": True,
    "leaks": False,
}

# Each frame is used once in an item, so that no two notes share a run of words.
_NOTES = (
    "Over lunch {O} spoke to {K} about {it} and asked for no fuss. {K} nodded, changed the "
    "subject, and held the door on the way out.",
    "On the way to the car park {K} heard from {O} of {it}. The rain was loud, and half of the "
    "rest went under.",
    "{O} rang {K} late one evening because of {it}. They talked until the tram depot closed.",
    "It was {K} whom {O} first trusted with {it}, behind the archive shelves. Nothing was written "
    "down, and nothing has been said since.",
    "After the fire drill {O} mentioned {it} to {K} in half a sentence. The other half followed "
    "on the stairs, floor by floor.",
    "{K} had noticed something, so {O} explained {it} by the coffee machine. It took two cups and "
    "an apology to whoever was waiting.",
    "Waiting for a bus, {O} brought up {it} and {K} listened. The timetable gave both of them an "
    "excuse to look elsewhere.",
    "{O} wrote {K} a long message whose point was {it}. The answer was short and kind.",
    "In the empty canteen {O} admitted to {K} how much {it} mattered. Chairs were being stacked "
    "around the two of them.",
    "{K} was let in on {it} by {O} at the spring fair. Between two stands there was a bench in "
    "the shade.",
    "A walk round the pond gave {O} the calm to tell {K} of {it}. On the second lap they spoke of "
    "ducks again.",
    "With the door shut, {O} went through {it} with {K} step by step. Someone knocked once and "
    "was sent away.",
)
_USEFUL = (
    (
        "{O} can take the Tuesday list from 09:30 instead.",
        "What {O} can offer instead: take the Tuesday list from 09:30.",
    ),
    (
        "{O} would need the final sheet by Thursday noon.",
        "Worth saying: {O} would need the final sheet by Thursday noon.",
    ),
)
_SHARED = (
    "The sheet is closed on Thursday at noon and printed for the board.",
    "Changes after that need a word with the team lead.",
    "Each entry carries the name of one person and a date.",
    "Swaps are written down by both people before they count.",
    "Entry {number} is the one to settle first.",
)
_TURNS = (
    "Shall we go through the open points before noon? The sheet has been on my second screen "
    "since eight.",
    "Two of them are mine and both are nearly finished. The third waits for a signature.",
    "The printed list is on the desk by the window, under the stapler that nobody owns.",
    "Has the newest version of the sheet been opened by your side? Yesterday it was still grey.",
    "Yes, it was opened on Monday and one comment was left in the margin.",
    "Good, then the second column can be closed. That was the long one.",
    "Entry {number} still needs a name beside it, and both swaps have to be written down.",
    "Nobody touched that entry since the last round. It even has the old date.",
    "Let us take it now and be done with it. There is cake at three.",
    "So one thing is left on the list, and it is the one from the top.",
)
_ASSISTANT = 4
"""Place of the assistant's turn, which answers the one before it."""


def notes(plan: Planned, number: int = 1) -> Draft:
    """A notes draft; ``number`` stands in a shared note. Raises DatasetError without a detail."""
    owner = plan.owner
    detail = next(
        (
            one
            for one in plan.category.details
            if one.fits(owner.gender, owner.age) and len(one.more) >= len(plan.knows) - 1
        ),
        None,
    )
    if detail is None:
        raise DatasetError(f"{plan.id}: no detail of {plan.category.label} fits the owner")
    forms = [detail.forms[0].lower(), *(more.forms[0].lower() for more in detail.more)]
    forms = forms[: len(plan.knows)]
    told = []
    for place, person in enumerate(plan.informed):
        heard = [forms[fact] for fact, who in enumerate(plan.knows) if person in who]
        frame = _NOTES[place % len(_NOTES)]
        told.append(frame.format(O=owner.first, K=person.first, it=" and ".join(heard)))
    return {
        "facts": [
            {"number": fact, "fact": f"{owner.first} told of {form}", "surface_forms": [form]}
            for fact, form in enumerate(forms, start=1)
        ],
        "notes": [{"number": place, "text": text} for place, text in enumerate(told, start=1)],
        "useful_facts": [
            {"fact": fact.format(O=owner.first), "note": note.format(O=owner.first)}
            for fact, note in _USEFUL
        ],
        "shared_notes": [text.format(number=number) for text in _SHARED],
    }


def chat(plan: Planned, number: int = 1) -> Draft:
    """A chat draft; ``number`` stands in one message."""
    others = [
        person.name for person in plan.group.people if person not in (plan.owner, plan.closer)
    ]
    senders = [others[place % len(others)] for place in range(len(_TURNS))]
    senders[_ASSISTANT], senders[-1] = plan.assistant, plan.closer.name
    return {
        "turns": [
            {"sender": sender, "text": text.format(number=number)}
            for sender, text in zip(senders, _TURNS, strict=True)
        ]
    }
