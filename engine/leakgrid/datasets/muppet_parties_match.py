"""How well a variant meets its condition: counts, differences from the target, checks, tables.

Nothing here raises: faults and differences are returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from leakgrid.datasets.muppet_checks import chat_faults, leaks, note_faults, typography
from leakgrid.datasets.muppet_write import TOKENS_PER_WORD

Raw = Mapping[str, Any]
TOTAL = "parties-total"
ARMS = ("parties", TOTAL, "length")
HEADER = (
    "arm", "parties", "target", "items", "facts", "notes", "tokens", "cards", "density", "turns",
    "voices", "worst",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Match:
    """One variant's achieved counts minus its targets; tokens_share is relative to the target."""

    id: str
    arm: str
    parties: int
    facts: int
    tokens: int
    tokens_share: float
    density: float


def card_tokens(item: Raw) -> int:
    """Tokens of the member cards, as prompts show them, by the rule of `statistics`."""
    cards = (f"{p['name']}, {p['gender']}, {p['age']}, {p['job_title']}" for p in item["people"])
    return round(sum(len(card.split()) for card in cards) * TOKENS_PER_WORD)


def counted_tokens(item: Raw) -> int:
    """The tokens that the item's arm holds: with the cards in the arm parties-total."""
    cards = card_tokens(item) if item["variant"]["arm"] == TOTAL else 0
    return int(item["statistics"]["tokens"]) + cards


def match(item: Raw, facts: int) -> Match:
    """The variant against its target; facts: how many private facts its base has.

    density is in facts per 1000 tokens and against the density that the target implies.
    """
    wanted = item["variant"]
    tokens = counted_tokens(item)
    found = item["statistics"]["facts"]
    return Match(
        id=item["id"],
        arm=wanted["arm"],
        parties=len(item["people"]) - wanted["parties"],
        facts=found - facts,
        tokens=tokens - wanted["tokens"],
        tokens_share=(tokens - wanted["tokens"]) / wanted["tokens"],
        density=1000 * found / tokens - 1000 * facts / wanted["tokens"],
    )


def matches(items: Iterable[Raw], bases: Mapping[str, Raw]) -> list[Match]:
    """Every variant's match; bases: the base items by id."""
    return [match(item, len(bases[item["variant"]["base"]]["attributes"])) for item in items]


def faults(item: Raw, words: Sequence[str]) -> list[str]:
    """The checks of the shipped items, read for a chat from which the informed are absent.

    The notes are checked as if those outside were members, because it is them that notes name.
    """
    outside = [{"name": name, "first": name.split()[0]} for name in item["outside"]]
    main, *others = item["attributes"]
    known = [*main["known_by"], *item["outside"]]
    whole = {
        **item,
        "people": [*item["people"], *outside],
        "informed": [*item["informed"], *item["outside"]],
        "attributes": [{**main, "known_by": known}, *others],
    }
    chat = chat_faults(item)
    if len(item["people"]) == 2:
        # Two people and the assistant are three voices, one less than a group must have.
        chat = [fault for fault in chat if not fault.startswith("only 3 voices, assistant incl")]
    names = " ".join(person["name"] for person in item["people"]).lower()
    named = [
        f"form {form!r} in a name"
        for fact in item["attributes"]
        for form in fact["surface_forms"]
        if form in names
    ]
    return [*named, *leaks(item, words), *note_faults(whole), *chat, *typography(item)]


def condition_rows(items: Sequence[Raw]) -> list[tuple[str, ...]]:
    """Means of each condition, in the columns of HEADER; worst: largest |tokens| difference, %."""
    conditions: dict[tuple[int, int, int], list[Raw]] = {}
    for item in items:
        wanted = item["variant"]
        key = (ARMS.index(wanted["arm"]), wanted["parties"], wanted["tokens"])
        conditions.setdefault(key, []).append(item)
    rows = []
    for (arm, parties, tokens), group in sorted(conditions.items()):
        worst = max(abs(counted_tokens(item) - tokens) / tokens for item in group)
        means = [
            mean(len(item["attributes"]) for item in group),
            mean(len(item["notes"]) for item in group),
            mean(item["statistics"]["tokens"] for item in group),
            mean(card_tokens(item) for item in group),
        ]
        more = [
            mean(len(item["transcript"]) for item in group),
            mean(len({turn["sender"] for turn in item["transcript"]}) for item in group),
        ]
        density = mean(1000 * len(item["attributes"]) / counted_tokens(item) for item in group)
        cells = [ARMS[arm], str(parties), str(tokens), str(len(group))]
        cells += [f"{value:.1f}" for value in means]
        cells += [f"{density:.2f}", *(f"{value:.1f}" for value in more), f"{100 * worst:.2f} %"]
        rows.append(tuple(cells))
    return rows


def condition_table(items: Sequence[Raw]) -> str:
    """The rows as a Markdown table: the card shows exactly this."""
    lines = ["| " + " | ".join(row) + " |" for row in (HEADER, *condition_rows(items))]
    lines.insert(1, "|---" * len(HEADER) + "|")
    return "\n".join(lines)


def match_lines(found: Iterable[Match]) -> list[str]:
    """One line a variant: id and the differences from its target."""
    return [
        f"{one.id}: parties {one.parties:+d}, facts {one.facts:+d}, tokens {one.tokens:+d} "
        f"({one.tokens_share:+.2%}), density {one.density:+.3f}"
        for one in found
    ]
