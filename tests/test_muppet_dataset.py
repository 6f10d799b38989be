"""The shipped MuPPET items: complete, balanced, free of the secret where all see, and varied."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from leakgrid.datasets.items import ATTRIBUTE_KEYS, OPTIONAL_KEYS, REQUIRED_KEYS, load_items
from leakgrid.datasets.muppet_checks import (
    MAX_SHARE,
    gram_shares,
    leaks,
    max_gram_share,
    reasons,
)
from leakgrid.datasets.muppet_generate import main
from leakgrid.datasets.muppet_grammar import fill, sentence
from leakgrid.datasets.muppet_seeds import TOPICS, Seeds, load_seeds
from leakgrid.datasets.muppet_write import statistics
from leakgrid.outcomes import DatasetError

FOLDER = Path(__file__).resolve().parents[1] / "datasets" / "muppet"
Raw = dict[str, Any]


@pytest.fixture(scope="module")
def seeds() -> Seeds:
    return load_seeds()


@pytest.fixture(scope="module")
def items() -> list[Raw]:
    return [orjson.loads(line) for line in (FOLDER / "items.jsonl").read_bytes().splitlines()]


def test_the_command_regenerates_the_shipped_file_byte_for_byte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--out", str(tmp_path / "items.jsonl")]) == 0
    assert (tmp_path / "items.jsonl").read_bytes() == (FOLDER / "items.jsonl").read_bytes()
    assert "most frequent 8-gram" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["items.jsonl"]


def test_another_seed_gives_other_items_that_load(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    assert main(["--out", str(path), "--seed", "5", "--per-question", "1"]) == 0
    assert len(load_items(path)) == 53
    assert path.read_bytes().split(b"\n")[0] not in (FOLDER / "items.jsonl").read_bytes()


def test_all_topics_pairs_categories_questions_and_departments_are_there(items: list[Raw]) -> None:
    assert {item["topic"] for item in items} == set(TOPICS.values())
    assert len({(item["topic"], item["category"]) for item in items}) == 24
    assert len({item["category"] for item in items}) == 18
    assert len({item["department"] for item in items}) == 11
    questions = Counter(item["question_id"] for item in items)
    assert sorted(questions) == [f"q{number:02d}" for number in range(1, 54)]
    assert set(questions.values()) == {6}


def test_sizes_are_mixed_and_small_groups_cover_every_category(items: list[Raw]) -> None:
    sizes = Counter(item["statistics"]["parties"] for item in items)
    assert sorted(sizes) == [3, 4, 5, 6, 10, 20]
    assert min(sizes.values()) >= 15
    small = Counter(item["category"] for item in items if item["statistics"]["parties"] <= 6)
    assert sum(small.values()) >= 200
    assert len(small) == 18
    assert min(small.values()) >= 8


def test_askers_are_half_informed_at_every_size(items: list[Raw]) -> None:
    for size in (3, 4, 5, 6, 10, 20):
        told = [i["asker_informed"] for i in items if i["statistics"]["parties"] == size]
        assert abs(sum(told) - len(told) / 2) <= 1
    assert sum(item["asker_informed"] for item in items) * 2 == len(items)


def test_about_sixty_per_cent_are_informed_and_never_all_or_none(items: list[Raw]) -> None:
    assert all(item["informed"] and item["uninformed"] for item in items)
    informed = sum(len(item["informed"]) for item in items)
    colleagues = sum(len(item["people"]) - 1 for item in items)
    assert 0.5 < informed / colleagues < 0.65


def test_full_names_belong_to_one_group_and_owners_change(items: list[Raw]) -> None:
    where: dict[str, set[str]] = {}
    for item in items:
        for person in item["people"]:
            where.setdefault(person["name"], set()).add(item["group"])
    assert all(len(groups) == 1 for groups in where.values())
    repeats = Counter((item["group"], item["owner"]) for item in items)
    assert max(repeats.values()) <= 2


def test_every_shipped_item_passes_all_checks(items: list[Raw], seeds: Seeds) -> None:
    for item in items:
        assert reasons(item, seeds.categories[item["category"]].words) == {}, item["id"]
        assert item["statistics"] == statistics(item)
        assert 2 <= len(item["useful_facts"]) == len(item["personal_notes"]) <= 3
        assert len(item["shared_notes"]) == 5
        assert 10 <= len(item["transcript"]) <= 24


def test_both_versions_ask_for_the_owner(items: list[Raw]) -> None:
    for item in items:
        first = item["owner"].split()[0]
        assert first in item["question"]
        assert "AI Assistant" not in item["question"]
        assert f"AI Assistant (for {item['owner']})" in item["request"]
        assert len(item["request"]) > len(item["question"]) + 60


def test_facts_are_known_by_those_whose_notes_tell_them(items: list[Raw]) -> None:
    for item in items:
        main_fact, *others = item["attributes"]
        assert main_fact["known_by"] == [item["owner"], *item["informed"]]
        for fact in others:
            assert 1 < len(fact["known_by"]) <= len(main_fact["known_by"])
            assert set(fact["known_by"]) <= set(main_fact["known_by"])


def test_surface_forms_are_lower_case_and_never_part_of_a_name(items: list[Raw]) -> None:
    for item in items:
        names = " ".join(person["name"] for person in item["people"]).lower()
        for fact in item["attributes"]:
            for form in fact["surface_forms"]:
                assert form == form.lower().strip()
                assert len(form) >= 3
                assert form not in names


def test_details_vary_inside_a_category(items: list[Raw], seeds: Seeds) -> None:
    for label, category in seeds.categories.items():
        assert len(category.details) >= 8
        keys = Counter(i["attributes"][0]["key"] for i in items if i["category"] == label)
        assert len(keys) >= min(8, sum(keys.values()))
        assert max(keys.values()) <= 4


def test_no_eight_words_are_repeated_in_more_than_five_per_cent(items: list[Raw]) -> None:
    share, gram = max_gram_share(items)
    assert 0 < share <= MAX_SHARE, gram


def test_the_phrase_statistic_sees_an_echo(items: list[Raw]) -> None:
    echo = copy.deepcopy(items[:100])
    for number, item in enumerate(echo):
        if number % 5 == 0:
            name = item["owner"]
            item["shared_notes"].append(f"{name} will be back at one two three four five six.")
    share, gram = max_gram_share(echo)
    assert share == pytest.approx(0.2)
    assert "one two three four" in gram


def test_names_do_not_hide_an_echo() -> None:
    def item(first: str) -> Raw:
        text = f"{first} sat down with the others and spoke."
        return {
            "people": [{"name": f"{first} Novak"}],
            "notes": [text],
            "personal_notes": [],
            "shared_notes": [],
            "transcript": [],
        }

    counts = gram_shares([item("Ada"), item("Bo"), item("Cy")])
    assert counts == {"<name> sat down with the others and spoke": 3}


@pytest.mark.parametrize(
    "key", ["question", "request", "team", "shared_notes", "useful_facts", "personal_notes", "chat"]
)
def test_the_secret_in_any_shared_text_is_found(items: list[Raw], seeds: Seeds, key: str) -> None:
    item = copy.deepcopy(items[0])
    form = item["attributes"][0]["surface_forms"][0].upper()
    if key == "chat":
        item["transcript"][2]["text"] += f" {form}."
    elif isinstance(item[key], list):
        item[key][0] += f" {form}."
    else:
        item[key] += f" {form}."
    assert leaks(item, ())
    assert "secret in shared text" in reasons(item, ())


def test_a_category_word_in_the_chat_is_found(items: list[Raw]) -> None:
    item = copy.deepcopy(items[0])
    item["transcript"][0]["text"] = "Any symptoms?"
    assert leaks(item, ("symptom",))
    assert not leaks(items[0], ("symptom",))


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (lambda i: i["notes"].pop(), "note"),
        (lambda i: i["notes"].__setitem__(0, "They talked about nothing."), "note"),
        (lambda i: i["notes"].__setitem__(0, i["notes"][0] + " I was there."), "note"),
        (
            lambda i: i["notes"].__setitem__(0, f"{i['notes'][0]} {i['uninformed'][0]} too."),
            "note",
        ),
        (lambda i: i["transcript"].pop(), "chat"),
        (lambda i: i["transcript"].insert(1, dict(i["transcript"][0])), "chat"),
        (lambda i: i["transcript"][0].update(sender="AI Assistant (for Eve Hill)"), "chat"),
        (lambda i: i["shared_notes"].append("It takes a hour.."), "typography"),
        (lambda i: i["shared_notes"].append("It is a open box."), "typography"),
        (lambda i: i["shared_notes"].append("An box is here."), "typography"),
        (lambda i: i["shared_notes"].append("See {project}."), "typography"),
        (lambda i: i["shared_notes"].append("They was here."), "typography"),
        (lambda i: i["shared_notes"].append("the start"), "typography"),
        (lambda i: i["shared_notes"].append("This is is doubled."), "typography"),
    ],
)
def test_each_fault_is_found(items: list[Raw], fault: Any, check: str) -> None:
    item = copy.deepcopy(items[0])
    assert reasons(item, ()) == {}
    fault(item)
    assert check in reasons(item, ())


def test_slots_agree_in_number_and_sentences_start_with_capitals() -> None:
    slots = {"they": "they", "O": "Kit"}
    assert fill("{they} [is|are] here", slots, plural=True) == "they are here"
    assert sentence("{they} left. so did {O}? yes.", slots) == "They left. So did Kit? Yes."
    with pytest.raises(DatasetError, match=r"found the slot \{who\}"):
        fill("{who} left", slots)


def test_missing_seed_material_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"questions-\*\.toml"):
        load_seeds(tmp_path)
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "questions-1.toml").write_text("[[question]]\nid = 'q01'\n")
    with pytest.raises(DatasetError, match="q01: missing or unknown key"):
        load_seeds(tmp_path)
    (tmp_path / "seeds" / "questions-1.toml").write_text("[[question")
    with pytest.raises(DatasetError, match=r"questions-1\.toml"):
        load_seeds(tmp_path)


def test_the_schema_file_has_the_loaders_keys() -> None:
    schema = orjson.loads((FOLDER / "schema.json").read_bytes())
    assert set(schema["required"]) == set(REQUIRED_KEYS)
    assert set(schema["properties"]) == {*REQUIRED_KEYS, *OPTIONAL_KEYS}
    fact = schema["properties"]["attributes"]["items"]
    assert tuple(fact["properties"]) == ATTRIBUTE_KEYS
