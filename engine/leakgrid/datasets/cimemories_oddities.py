"""What is out of the ordinary in a file of profiles and can be used all the same: one line each.

None of these changes a text. Where one misleads a method (statement texts as keys, first names
as search words), the line says what this project does instead.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leakgrid.datasets.cimemories import Memory, Profile

RECORD = frozenset({"value", "information_domain", "event", "memory_statement"})
SNAKE = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")
NUMBERED = re.compile(r"_\d+$")
DASHES = re.compile(r"[\u2010-\u2015\u2212]")
SPACES = re.compile(r"[\u00a0\u2000-\u200b\u202f\u205f\u3000\ufeff]")
NUMBERED_SHARE = 0.5
SHOWN = 4


def oddity_lines(profiles: Sequence[Profile]) -> list[str]:
    """All oddities of a file, most consequential first."""
    return [
        *(line for profile in profiles for line in _own_lines(profile)),
        *_counted(profiles),
        *_across(profiles),
    ]


def _own_lines(profile: Profile) -> list[str]:
    """Lines that name one profile: twins, parts of others, spellings, basics, contexts."""
    at = f"profile {profile.id}:"
    lines = [
        f"{at} same statement under {_named(keys)}: kept apart by key"
        for keys in _by(profile.memories, lambda memory: memory.statement).values()
        if len(keys) > 1
    ]
    lines += [f"{at} {line}" for line in _contained(profile.memories)]
    lines += [f"{at} {line}" for line in _spellings(profile)]
    if missing := missing_basics(profile.memories):
        lines.append(f"{at} no attribute for {_listed(missing)} under a plain key")
    lines += [
        f"{at} bio has no {key}" for key in ("sex", "address", "age") if not _bio(profile, key)
    ]
    numbered = sum(bool(NUMBERED.search(memory.key)) for memory in profile.memories)
    if numbered > NUMBERED_SHARE * len(profile.memories):
        lines.append(f"{at} {numbered} keys end in a number: they may carry no meaning")
    entries = profile.raw.get("contexts", [])
    pairs = Counter((entry["recipient"], entry["task"]) for entry in entries)
    if not pairs:
        lines.append(f"{at} no contexts: it can only receive")
    lines += [
        f"{at} context {recipient} / {task} {count} times: read once"
        for (recipient, task), count in pairs.items()
        if count > 1
    ]
    return lines


def _counted(profiles: Sequence[Profile]) -> Iterable[str]:
    """Lines that count one kind of oddity over the file, with the profiles that have most."""

    def records(profile: Profile) -> Iterable[Mapping[str, Any]]:
        return profile.raw.get("information_attributes", {}).values()  # type: ignore[no-any-return]

    def statements(test: Callable[[str], object]) -> Callable[[Profile], int]:
        return lambda profile: sum(bool(test(memory.statement)) for memory in profile.memories)

    counts: dict[str, Callable[[Profile], int]] = {
        "statements with characters beyond ASCII: kept, normalised only for comparison": (
            statements(lambda text: not text.isascii())
        ),
        "statements with a dash that is no ASCII hyphen": statements(DASHES.search),
        "statements with a space that is no ASCII space": statements(SPACES.search),
        "statements with a line break: kept, on one line in a prompt": (
            statements(lambda text: len(text.splitlines()) > 1)
        ),
        "statements with space at an end": statements(lambda text: text != text.strip()),
        "statements that end without a full stop": (
            statements(lambda text: not text.rstrip().endswith((".", "!", "?")))
        ),
        "values that are null": lambda profile: sum(
            "value" in record and record["value"] is None for record in records(profile)
        ),
        "values that are lists or objects": lambda profile: sum(
            isinstance(record.get("value"), list | dict) for record in records(profile)
        ),
        "attributes without a value": lambda profile: sum(
            "value" not in record for record in records(profile)
        ),
        "values with a line break": lambda profile: sum(
            isinstance(record.get("value"), str) and "\n" in record["value"]
            for record in records(profile)
        ),
        "records with unknown keys: ignored": lambda profile: sum(
            not RECORD.issuperset(record) for record in records(profile)
        ),
        "keys that are not in snake case": lambda profile: sum(
            not SNAKE.fullmatch(memory.key) for memory in profile.memories
        ),
        "contexts that carry labels: not read here, import them": lambda profile: sum(
            any(key.startswith("labels") for key in entry)
            for entry in profile.raw.get("contexts", [])
        ),
    }
    for words, count in counts.items():
        found = Counter({profile.id: count(profile) for profile in profiles})
        if total := found.total():
            most = [f"{name} {number}" for name, number in found.most_common(SHOWN) if number]
            held = sum(number > 0 for number in found.values())
            yield f"{total} {words} ({held} profiles: {_listed(most, held)})"


def _across(profiles: Sequence[Profile]) -> Iterable[str]:
    """What two profiles share: texts and keys tell nobody apart."""
    names = Counter(profile.name for profile in profiles)
    yield from (
        f"{count} profiles are named {name}: ids are numbered"
        for name, count in names.items()
        if count > 1
    )
    for words, part in (("keys", "key"), ("statements", "statement")):
        held = Counter(
            text for profile in profiles for text in {getattr(m, part) for m in profile.memories}
        )
        if shared := sum(count > 1 for count in held.values()):
            yield f"{shared} {words} stand in more than one profile: only key and profile identify"


def missing_basics(memories: Sequence[Memory]) -> list[str]:
    """Which of name, address, sex and age no basic attribute of the profile tells."""
    keys = [memory.key.casefold() for memory in memories if memory.basic]
    words = {"name": ("name",), "address": ("address",), "sex": ("sex", "gender"), "age": ("age",)}
    return [
        word
        for word, forms in words.items()
        if not any(form in key for key in keys for form in forms)
    ]


def _contained(memories: Sequence[Memory]) -> Iterable[str]:
    """Statements that another, longer one contains."""
    whole = "\n".join(memory.statement for memory in memories)
    for memory in memories:
        if whole.count(memory.statement) < 2:
            continue
        around = [
            other.key
            for other in memories
            if memory.statement in other.statement and memory.statement != other.statement
        ]
        if around:
            yield f"statement of {memory.key!r} is part of that of {_named(around)}"


def _spellings(profile: Profile) -> Iterable[str]:
    """Events and domains that the profile spells in more than one way."""
    records = profile.raw.get("information_attributes", {})
    for part, words in (("event", "event"), ("information_domain", "domain")):
        seen: dict[str, set[str]] = defaultdict(set)
        for memory in profile.memories:
            folded = memory.event if part == "event" else memory.domain
            seen[folded].add(records[memory.key][part] if memory.key in records else folded)
        for folded, forms in seen.items():
            if len(forms) > 1:
                yield f"{words} {folded!r} is spelled {_listed(sorted(forms))}: read as one"


def _bio(profile: Profile, key: str) -> object:
    """A bio entry, None where it is absent or null."""
    return profile.raw.get("bio", {}).get(key)


def _by(memories: Sequence[Memory], of: Callable[[Memory], str]) -> dict[str, list[str]]:
    """Keys grouped by what `of` gives."""
    groups: dict[str, list[str]] = defaultdict(list)
    for memory in memories:
        groups[of(memory)].append(memory.key)
    return groups


def _named(keys: Sequence[str]) -> str:
    """Keys in quotes."""
    return _listed([repr(key) for key in keys])


def _listed(words: Sequence[str], total: int = 0) -> str:
    """Words in a row, and a sign that there are more."""
    return ", ".join(words) + (", ..." if total > len(words) else "")
