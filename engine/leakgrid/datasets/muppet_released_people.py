"""Names in released rows: members, namesakes, who wrote a turn, whom a note tells the secret.

Raises RowFault with a reason where anything further would be a guess.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from leakgrid.datasets.muppet_released_files import full_name, pick

Note = Callable[[str, str, str], None]
"""Notes an oddity of the row at hand: kind, found, done."""

GENDERS = {
    "woman": "woman", "female": "woman", "f": "woman", "man": "man", "male": "man", "m": "man",
    "nonbinary": "non-binary", "enby": "non-binary", "nb": "non-binary",
}  # fmt: skip
UMBRELLA = ("genderqueer", "genderfluid", "agender", "bigender", "polygender")


class RowFault(Exception):
    """The row cannot become an item: kind and found, for the report."""

    def __init__(self, kind: str, found: str) -> None:
        super().__init__(kind, found)
        self.kind, self.found = kind, found


@dataclass(frozen=True, slots=True)
class Heard:
    """What the owner's notes say: notes of a conversation, who heard, notes that name nobody."""

    notes: tuple[str, ...]
    informed: tuple[str, ...]
    other: tuple[str, ...]


class Roster:
    """The people of one row and how a text may call them."""

    def __init__(self, members: Any, note: Note) -> None:
        """Raises RowFault for people who cannot be told apart or lack what a card needs."""
        profiles = list(members.values()) if isinstance(members, dict) else members
        if not isinstance(profiles, list | tuple) or len(profiles) < 2:
            raise RowFault("members unreadable", _short(members))
        self.names = [full_name(profile) for profile in profiles]
        repeated = [name for name, count in Counter(self.names).items() if count > 1 or not name]
        if repeated:
            raise RowFault("two members of one name", ", ".join(repeated) or "no name")
        self.firsts = {
            name: {name.split()[0], " ".join(str(pick(profile, "first_name") or "").split())} - {""}
            for name, profile in zip(self.names, profiles, strict=True)
        }
        shared = Counter(name.split()[0] for name in self.names)
        for first in sorted(first for first, count in shared.items() if count > 1):
            people = [name for name in self.names if name.split()[0] == first]
            note("namesakes", f"{first!r} is {' and '.join(people)}", "repaired")
        self.people = [
            _card(profile, name, name if shared[name.split()[0]] > 1 else name.split()[0], note)
            for name, profile in zip(self.names, profiles, strict=True)
        ]

    def called(self, text: str) -> list[str]:
        """Everybody whom a name given alone may mean: the full name, else first names."""
        wanted = " ".join(text.split()).casefold()
        exact = [name for name in self.names if name.casefold() == wanted]
        return exact or [
            name
            for name in self.names
            if any(wanted == first.casefold() for first in self.firsts[name])
        ]

    def mentioned(self, text: str) -> tuple[set[str], list[frozenset[str]]]:
        """The people whom a text names for certain, and the sets of namesakes it may mean."""
        certain: set[str] = set()
        # Full names first and longest first, so that their first names are not seen again.
        for name in sorted(self.names, key=len, reverse=True):
            text, count = re.subn(rf"(?<!\w){re.escape(name)}(?!\w)", "\0", text)
            if count:
                certain.add(name)
        calls: dict[str, set[str]] = {}
        for name in self.names:
            for first in self.firsts[name]:
                calls.setdefault(first, set()).add(name)
        unclear = []
        for first, people in calls.items():
            if re.search(rf"(?<!\w){re.escape(first)}(?!\w)", text):
                if len(people) == 1:
                    certain |= people
                else:
                    unclear.append(frozenset(people))
        return certain, unclear


def heard(roster: Roster, owner: str, notes: Sequence[str], listed: str, note: Note) -> Heard:
    """The recipients of the secret, from the names in the owner's notes.

    listed: the text of the sensitive-information field, which sometimes names the recipients.
    """
    on_list = roster.mentioned(listed)[0] - {owner}
    open_notes: list[tuple[int, frozenset[str]]] = []
    to: dict[int, str] = {}
    for index, text in enumerate(notes):
        certain, unclear = roster.mentioned(text)
        # A bare first name that the owner shares is the owner: every note speaks of the owner.
        sets = [people for people in unclear if owner not in people]
        certain.discard(owner)
        if len(certain) == 1 and not sets:
            to[index] = next(iter(certain))
        elif certain or sets:
            open_notes.append((index, frozenset(certain).union(*sets)))
        else:
            note("note names nobody", f"note {index}: {_short(text)}", "kept")
    _settle(open_notes, to, on_list, note)
    told = [to[index] for index in sorted(to)]
    for name, count in Counter(told).items():
        if count > 1:
            note("several notes for one colleague", f"{name}: {count}", "kept")
    informed = tuple(dict.fromkeys(told))
    if not informed:
        raise RowFault("no recipient", "no note of the owner names a colleague")
    if on_list and on_list != set(informed):
        differ = ", ".join(sorted(on_list ^ set(informed)))
        note("sensitive field and notes differ", f"{differ}: the notes count", "kept")
    spoken = {index for index, _ in open_notes} | set(to)
    return Heard(
        tuple(text for index, text in enumerate(notes) if index in spoken),
        informed,
        tuple(text for index, text in enumerate(notes) if index not in spoken),
    )


def _settle(
    open_notes: Sequence[tuple[int, frozenset[str]]],
    to: dict[int, str],
    on_list: Collection[str],
    note: Note,
) -> None:
    """Find the recipients of notes with several candidates, or raise RowFault.

    Notes with the same candidates are settled together: as many notes as candidates without a
    note of their own means that each has one.
    """
    groups: dict[frozenset[str], list[int]] = {}
    for index, people in open_notes:
        groups.setdefault(people, []).append(index)
    for people, indices in groups.items():
        which = f"note {', '.join(map(str, indices))} may mean {' or '.join(sorted(people))}"
        left = sorted(people - set(to.values()))
        by_list = [name for name in left if name in on_list]
        if not left:
            note("recipient unclear", f"{which}; all have notes of their own", "kept")
            continue
        if len(by_list) == len(indices):
            chosen, why = by_list, "the sensitive field lists"
        elif len(left) == len(indices):
            chosen, why = left, "nobody else is without a note but"
        else:
            raise RowFault("recipient unclear", which)
        to.update(zip(indices, chosen, strict=True))
        note("recipient unclear", f"{which}; {why} {' and '.join(chosen)}", "repaired")


def _card(profile: Any, name: str, first: str, note: Note) -> dict[str, Any]:
    """A member's card. Raises RowFault without an age or a job title."""
    age, job = pick(profile, "age"), pick(profile, "job_title", "job")
    if isinstance(age, str) and re.fullmatch(r"\s*\d{1,3}(\.0)?\s*", age):
        note("age as text", f"{name}: {age!r}", "repaired")
        age = float(age)
    if isinstance(age, bool) or not isinstance(age, int | float) or not 16 <= age <= 100:
        raise RowFault("no usable age", f"{name}: {age!r}")
    if not isinstance(job, str):
        raise RowFault("no job title", f"{name}: {job!r}")
    said = str(pick(profile, "gender") or "")
    plain = re.sub(r"\W+", "", said).casefold()
    gender = GENDERS.get(plain) or ("non-binary" if plain in UMBRELLA else "unstated")
    if plain not in GENDERS:
        note("another gender", f"{name}: {said or 'none'}, as {gender}", "repaired")
    return {
        "name": name,
        "first": first,
        "gender": gender,
        "age": int(age),
        "job_title": " ".join(job.split()),
    }


def _short(value: Any) -> str:
    """A value for the report, at most 80 characters."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
