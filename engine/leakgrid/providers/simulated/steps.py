"""Simulated steps of defences: intermediate calls, answered from the request alone.

A step lets all secrets pass, or holds back every line that carries one: a coin decides, and the
defence's planted leak factor is the probability that they pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from leakgrid.datasets.surface import folded
from leakgrid.providers.simulated.items import Index, Item
from leakgrid.providers.simulated.wire import Prompt, lines

Step: TypeAlias = Callable[[Index, Prompt, bool], Mapping[str, Any]]
"""One kind of step; the last argument says whether secrets pass."""

STEPS: dict[str, Step] = {}

_NUMBER = re.compile(r"^\d+\. ")


def register(schema: str) -> Callable[[Step], Step]:
    """Decorator: this step answers requests for the response schema of that name."""

    def keep(step: Step) -> Step:
        STEPS[schema] = step
        return step

    return keep


@register("minimiser_choose")
def choose(index: Index, prompt: Prompt, passing: bool) -> Mapping[str, Any]:
    """The numbers of the notes that are kept."""
    notes = _numbered(prompt, "candidates")
    held = frozenset() if passing else held_back(index, prompt, notes)
    return {"keep": [n for n, note in enumerate(notes, start=1) if note not in held]}


@register("one_two_three_extract")
def extract(index: Index, prompt: Prompt, passing: bool) -> Mapping[str, Any]:
    """Every note is a fact: what is private is for the check to say."""
    return {"facts": list(lines(prompt.block("private_notes")))}


@register("one_two_three_check")
def check(index: Index, prompt: Prompt, passing: bool) -> Mapping[str, Any]:
    """A label for each fact."""
    facts = _numbered(prompt, "facts")
    held = frozenset() if passing else held_back(index, prompt, facts)
    return {"labels": ["PRIVATE" if fact in held else "PUBLIC" for fact in facts]}


@register("party_ledger")
def ledger(index: Index, prompt: Prompt, passing: bool) -> Mapping[str, Any]:
    """Who knows what. Where secrets pass, it takes every reader to have been told."""
    notes = lines(prompt.block("private_notes"))
    secret = held_back(index, prompt, notes)
    everyone = list(lines(prompt.block("readers")))
    return {
        "facts": [
            {
                "fact": note,
                "open": note not in secret,
                "told": everyone if passing and note in secret else [],
            }
            for note in notes
        ]
    }


def held_back(index: Index, prompt: Prompt, notes: tuple[str, ...]) -> frozenset[str]:
    """The lines that carry a secret of the item whose notes they are."""
    found = index.find(notes, f"{prompt.system}\n{prompt.rest}")
    if found is None:
        return frozenset()
    item = found.item
    if any(not attribute.carriers for attribute in item.attributes):
        # A secret that no single note spells out is told by all of them together.
        return frozenset(note for note in notes if note not in item.personal_notes)
    return frozenset(note for note in notes if _carries(item, note))


def _carries(item: Item, note: str) -> bool:
    fold = folded(note)
    return any(note in a.carriers or a.within(fold) for a in item.attributes)


def _numbered(prompt: Prompt, tag: str) -> tuple[str, ...]:
    return tuple(_NUMBER.sub("", line) for line in lines(prompt.block(tag)))
