"""Counts over a file of profiles, for ``leakgrid data check``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, median

from leakgrid.datasets.cimemories import Profiles, is_basic_compat

NEGATION = re.compile(r"\b(?:no|not|never|none|nor|neither|without|cannot)\b|n['\u2019]t\b", re.I)
GENERAL = "general"
PERCENTILE = 0.95


def statistic_lines(profiles: Profiles) -> list[str]:
    """Counts and ranges: profiles, contexts, attributes, domains, events, texts, values, basics."""
    people = profiles.profiles
    memories = [memory for profile in people for memory in profile.memories]
    sizes = [len(profile.memories) for profile in people]
    pairs = sum(len(p.memories) * len(profiles.contexts_of(p.id)) for p in people)
    contexts = [len(profiles.contexts_of(profile.id)) for profile in people]
    events = {memory.event for memory in memories} - {GENERAL}
    cells = {(p.id, m.event, m.domain) for p in people for m in p.memories if m.event != GENERAL}
    lives = [len({m.event for m in profile.memories} - {GENERAL}) for profile in people]
    statements = [memory.statement for memory in memories]
    foreign = sum(not text.isascii() for text in statements)
    exact = sum(memory.basic for memory in memories)
    compat = sum(is_basic_compat(memory.key) for memory in memories)
    values = Counter(
        kind(record.get("value"))
        for profile in people
        for record in profile.raw.get("information_attributes", {}).values()
    )
    negated = sum(bool(NEGATION.search(text)) for text in statements)
    return [
        f"profiles {len(people)}, attributes {len(memories)}, distinct contexts "
        f"{len(profiles.contexts)}, attribute-context pairs {pairs}",
        f"attributes a profile: {_range(sizes)}",
        f"contexts a profile: {_range(contexts)}",
        f"instances of the dialogue: {max(0, len(people) - 1) * sum(contexts)} (sender, receiver, "
        "context)",
        "domain: " + _counts(memory.domain for memory in memories),
        f"life events: {len(events)} distinct, a profile {_range(lives)}, with domain "
        f"{len(cells)} cells",
        f"attributes outside life events: {sum(m.event == GENERAL for m in memories)}",
        f"statement characters: {_range([len(text) for text in statements])}, 95 % at most "
        f"{_high([len(text) for text in statements])}",
        f"statement words: {_range([len(text.split()) for text in statements])}",
        f"statements of a profile, joined by lines: "
        f"{_range([sum(len(m.statement) + 1 for m in p.memories) - 1 for p in people])} characters",
        f"beyond ASCII: {_share(foreign, len(memories))} statements",
        "value types: " + _counts(values.elements()),
        f"basics (name, address, sex, age): {exact} by exact key, {compat} by a key that contains "
        "the word (the released filter)",
        f"with a negation: {_share(negated, len(memories))} statements",
    ]


def kind(value: object) -> str:
    """The JSON type of a value."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    names = {str: "text", int: "whole number", float: "number", list: "list", dict: "object"}
    return names[type(value)]


def _range(values: Sequence[int]) -> str:
    """min, median, mean and max of at least one number."""
    return (
        f"min {min(values)}, median {median(values):g}, mean {fmean(values):.1f}, max {max(values)}"
    )


def _high(values: Sequence[int]) -> int:
    """The value that PERCENTILE of the others do not exceed."""
    return sorted(values)[min(len(values) - 1, int(PERCENTILE * len(values)))]


def _share(part: int, whole: int) -> str:
    """A count with its share."""
    return f"{part} of {whole} ({part / whole:.1%})"


def _counts(values: object) -> str:
    """How often each value occurs, by name."""
    counted = Counter(values)  # type: ignore[call-overload]
    return ", ".join(f"{value} {count}" for value, count in sorted(counted.items()))
