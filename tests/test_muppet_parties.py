"""The parties ablation: what is held is held, what varies varies, and every check passes."""

from __future__ import annotations

import copy
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

from leakgrid.datasets.items import Variant, load_items, parse_item
from leakgrid.datasets.muppet_generate import item_lines
from leakgrid.datasets.muppet_parties import (
    LENGTHS,
    PARTIES,
    TOKENS,
    TOTAL_TOKENS,
    main,
    make_bases,
    make_variant,
    make_variants,
)
from leakgrid.datasets.muppet_parties_match import (
    ARMS,
    TOTAL,
    card_tokens,
    condition_rows,
    condition_table,
    faults,
    match,
    match_lines,
    matches,
)
from leakgrid.datasets.muppet_seeds import Seeds, load_seeds
from leakgrid.datasets.muppet_write import statistics
from leakgrid.outcomes import DatasetError

FOLDER = Path(__file__).resolve().parents[1] / "datasets" / "muppet"
Raw = dict[str, Any]


@pytest.fixture(scope="module")
def seeds() -> Seeds:
    return load_seeds()


@pytest.fixture(scope="module")
def items() -> list[Raw]:
    return [orjson.loads(line) for line in (FOLDER / "parties.jsonl").read_bytes().splitlines()]


@pytest.fixture(scope="module")
def bases() -> dict[str, Raw]:
    lines = (FOLDER / "items.jsonl").read_bytes().splitlines()
    return {item["id"]: item for item in map(orjson.loads, lines)}


def of(items: list[Raw], arm: str) -> list[list[Raw]]:
    """The arm's variants, one list a base."""
    groups: dict[str, list[Raw]] = {}
    for item in items:
        if item["variant"]["arm"] == arm:
            groups.setdefault(item["variant"]["base"], []).append(item)
    return list(groups.values())


def test_the_command_makes_the_shipped_file_byte_for_byte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "parties.jsonl"
    assert main(["--out", str(path), "--each"]) == 0
    assert path.read_bytes() == (FOLDER / "parties.jsonl").read_bytes()
    assert path.stat().st_size < 3_000_000
    printed = capsys.readouterr().out
    assert "336 variants of 24 base items" in printed
    assert "muppet-0002-parties-02: parties +0, facts +0, tokens " in printed
    assert len(load_items(path)) == 336


def test_every_base_meets_every_condition_of_three_arms(items: list[Raw]) -> None:
    assert len({item["variant"]["base"] for item in items}) == 24
    assert len({(item["topic"], item["category"]) for item in items}) == 24
    conditions = Counter(
        (item["variant"]["arm"], item["variant"]["parties"], item["variant"]["tokens"])
        for item in items
    )
    wanted = {("parties", n, TOKENS) for n in (2, 3, 5, 10, 20)}
    wanted |= {(TOTAL, n, TOTAL_TOKENS) for n in (2, 3, 5, 10, 20)}
    wanted |= {("length", 5, tokens) for tokens in LENGTHS}
    assert set(conditions) == wanted
    assert set(conditions.values()) == {24}


def test_each_variant_meets_its_target(items: list[Raw], bases: dict[str, Raw]) -> None:
    for one in matches(items, bases):
        assert (one.parties, one.facts) == (0, 0)
        assert abs(one.tokens_share) <= 0.05
        assert abs(one.density) <= 0.05 * 4


def test_the_bases_are_shipped_items_and_facts_and_notes_stay_theirs(
    items: list[Raw], bases: dict[str, Raw]
) -> None:
    for item in items:
        base = bases[item["variant"]["base"]]
        for key in ("notes", "personal_notes", "shared_notes", "useful_facts", "request", "owner"):
            assert item[key] == base[key]
        assert item["asker"] == base["asker"]
        assert item["outside"] == base["informed"]
        assert len(item["notes"]) == len(item["outside"]) == 2
        for fact, other in zip(item["attributes"], base["attributes"], strict=True):
            assert {**fact, "known_by": 0} == {**other, "known_by": 0}
            assert fact["known_by"] == [item["owner"]]
        assert not item["informed"]
        assert not item["asker_informed"]


def unnamed(item: Raw) -> list[str]:
    """The transcript's texts with every member's first name masked."""
    firsts = "|".join(re.escape(person["first"]) for person in item["people"])
    return [re.sub(rf"\b({firsts})\b", "N", turn["text"]) for turn in item["transcript"]]


def test_with_length_held_only_names_and_senders_change(items: list[Raw]) -> None:
    for group in of(items, "parties"):
        assert len({item["statistics"]["tokens"] for item in group}) == 1
        assert len({item["statistics"]["density"] for item in group}) == 1
        assert len({tuple(unnamed(item)) for item in group}) == 1


def test_smaller_groups_are_part_of_larger_ones_in_one_order(items: list[Raw]) -> None:
    for group in of(items, "parties"):
        *smaller, largest = ([p["name"] for p in item["people"]] for item in group)
        for names in smaller:
            assert names == [name for name in largest if name in names]


def test_with_the_total_held_the_cards_grow_and_the_chat_shrinks(items: list[Raw]) -> None:
    for group in of(items, TOTAL):
        cards = [card_tokens(item) for item in group]
        tokens = [item["statistics"]["tokens"] for item in group]
        assert cards == sorted(cards)
        assert tokens[-1] < tokens[0] - 100
        for card, rest in zip(cards, tokens, strict=True):
            assert abs(card + rest - TOTAL_TOKENS) <= 0.05 * TOTAL_TOKENS


def test_with_parties_held_the_chat_grows_by_turns(items: list[Raw]) -> None:
    for group in of(items, "length"):
        assert len({tuple(p["name"] for p in item["people"]) for item in group}) == 1
        turns = [len(item["transcript"]) for item in group]
        assert turns == sorted(turns)
        assert turns[-1] > turns[0] + 20
        for shorter, longer in pairwise(group):
            assert longer["statistics"]["density"] < shorter["statistics"]["density"]


def test_every_variant_passes_the_checks(items: list[Raw], seeds: Seeds) -> None:
    for item in items:
        assert faults(item, seeds.categories[item["category"]].words) == [], item["id"]
        assert item["statistics"] == statistics(item)
        phrases = [turn["text"] for turn in item["transcript"]]
        assert len(phrases) == len(set(phrases))


def test_everybody_speaks_and_the_owner_tells_nothing(items: list[Raw]) -> None:
    for item in items:
        own = [turn["text"] for turn in item["transcript"] if turn["sender"] == item["owner"]]
        if len(item["people"]) > 2:
            assert len(own) == 1
            assert "assistant" in own[0].lower()
        voices = {turn["sender"] for turn in item["transcript"]}
        assert {person["name"] for person in item["people"]} <= voices


def test_new_names_belong_to_one_base(items: list[Raw], bases: dict[str, Raw]) -> None:
    shipped = {person["name"] for item in bases.values() for person in item["people"]}
    where: dict[str, set[str]] = {}
    for item in items:
        for person in item["people"]:
            if person["name"] not in shipped:
                where.setdefault(person["name"], set()).add(item["variant"]["base"])
    assert len(where) > 24 * 15
    assert {len(found) for found in where.values()} == {1}


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (lambda i: i["shared_notes"].append(f"{i['attributes'][0]['surface_forms'][0]}."), "form"),
        (lambda i: i["outside"].pop(), "2 notes for 1 informed"),
        (lambda i: i["notes"].__setitem__(0, f"{i['notes'][0]} {i['asker']} too."), "names"),
        (lambda i: i["transcript"].pop(), "last turn"),
        (lambda i: i["attributes"][0]["surface_forms"].append(i["asker"].lower()), "in a name"),
    ],
)
def test_each_fault_of_a_variant_is_found(items: list[Raw], fault: Any, told: str) -> None:
    item = copy.deepcopy(items[0])
    assert faults(item, ()) == []
    fault(item)
    assert any(told in found for found in faults(item, ()))


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("missing", ["notes"], r"missing\[0\]: found 'notes'; allowed: one of surface_forms"),
        ("missing", "all", "missing: found 'all'"),
        ("variant", {"base": "x", "arm": "parties", "parties": 2}, "variant.tokens: found no"),
        ("variant", {"base": "x", "arm": "", "parties": 2, "tokens": 9}, "variant.arm: found ''"),
        ("outside", ["Priya Pham"], r"outside\[0\]: found 'Priya Pham'; allowed: names that are n"),
    ],
)
def test_wrong_optional_keys_are_named(items: list[Raw], key: str, value: Any, told: str) -> None:
    raw = {**items[0], key: value}
    with pytest.raises(DatasetError, match=told):
        parse_item(orjson.dumps(raw), Path("x.jsonl"), 1)


def test_parts_may_be_empty_only_where_missing_says_so(items: list[Raw]) -> None:
    raw = {**items[0], "useful_facts": []}
    with pytest.raises(DatasetError, match="useful_facts: found "):
        parse_item(orjson.dumps(raw), Path("x.jsonl"), 1)
    item = parse_item(orjson.dumps({**raw, "missing": ["useful_facts"]}), Path("x.jsonl"), 1)
    assert (item.useful_facts, item.missing) == ((), ("useful_facts",))
    assert item.outside == ("Carlos Gebremariam", "Eduardo Mendoza")
    assert item.variant == Variant("muppet-0002", "parties", 2, TOKENS)


def test_a_match_is_the_difference_from_the_target() -> None:
    item: Raw = {
        "id": "x",
        "people": [{"name": "Ada Novak", "gender": "woman", "age": 40, "job_title": "Clerk"}] * 3,
        "attributes": [{}, {}],
        "statistics": {"tokens": 110, "facts": 2},
        "variant": {"base": "b", "arm": "parties", "parties": 2, "tokens": 100},
    }
    one = match(item, 1)
    assert (one.parties, one.facts, one.tokens, one.tokens_share) == (1, 1, 10, 0.1)
    assert one.density == pytest.approx(2000 / 110 - 10)
    # Three cards of five words are 15 x 1.33 = 19.95 tokens, which this arm counts too.
    item["variant"]["arm"] = TOTAL
    assert card_tokens(item) == 20
    assert match(item, 2).tokens == 30
    assert match_lines([one]) == [
        "x: parties +1, facts +1, tokens +10 (+10.00%), density +8.182",
    ]


def test_a_target_that_cannot_be_met_is_an_error(seeds: Seeds) -> None:
    base = make_bases(seeds)[0]
    with pytest.raises(DatasetError, match=r"found \d+ tokens at the nearest; allowed: 9000 "):
        make_variant(base, "length", 5, 9000)
    with pytest.raises(DatasetError, match="allowed: 100 within 5%"):
        make_variant(base, "length", 5, 100)


def test_another_seed_gives_other_variants_that_match(seeds: Seeds, items: list[Raw]) -> None:
    made = make_variants(make_bases(seeds, 5)[:3])
    again = make_variants(make_bases(seeds, 5)[:3])
    assert item_lines(made) == item_lines(again)
    assert len(made) == 3 * (2 * len(PARTIES) + len(LENGTHS))
    assert {item["owner"] for item in made}.isdisjoint({items[0]["owner"]})


def test_the_card_shows_the_table_of_the_shipped_file(items: list[Raw]) -> None:
    assert condition_table(items) in (FOLDER / "README.md").read_text("utf-8")
    rows = condition_rows(items)
    assert [row[0] for row in rows] == [ARMS[0]] * 5 + [ARMS[1]] * 5 + [ARMS[2]] * 4
