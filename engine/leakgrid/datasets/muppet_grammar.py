"""The grammar's machinery: slots, number agreement, sentence capitals, evenly dealt decks.

The words themselves live in datasets/muppet/seeds. Raises DatasetError for an unknown slot.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Generic, TypeVar

from leakgrid.outcomes import DatasetError

Card = TypeVar("Card")

SLOT = re.compile(r"\{(\w+)\}")
AGREEMENT = re.compile(r"\[([^\[\]|]*)\|([^\[\]|]*)\]")
SENTENCE_START = re.compile(r"(^|[.!?]['\"]? )([a-zà-ÿ])")
FIRST_PRONOUN = re.compile(r"\{(they|them|their)\}(?: \[(\w+)\|\w+\])?(?!self)")
PRONOUNS = {
    "woman": ("she", "her", "her"),
    "man": ("he", "him", "his"),
    "non-binary": ("they", "them", "their"),
}


def pronoun_slots(gender: str) -> dict[str, str]:
    """The owner's pronouns under both slot names that the seeds use."""
    subject, object_, possessive = PRONOUNS[gender]
    return {"they": subject, "them": object_, "their": possessive, "o": subject, "o_p": possessive}


def fill(template: str, slots: Mapping[str, str], *, plural: bool = False) -> str:
    """The template with its slots and [is|are] choices filled in; plural takes the second one."""

    def slot(match: re.Match[str]) -> str:
        try:
            return slots[match[1]]
        except KeyError:
            raise DatasetError(
                f"seed phrase {template!r}: found the slot {{{match[1]}}}; "
                f"allowed: {', '.join(sorted(slots))}; fix: correct the slot in datasets/muppet"
            ) from None

    chosen = AGREEMENT.sub(lambda match: match[2 if plural else 1], template)
    return SLOT.sub(slot, chosen)


def named(clause: str) -> str:
    """The clause with the owner's name in place of its first pronoun, the verb to match.

    For sentences with another subject, where a bare "she" would point to the wrong person.
    """
    return FIRST_PRONOUN.sub(_name, clause, count=1)


def _name(match: re.Match[str]) -> str:
    """The owner's name in the case of the pronoun; a name's verb is always singular."""
    verb = f" {match[2]}" if match[2] else ""
    return ("{O}'s" if match[1] == "their" else "{O}") + verb


def sentence(template: str, slots: Mapping[str, str], *, plural: bool = False) -> str:
    """A filled template with a capital letter at the start of each of its sentences."""
    text = fill(template, slots, plural=plural)
    return SENTENCE_START.sub(lambda match: match[1] + match[2].upper(), text)


class Deck(Generic[Card]):
    """Cards dealt evenly: the least used ones first, ties broken by the random source.

    Even dealing keeps every phrase's share of the items as low as the material allows.
    """

    def __init__(self, cards: Sequence[Card], rng: random.Random) -> None:
        self.cards = tuple(cards)
        self.rng = rng
        self.uses = [0] * len(self.cards)

    def deal(self, used: set[int], allowed: Collection[int] | None = None) -> Card:
        """One card that `used` (indices of this item) lacks, if there is one; notes it there."""
        indices = range(len(self.cards)) if allowed is None else sorted(allowed)
        free = [index for index in indices if index not in used] or list(indices)
        low = min(self.uses[index] for index in free)
        index = self.rng.choice([index for index in free if self.uses[index] == low])
        self.uses[index] += 1
        used.add(index)
        return self.cards[index]
