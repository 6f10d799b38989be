"""The secrets a server knows, and finding out which of them a request contains.

A request is looked up by its notes. An attribute (a secret) is *in* a request only if one of
the notes that carry it is there unchanged, or one of its surface forms stands in a note that
was rewritten: what a defence has removed is not found, and so cannot leak.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from leakgrid.datasets.surface import folded, shows

START = 3
"""So many letters of a surface form's first word are its place in the index."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One secret. ``forms`` as written, ``folds`` as compared, ``carriers`` the item's notes
    that contain one of them."""

    category: str
    forms: tuple[str, ...]
    folds: tuple[str, ...]
    carriers: frozenset[str]

    def within(self, text: str) -> bool:
        """Whether a form shows in a text that has been folded."""
        return any(shows(text, fold) for fold in self.folds)


@dataclass(frozen=True, slots=True)
class Item:
    """One item as the simulator needs it."""

    id: str
    category: str
    owner: str
    notes: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    useful_facts: tuple[str, ...]
    personal_notes: tuple[str, ...] = ()
    """Harmless notes: a request that has nothing else left still shows whose it is."""

    def disclosed(self, text: str) -> bool:
        """Whether some surface form of the item occurs in the text, as whole words."""
        fold = folded(text)
        return any(attribute.within(fold) for attribute in self.attributes)

    def clean(self, text: str) -> bool:
        """Whether no surface form occurs in the text, not even inside a word."""
        fold = folded(text)
        return not any(form.strip() in fold for a in self.attributes for form in a.folds)


@dataclass(frozen=True, slots=True)
class Found:
    """The item a request is about, and those of its attributes that the request contains."""

    item: Item
    attributes: tuple[Attribute, ...]


@dataclass(slots=True)
class Index:
    """Items by note, and by the first letters of each surface form."""

    by_note: dict[str, list[Item]] = field(default_factory=dict)
    by_start: dict[str, list[tuple[str, Item]]] = field(default_factory=dict)

    def add(self, item: Item) -> None:
        """Make the item findable."""
        for note in (*item.notes, *item.personal_notes):
            self.by_note.setdefault(note, []).append(item)
        for fold in {fold for attribute in item.attributes for fold in attribute.folds}:
            self.by_start.setdefault(fold.split()[0][:START], []).append((fold[:-1], item))

    def find(self, notes: Sequence[str], text: str = "") -> Found | None:
        """The item whose notes these are; None when neither a note nor a form is known.

        Most notes in common wins, then most surface forms in common, then the owner whose name
        is most frequent in ``text`` (the notes when it is empty), then file order.
        """
        votes: dict[int, tuple[int, Item]] = {}
        rewritten: list[str] = []
        for note in notes:
            known = self.by_note.get(note)
            if known is None:
                rewritten.append(note)
            for item in known or ():
                votes[id(item)] = (votes.get(id(item), (0, item))[0] + 1, item)
        rest = folded("\n".join(rewritten)) if rewritten else ""
        if not votes and rest:
            votes = self._by_forms(rest)
        if not votes:
            return None
        most = max(count for count, _ in votes.values())
        best = [item for count, item in votes.values() if count == most]
        if len(best) > 1:
            text = text or "\n".join(notes)
            best.sort(key=lambda item: -text.count(item.owner) if item.owner else 0)
        item, given = best[0], set(notes)
        return Found(item, tuple(a for a in item.attributes if _present(item, a, given, rest)))

    def _by_forms(self, rest: str) -> dict[int, tuple[int, Item]]:
        matched = {
            (form, id(item)): item
            for start in {word[:START] for word in rest.split()}
            for form, item in self.by_start.get(start, ())
            if form in rest
        }
        counts = Counter(key for _, key in matched)
        return {id(item): (counts[id(item)], item) for item in matched.values()}


def _present(item: Item, attribute: Attribute, given: set[str], rest: str) -> bool:
    if attribute.within(rest):
        return True
    if attribute.carriers:
        return not attribute.carriers.isdisjoint(given)
    # No single note shows it in so many words: it is there only while all notes are.
    return given.issuperset(item.notes)


def load(data: bytes, where: str) -> Index:
    """An index over a JSON Lines file of items; ``where`` is its path, for messages.

    Raises ValueError "<path>:<line>: <key>: found X; allowed: Y" at the first wrong line.
    """
    index = Index()
    # Not splitlines(): it would also cut at separators that JSON texts may contain.
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            raw = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise ValueError(
                f"{where}:{number}: found a line that is not JSON ({error}); "
                "allowed: one JSON object a line"
            ) from error
        index.add(_item(raw, f"{where}:{number}"))
    return index


def _item(raw: Any, where: str) -> Item:
    if not isinstance(raw, Mapping):
        raise ValueError(f"{where}: found {type(raw).__name__}; allowed: a JSON object")
    category, owner = raw.get("category", ""), raw.get("owner", "")
    notes = _texts(raw, "notes", where)
    attributes = raw.get("attributes")
    if not isinstance(attributes, list) or not all(isinstance(a, Mapping) for a in attributes):
        raise ValueError(f"{where}: attributes: found no list of objects; allowed: such a list")
    return Item(
        id=str(raw.get("id", "")),
        category=str(category),
        owner=owner if isinstance(owner, str) else "",
        notes=notes,
        attributes=tuple(_attribute(a, str(category), notes, where) for a in attributes),
        useful_facts=_texts(raw, "useful_facts", where),
        personal_notes=_texts(raw, "personal_notes", where),
    )


def _attribute(
    raw: Mapping[str, Any], category: str, notes: Iterable[str], where: str
) -> Attribute:
    forms = tuple(form for form in _texts(raw, "surface_forms", where) if folded(form).strip())
    text = raw.get("text", "")
    folds = tuple(dict.fromkeys(folded(form) for form in forms))
    if isinstance(text, str) and folded(text).strip():
        # A text without any form would be a leak that no judge by form could see.
        if not forms:
            forms, folds = (text,), (folded(text),)
        elif any(fold in folded(text) for fold in folds):
            forms = (*forms, text)
    if not forms:
        raise ValueError(
            f"{where}: attributes: found one without text; allowed: surface_forms or a text"
        )
    attribute = Attribute(str(raw.get("category") or category), forms, folds, frozenset())
    carriers = frozenset(note for note in notes if attribute.within(folded(note)))
    return replace(attribute, carriers=carriers)


def _texts(raw: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = raw.get(key, [])
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError(f"{where}: {key}: found {type(value).__name__}; allowed: a list of texts")
    return tuple(text.strip() for text in value)
