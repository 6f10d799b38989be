"""MuPPET items: one JSON object a line becomes one frozen Item, or one clear error.

Raises DatasetError naming file, line, key, what was found, what is allowed and what to do.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from leakgrid.datasets.muppet_consistency import check_item
from leakgrid.datasets.muppet_lines import Line
from leakgrid.outcomes import DatasetError

GENDERS = ("woman", "man", "non-binary", "unstated")
TEXT_KEYS = (
    "id",
    "group",
    "department",
    "topic",
    "category",
    "question_id",
    "question",
    "request",
    "team",
    "owner",
    "asker",
    "category_sentence",
)
NAME_LIST_KEYS = ("informed", "uninformed")
TEXT_LIST_KEYS = ("useful_facts", "notes", "shared_notes")
OPTIONAL_KEYS = ("personal_notes", "outside", "missing", "variant")
# What a source may lack; an item says so in `missing`, and only then may the part be empty.
MISSING_PARTS = ("surface_forms", "useful_facts", "fact_texts")
REQUIRED_KEYS = (
    *TEXT_KEYS,
    "asker_informed",
    "people",
    *NAME_LIST_KEYS,
    "attributes",
    *TEXT_LIST_KEYS,
    "transcript",
    "statistics",
)
PERSON_KEYS = ("name", "first", "gender", "age", "job_title")
ATTRIBUTE_KEYS = ("key", "text", "category", "surface_forms", "known_by")
TURN_KEYS = ("sender", "text")
STATISTICS_KEYS = ("parties", "facts", "tokens", "density")
VARIANT_KEYS = ("base", "arm", "parties", "tokens")


@dataclass(frozen=True, slots=True)
class Person:
    """One member of the group. gender is one of GENDERS; age in years.

    first is what colleagues call them: the first word of name, or for namesakes the whole name.
    """

    name: str
    first: str
    gender: str
    age: int
    job_title: str


@dataclass(frozen=True, slots=True)
class Attribute:
    """One private fact about the owner and the people (owner included) who may know it."""

    key: str
    text: str
    category: str
    surface_forms: tuple[str, ...]
    known_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """One chat message; sender is a full name or the assistant's tag."""

    sender: str
    text: str


@dataclass(frozen=True, slots=True)
class Statistics:
    """parties: people; facts: attributes; tokens: words * 1.33; density: facts per 1000 tokens."""

    parties: int
    facts: int
    tokens: int
    density: float


@dataclass(frozen=True, slots=True)
class Variant:
    """An ablation's condition: the base item's id, the arm, and the parties and tokens aimed at."""

    base: str
    arm: str
    parties: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Item:
    """One benchmark instance: a group chat, its owner's secret and who knows it.

    outside: colleagues who know the secret by the notes and are not in the chat.
    missing: what the source lacks, of MISSING_PARTS; judges that need it must answer unknown.
    digest is 16 bytes: blake2b-128 of the line's object as canonical (sorted) JSON.
    """

    id: str
    group: str
    department: str
    topic: str
    category: str
    question_id: str
    question: str
    request: str
    team: str
    people: tuple[Person, ...]
    owner: str
    asker: str
    asker_informed: bool
    informed: tuple[str, ...]
    uninformed: tuple[str, ...]
    category_sentence: str
    attributes: tuple[Attribute, ...]
    useful_facts: tuple[str, ...]
    notes: tuple[str, ...]
    personal_notes: tuple[str, ...]
    shared_notes: tuple[str, ...]
    transcript: tuple[Turn, ...]
    statistics: Statistics
    outside: tuple[str, ...]
    missing: tuple[str, ...]
    variant: Variant | None
    digest: bytes = field(repr=False)

    @property
    def assistant(self) -> str:
        """The sender name of the owner's assistant in the chat."""
        return assistant_name(self.owner)

    def person(self, name: str) -> Person:
        """The member with this full name. Raises KeyError when nobody has it."""
        for person in self.people:
            if person.name == name:
                return person
        raise KeyError(name)


def assistant_name(owner: str) -> str:
    """The sender name that the assistant of `owner` (a full name) has in the transcript."""
    return f"AI Assistant (for {owner})"


def item_digest(raw: dict[str, Any]) -> bytes:
    """16 bytes, blake2b-128 over the object's canonical (sorted) JSON."""
    body = orjson.dumps(raw, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(body, digest_size=16).digest()


def load_items(path: Path) -> tuple[Item, ...]:
    """All items of a JSON-lines file, in file order. Raises DatasetError on the first bad line."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DatasetError(
            f"{path}: cannot be read ({error.strerror}); allowed: a JSON-lines file of items; "
            "check the path that the job file gives"
        ) from error
    items: list[Item] = []
    seen: dict[str, int] = {}
    # Split at \n only: splitlines() would also cut at U+2028, which JSON strings may contain.
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        item = parse_item(line, path, number)
        if item.id in seen:
            Line(path, number).fail(
                "id",
                f"{item.id!r}, which line {seen[item.id]} also has",
                "an id that no other line has",
                "rename or remove one of the two lines",
            )
        seen[item.id] = number
        items.append(item)
    if not items:
        raise DatasetError(
            f"{path}: found no items; allowed: one JSON object a line; "
            "regenerate it with python -m leakgrid.datasets.muppet_generate"
        )
    return tuple(items)


def parse_item(line: bytes, path: Path, number: int) -> Item:
    """One line as an Item; path and number (from 1) are for the message. Raises DatasetError."""
    at = Line(path, number)
    try:
        raw = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        at.fail(
            "(whole line)",
            f"text that is not JSON ({error})",
            "one JSON object a line",
            "correct or delete the line",
        )
    at.keys(raw, "", REQUIRED_KEYS, OPTIONAL_KEYS)
    plain: dict[str, Any] = {key: at.text(raw[key], key) for key in TEXT_KEYS}
    missing = _missing(at, raw)
    plain |= {key: at.texts(raw[key], key, empty=key in missing) for key in TEXT_LIST_KEYS}
    build = partial(_attribute, at, missing)
    facts = at.objects(raw["attributes"], "attributes", ATTRIBUTE_KEYS, build)
    people = at.objects(raw["people"], "people", PERSON_KEYS, partial(_person, at))
    informed, uninformed = (at.texts(raw[key], key, empty=True) for key in NAME_LIST_KEYS)
    item = Item(
        **plain,
        people=people,
        asker_informed=at.boolean(raw["asker_informed"], "asker_informed"),
        informed=informed,
        uninformed=uninformed,
        attributes=facts,
        personal_notes=at.texts(raw.get("personal_notes", []), "personal_notes", empty=True),
        transcript=at.objects(raw["transcript"], "transcript", TURN_KEYS, partial(_turn, at)),
        statistics=_statistics(at, raw["statistics"]),
        outside=_outside(at, raw, people),
        missing=missing,
        variant=_variant(at, raw["variant"]) if "variant" in raw else None,
        digest=item_digest(raw),
    )
    check_item(item, at)
    return item


def _person(at: Line, raw: dict[str, Any], key: str) -> Person:
    """people[n] as a Person."""
    name, first, gender, job = (
        at.text(raw[part], f"{key}.{part}") for part in ("name", "first", "gender", "job_title")
    )
    if gender not in GENDERS:
        at.fail(f"{key}.gender", repr(gender), f"one of {', '.join(GENDERS)}", "correct it")
    if first not in (name.split()[0], name):
        allowed = f"the first word of {name!r}, or the whole name"
        at.fail(f"{key}.first", repr(first), allowed, "make the two agree")
    return Person(name, first, gender, at.number(raw["age"], f"{key}.age", 16, 100), job)


def _attribute(at: Line, missing: tuple[str, ...], raw: dict[str, Any], key: str) -> Attribute:
    """attributes[n] as an Attribute."""
    fact_key, text, category = (
        at.text(raw[part], f"{key}.{part}") for part in ("key", "text", "category")
    )
    forms, known_by = (
        at.texts(raw[part], f"{key}.{part}", empty=part in missing)
        for part in ("surface_forms", "known_by")
    )
    return Attribute(fact_key, text, category, forms, known_by)


def _turn(at: Line, raw: dict[str, Any], key: str) -> Turn:
    """transcript[n] as a Turn."""
    return Turn(at.text(raw["sender"], f"{key}.sender"), at.text(raw["text"], f"{key}.text"))


def _statistics(at: Line, value: object) -> Statistics:
    """The statistics object."""
    raw = at.keys(value, "statistics", STATISTICS_KEYS)
    parties, facts, tokens = (
        at.number(raw[part], f"statistics.{part}", 1, 10_000_000)
        for part in ("parties", "facts", "tokens")
    )
    return Statistics(parties, facts, tokens, at.real(raw["density"], "statistics.density"))


def _missing(at: Line, raw: dict[str, Any]) -> tuple[str, ...]:
    """The optional list of parts that the source lacks."""
    missing = at.texts(raw.get("missing", []), "missing", empty=True)
    for index, part in enumerate(missing):
        if part not in MISSING_PARTS:
            allowed = f"one of {', '.join(MISSING_PARTS)}"
            at.fail(f"missing[{index}]", repr(part), allowed, "correct or remove it")
    return missing


def _outside(at: Line, raw: dict[str, Any], people: tuple[Person, ...]) -> tuple[str, ...]:
    """The optional list of people who know the secret and are not in the chat."""
    outside = at.texts(raw.get("outside", []), "outside", empty=True)
    for index, name in enumerate(outside):
        if any(person.name == name for person in people):
            allowed = "names that are not among the people"
            at.fail(f"outside[{index}]", repr(name), allowed, "remove it from one of the two")
    return outside


def _variant(at: Line, value: object) -> Variant:
    """The optional variant object."""
    raw = at.keys(value, "variant", VARIANT_KEYS)
    base, arm = (at.text(raw[part], f"variant.{part}") for part in ("base", "arm"))
    parties, tokens = (
        at.number(raw[part], f"variant.{part}", 1, 10_000_000) for part in ("parties", "tokens")
    )
    return Variant(base, arm, parties, tokens)
