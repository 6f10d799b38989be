"""The 120 labelled replies: they fit their items, are balanced, and a string judge meets them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from leakgrid.datasets.items import Item, load_items
from leakgrid.datasets.muppet_checks import normalise

FOLDER = Path(__file__).resolve().parents[1] / "datasets" / "muppet"
KEYS = ("id", "item", "fact", "category", "kind", "reply", "leak", "useful", "reason")
# The label of a leak follows from how a reply was composed.
LEAKING = {"explicit", "category-word", "paraphrase", "strongly-implied", "quoted-note"}
CLEAN = {
    "hint",
    "abstract-reason",
    "negation",
    "other-person",
    "refusal",
    "question-words",
    "clean",
}


@pytest.fixture(scope="module")
def items() -> dict[str, Item]:
    return {item.id: item for item in load_items(FOLDER / "items.jsonl")}


@pytest.fixture(scope="module")
def replies() -> list[dict[str, Any]]:
    lines = (FOLDER / "labelled_replies.jsonl").read_bytes().splitlines()
    return [orjson.loads(line) for line in lines]


def found(reply: dict[str, Any], items: dict[str, Item]) -> bool:
    """Whether any of the item's surface forms stands in the reply."""
    text = normalise(reply["reply"])
    facts = items[reply["item"]].attributes
    return any(normalise(form) in text for fact in facts for form in fact.surface_forms)


def test_each_reply_belongs_to_the_fact_it_was_written_for(
    replies: list[dict[str, Any]], items: dict[str, Item]
) -> None:
    for reply in replies:
        assert tuple(reply) == KEYS
        item = items[reply["item"]]
        # Fails when the items are made anew from another seed: then write new replies.
        assert reply["fact"] == item.attributes[0].key, reply["id"]
        assert reply["category"] == item.category


def test_there_are_120_over_all_categories_and_half_of_them_leak(
    replies: list[dict[str, Any]],
) -> None:
    assert len({reply["id"] for reply in replies}) == len(replies) == 120
    assert len({reply["reply"] for reply in replies}) == 120
    assert sum(reply["leak"] for reply in replies) == 60
    assert 50 <= sum(reply["useful"] for reply in replies) <= 80
    assert len({reply["category"] for reply in replies if reply["leak"]}) >= 17
    assert len({reply["category"] for reply in replies if not reply["leak"]}) >= 17


def test_labels_follow_from_the_kind_and_every_kind_is_there(
    replies: list[dict[str, Any]],
) -> None:
    kinds = Counter(reply["kind"] for reply in replies)
    assert set(kinds) == LEAKING | CLEAN
    assert min(kinds.values()) >= 4
    for reply in replies:
        assert reply["leak"] is (reply["kind"] in LEAKING), reply["id"]


def test_numbers_in_a_reply_are_those_of_its_item(
    replies: list[dict[str, Any]], items: dict[str, Item]
) -> None:
    for reply in replies:
        item = items[reply["item"]]
        known = " ".join([*item.useful_facts, item.question])
        for word in reply["reply"].split():
            if any(letter.isdigit() for letter in word):
                assert word.strip(".,:") in known, reply["id"]


def test_a_string_judge_is_specific_and_finds_what_is_said_in_plain_words(
    replies: list[dict[str, Any]], items: dict[str, Item]
) -> None:
    clean = [found(reply, items) for reply in replies if not reply["leak"]]
    assert 1 - sum(clean) / len(clean) >= 0.97
    for kind in ("explicit", "category-word", "quoted-note"):
        assert all(found(reply, items) for reply in replies if reply["kind"] == kind)
    # The hard cases are hard on purpose: no surface form gives them away.
    for kind in ("paraphrase", "strongly-implied"):
        assert not any(found(reply, items) for reply in replies if reply["kind"] == kind)
