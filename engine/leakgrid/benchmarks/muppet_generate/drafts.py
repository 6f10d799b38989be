"""What the three calls must answer with, and how their texts are read.

A text is one JSON object of the schema or it is unreadable: what is missing, doubled or of
another type is never filled in. Only white space and a fact's final full stop are tidied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from leakgrid.benchmarks.defences.steps import schema
from leakgrid.benchmarks.judges.parsing import DISAGREE, NOTHING, objects
from leakgrid.types import Json, Schema


class Unreadable(Exception):
    """A text that is no draft; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A private fact and the wordings that give it away, in small letters."""

    text: str
    forms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Notes:
    """The first draft. ``facts`` and ``notes`` are in the order of their numbers, from 1.

    ``useful`` pairs what helps with the entry in which the owner noted it.
    """

    facts: tuple[Fact, ...]
    notes: tuple[str, ...]
    useful: tuple[tuple[str, str], ...]
    shared: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chat:
    """The second draft: (sender, text) of every message before the request."""

    turns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Quality:
    """What the judge says of a finished item."""

    coherent: bool
    on_topic: bool
    consistent: bool
    leaks: bool
    rationale: str

    @property
    def fault(self) -> str:
        """The first of the four that speaks against the item; empty if none does."""
        told = (
            ("leaks", self.leaks),
            ("not coherent", not self.coherent),
            ("off topic", not self.on_topic),
            ("not consistent", not self.consistent),
        )
        return next((name for name, found in told if found), "")


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _object(**properties: Json) -> Json:
    return schema("", **properties).definition


# Plain types only: lengths and counts, which not every server takes, are checked in code.
_TEXT: Json = {"type": "string"}
_NUMBER: Json = {"type": "integer"}
_FLAG: Json = {"type": "boolean"}

NOTES_SCHEMA: Schema = schema(
    "item_notes",
    facts=_list(_object(number=_NUMBER, fact=_TEXT, surface_forms=_list(_TEXT))),
    notes=_list(_object(number=_NUMBER, text=_TEXT)),
    useful_facts=_list(_object(fact=_TEXT, note=_TEXT)),
    shared_notes=_list(_TEXT),
)
CHAT_SCHEMA: Schema = schema("item_chat", turns=_list(_object(sender=_TEXT, text=_TEXT)))
QUALITY_SCHEMA: Schema = schema(
    "item_quality", rationale=_TEXT, coherent=_FLAG, on_topic=_FLAG, consistent=_FLAG, leaks=_FLAG
)


def read_notes(text: str, facts: int, listeners: int) -> Notes:
    """The notes draft with so many facts and notes. Raises Unreadable."""
    found = _one(text, NOTES_SCHEMA)
    told = _numbered(found, "facts", facts, ("number", "fact", "surface_forms"))
    return Notes(
        facts=tuple(
            Fact(
                _line(entry["fact"], "fact").removesuffix("."),
                tuple(
                    dict.fromkeys(
                        form.lower() for form in _lines(entry["surface_forms"], "surface_forms")
                    )
                ),
            )
            for entry in told
        ),
        notes=tuple(
            _line(entry["text"], "text")
            for entry in _numbered(found, "notes", listeners, ("number", "text"))
        ),
        useful=tuple(
            (_line(entry["fact"], "fact"), _line(entry["note"], "note"))
            for entry in _entries(found, "useful_facts", ("fact", "note"))
        ),
        shared=_lines(found["shared_notes"], "shared_notes"),
    )


def read_chat(text: str) -> Chat:
    """The chat draft. Raises Unreadable."""
    entries = _entries(_one(text, CHAT_SCHEMA), "turns", ("sender", "text"))
    return Chat(
        tuple((_line(entry["sender"], "sender"), _line(entry["text"], "text")) for entry in entries)
    )


def read_quality(text: str) -> Quality:
    """The judge's four answers. Raises Unreadable."""
    found = _one(text, QUALITY_SCHEMA)
    answers = {key: found[key] for key in ("coherent", "on_topic", "consistent", "leaks")}
    for key, value in answers.items():
        if not isinstance(value, bool):
            _fail(f"{key!r} is {_short(value)}, neither true nor false")
    return Quality(**answers, rationale=str(found["rationale"])[:500])


def _one(text: str, wanted: Schema) -> dict[str, Any]:
    """The one object in a text that has every key of a schema."""
    if not text.strip():
        _fail(NOTHING)
    keys = wanted.definition["required"]
    found = [value for value in objects(text) if all(key in value for key in keys)]
    if not found:
        _fail(f"no JSON object with {', '.join(keys)}")
    if any(other != found[0] for other in found):
        _fail(DISAGREE)
    return found[0]


def _entries(found: dict[str, Any], key: str, keys: Sequence[str]) -> list[dict[str, Any]]:
    entries = found[key]
    if not isinstance(entries, list) or not entries:
        _fail(f"{key!r} is {_short(entries)}, no list of objects")
    for entry in entries:
        if not isinstance(entry, dict) or not all(part in entry for part in keys):
            _fail(f"{_short(entry)} under {key!r} lacks one of {', '.join(keys)}")
    return entries


def _numbered(
    found: dict[str, Any], key: str, count: int, keys: Sequence[str]
) -> list[dict[str, Any]]:
    """The entries by number, which must be 1 to count, each once."""
    entries = _entries(found, key, keys)
    numbers = [entry["number"] for entry in entries]
    if not all(type(number) is int for number in numbers):
        _fail(f"a number under {key!r} is no whole number: {_short(numbers)}")
    if sorted(numbers) != list(range(1, count + 1)):
        _fail(f"{key!r} has the numbers {_short(numbers)} and not 1 to {count}")
    return sorted(entries, key=lambda entry: int(entry["number"]))


def _line(value: Any, key: str) -> str:
    """A text as one line."""
    if not isinstance(value, str) or not value.strip():
        _fail(f"{key!r} is {_short(value)}, no text")
    return " ".join(value.split())


def _lines(value: Any, key: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        _fail(f"{key!r} is {_short(value)}, no list of texts")
    return tuple(_line(part, key) for part in value)


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def _fail(why: str) -> NoReturn:
    raise Unreadable(why)
