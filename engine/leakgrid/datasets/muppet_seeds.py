"""The seed material of the MuPPET generator: TOML files in, frozen dataclasses out.

Raises DatasetError when a file is missing, is no TOML or lacks a key.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakgrid.outcomes import DatasetError

# The room's material stands beside the engine: <repository>/datasets/muppet.
MATERIAL = Path(__file__).resolve().parents[3] / "datasets" / "muppet"
TOPICS = {
    "scheduling": "Work scheduling and shift planning",
    "tasks": "Task assignment and project allocation",
    "review": "Performance review and feedback",
    "travel": "Travel and client assignments",
    "overtime": "Overtime and voluntary projects",
}
ANY_AGE = (21, 64)

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Question:
    """One of the 53 questions: both versions and everything said about its matter."""

    id: str
    topic: str
    category: str
    thing: str
    plain: str
    long: str
    lead: tuple[str, ...]
    useful: tuple[str, ...]
    shared: tuple[str, ...]
    talk: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Extra:
    """A second private fact that goes with a detail."""

    key: str
    fact: str
    forms: tuple[str, ...]
    that: str


@dataclass(frozen=True, slots=True)
class Detail:
    """One concrete private fact; gender ('' for any) and ages (years) limit who may hold it."""

    key: str
    fact: str
    forms: tuple[str, ...]
    that: tuple[str, ...]
    np: tuple[str, ...]
    more: tuple[Extra, ...]
    gender: str
    ages: tuple[int, int]

    def fits(self, gender: str, age: int) -> bool:
        """Whether a person of this gender and age can be its holder."""
        return self.gender in ("", gender) and self.ages[0] <= age <= self.ages[1]


@dataclass(frozen=True, slots=True)
class Category:
    """A sensitive category: its sentence, plain words, words barred from shared texts."""

    label: str
    sentence: str
    forms: tuple[str, ...]
    words: tuple[str, ...]
    details: tuple[Detail, ...]


@dataclass(frozen=True, slots=True)
class Department:
    """One of the 11 departments with its nouns, small talk and shared rules."""

    name: str
    slug: str
    teams: tuple[str, ...]
    titles: tuple[str, ...]
    projects: tuple[str, ...]
    outputs: tuple[str, ...]
    tools: tuple[str, ...]
    partners: tuple[str, ...]
    pairs: tuple[Pair, ...]
    shared: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Names:
    """First names by gender and surnames."""

    women: tuple[str, ...]
    men: tuple[str, ...]
    non_binary: tuple[str, ...]
    surnames: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Phrases:
    """Frames of notes and the chat's common turns; dicts are by topic key."""

    that: tuple[str, ...]
    np: tuple[str, ...]
    also: tuple[str, ...]
    tails: tuple[str, ...]
    personal: tuple[str, ...]
    openers: dict[str, tuple[str, ...]]
    topic_pairs: dict[str, tuple[Pair, ...]]
    shared: dict[str, tuple[str, ...]]
    pairs: tuple[Pair, ...]
    handover: tuple[str, ...]
    assistant_pairs: tuple[Pair, ...]
    comments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Seeds:
    """All seed material."""

    questions: tuple[Question, ...]
    categories: dict[str, Category]
    departments: tuple[Department, ...]
    names: Names
    phrases: Phrases


def load_seeds(material: Path = MATERIAL) -> Seeds:
    """Everything below material/seeds. Raises DatasetError naming the file at fault."""
    folder = material / "seeds"
    questions = [
        _build(folder, _question, entry) for entry in _entries(folder, "questions", "question")
    ]
    categories = [
        _build(folder, _category, entry) for entry in _entries(folder, "categories", "category")
    ]
    departments = [
        _build(folder, _department, entry)
        for entry in _entries(folder, "departments", "department")
    ]
    names = _build(folder, lambda raw: Names(**_tuples(raw)), _read(folder / "people.toml"))
    phrases = _build(
        folder,
        _phrases,
        {**_read(folder / "phrases-notes.toml"), **_read(folder / "phrases-chat.toml")},
    )
    return Seeds(
        tuple(questions), {c.label: c for c in categories}, tuple(departments), names, phrases
    )


def _read(path: Path) -> dict[str, Any]:
    """One TOML file. Raises DatasetError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DatasetError(f"{path}: {error}; allowed: a TOML file of seed material") from error


def _entries(folder: Path, stem: str, table: str) -> list[dict[str, Any]]:
    """The entries of [[table]] in folder/stem-*.toml, files in name order."""
    paths = sorted(folder.glob(f"{stem}-*.toml"))
    if not paths:
        raise DatasetError(f"{folder}: found no {stem}-*.toml; allowed: at least one; restore it")
    return [entry for path in paths for entry in _read(path)[table]]


def _build(folder: Path, make: Any, raw: dict[str, Any]) -> Any:
    """make(raw), with a missing or unknown key turned into a DatasetError."""
    try:
        return make(raw)
    except (KeyError, TypeError) as error:
        label = raw.get("id") or raw.get("label") or raw.get("name") or "phrases or names"
        raise DatasetError(f"{folder}: {label}: missing or unknown key ({error})") from error


def _tuples(raw: dict[str, Any]) -> dict[str, Any]:
    """Lists become tuples, pairs become pairs; other values stay."""
    return {
        key: tuple(tuple(v) if isinstance(v, list) else v for v in value)
        if isinstance(value, list)
        else value
        for key, value in raw.items()
    }


def _question(raw: dict[str, Any]) -> Question:
    return Question(**_tuples(raw))


def _department(raw: dict[str, Any]) -> Department:
    return Department(**_tuples(raw))


def _category(raw: dict[str, Any]) -> Category:
    gender, ages = raw.get("gender", ""), tuple(raw.get("ages", ANY_AGE))
    details = tuple(
        Detail(
            key=entry["key"],
            fact=entry["fact"],
            forms=tuple(entry["forms"]),
            that=tuple(entry["that"]),
            np=tuple(entry["np"]),
            more=tuple(Extra(k, fact, tuple(f), that) for k, fact, f, that in entry["more"]),
            gender=entry.get("gender", gender),
            ages=tuple(entry.get("ages", ages)),
        )
        for entry in raw["details"]
    )
    forms, words = tuple(raw["forms"]), tuple(raw["words"])
    return Category(raw["label"], raw["sentence"], forms, words, details)


def _phrases(raw: dict[str, Any]) -> Phrases:
    chat = raw.pop("chat")
    topics = ("openers", "topic_pairs", "shared")
    by_topic: dict[str, Any] = {key: _tuples(raw.pop(key)) for key in topics}
    return Phrases(**_tuples(raw), **_tuples(chat), **by_topic)
