"""CIMemories profiles: the released form loads whole, and each of its traps is met or told."""

from __future__ import annotations

import copy
import io
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakgrid.datasets.cimemories import (
    Profiles,
    is_basic_compat,
    is_basic_exact,
    load_profiles,
    snake,
)
from leakgrid.datasets.cimemories_statistics import statistic_lines
from leakgrid.jobs.datacheck import check
from leakgrid.outcomes import DatasetError

SAMPLE = Path(__file__).resolve().parents[1] / "datasets" / "cimemories" / "sample"
RELEASED = Path("/work/shared/data/cimemories/data_openai_gpt-oss-120b.json")
DOMAINS = {
    "schedule", "finance", "mental_health", "education", "relationships", "health", "housing",
    "legal", "employment",
}  # fmt: skip

Raw = dict[str, Any]


def record(statement: str, *, domain: str = "health", event: str = "fever", value: Any = 1) -> Raw:
    return {
        "value": value,
        "information_domain": domain,
        "event": event,
        "memory_statement": statement,
    }


def person(name: str = "Ada Lind", **attributes: Raw) -> Raw:
    basics = {
        "name": record(f"The name is {name}.", domain="general", event="general"),
        "sex": record("Sex is female.", domain="general", event="general"),
        "address": record("Lives at 1 Elm Way.", domain="general", event="general"),
        "age": record("Age is 40.", domain="general", event="general"),
    }
    return {
        "bio": {"name": name, "sex": "F", "address": "1 Elm Way", "age": 40},
        "information_attributes": basics | (attributes or {"fever": record("Had a fever.")}),
        "contexts": [
            {"recipient": "Baker", "task": "Order bread"},
            {"recipient": "Doctor", "task": "Tell symptoms"},
        ],
    }


Load = Callable[..., Profiles]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def loaded(*people: Raw, text: str | bytes = "") -> Profiles:
        path = tmp_path / "profiles.json"
        body = text or json.dumps(list(people))
        path.write_bytes(body if isinstance(body, bytes) else body.encode())
        return load_profiles(path)

    return loaded


def told(profiles: Profiles, words: str) -> str:
    found = [line for line in profiles.oddities if words in line]
    assert len(found) == 1, profiles.oddities
    return found[0]


def test_a_plain_file_has_no_oddities_and_keeps_its_order(load: Load) -> None:
    profiles = load(person())
    assert profiles.oddities == ()
    (one,) = profiles.profiles
    assert (one.id, one.name, len(one.digest)) == ("ada-lind", "Ada Lind", 16)
    assert [memory.key for memory in one.memories] == ["name", "sex", "address", "age", "fever"]
    assert [memory.basic for memory in one.memories] == [True] * 4 + [False]
    assert [(c.id, c.recipient) for c in profiles.contexts] == [("c00", "Baker"), ("c01", "Doctor")]
    assert profiles.contexts_of("ada-lind") == profiles.contexts
    assert profiles.profile("ada-lind") is one
    with pytest.raises(KeyError):
        profiles.profile("nobody")
    with pytest.raises(KeyError):
        profiles.contexts_of("nobody")


def test_context_ids_are_those_of_the_file_and_not_of_the_profile(load: Load) -> None:
    first, second = person("A B"), person("C D")
    second["contexts"].reverse()
    second["contexts"].append({"recipient": "Baker", "task": "Complain"})
    profiles = load(first, second)
    assert [context.id for context in profiles.contexts] == ["c00", "c01", "c02"]
    assert [context.id for context in profiles.contexts_of("c-d")] == ["c01", "c00", "c02"]
    assert [context.id for context in profiles.contexts_of("a-b")] == ["c00", "c01"]


def test_a_context_that_stands_twice_is_read_once_and_told(load: Load) -> None:
    one = person()
    one["contexts"].append(one["contexts"][0])
    profiles = load(one)
    assert len(profiles.contexts_of("ada-lind")) == 2
    assert "Baker / Order bread 2 times" in told(profiles, "read once")


def test_equal_statements_stay_two_attributes(load: Load) -> None:
    profiles = load(person(first=record("Sleeps badly."), second=record("Sleeps badly.")))
    assert [m.key for m in profiles.profiles[0].memories][4:] == ["first", "second"]
    assert "'first', 'second'" in told(profiles, "same statement")


def test_a_statement_inside_another_is_told(load: Load) -> None:
    profiles = load(person(short=record("Is ill"), long=record("Is ill since May.")))
    assert "'short' is part of that of 'long'" in told(profiles, "is part of")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("A follow\u2011up is due.", "a dash that is no ASCII hyphen"),
        ("Takes 5\u202fmg.", "a space that is no ASCII space"),
        ("Lives at 1 Elm Way\nYork.", "a line break"),
        ("Calls it \u201cfine\u201d.", "beyond ASCII"),
        (" Has a cat. ", "space at an end"),
        ("Has a cat", "without a full stop"),
    ],
)
def test_odd_characters_are_kept_and_told(load: Load, statement: str, words: str) -> None:
    profiles = load(person(fever=record(statement)))
    assert profiles.profiles[0].memories[4].statement == statement
    assert told(profiles, words).startswith("1 statements")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "values that are null"),
        ([{"name": "Bo"}], "lists or objects"),
        ("1 Elm Way\nYork", "values with a line break"),
    ],
)
def test_odd_values_are_told_and_change_nothing(load: Load, value: Any, words: str) -> None:
    profiles = load(person(fever=record("Had a fever.", value=value)))
    assert told(profiles, words).startswith("1 values")
    assert profiles.profiles[0].memories[4].statement == "Had a fever."


def test_a_record_without_a_value_or_with_more_is_told(load: Load) -> None:
    bare = record("Had a fever.")
    del bare["value"]
    profiles = load(person(bare=bare, more=record("Coughs.") | {"confidence": 1}))
    assert "1 attributes" in told(profiles, "without a value")
    assert "1 records" in told(profiles, "unknown keys")


def test_missing_basics_are_named(load: Load) -> None:
    one = person()
    for key in ("sex", "age"):
        del one["information_attributes"][key]
    del one["bio"]["age"]
    profiles = load(one)
    assert "sex, age" in told(profiles, "no attribute for")
    assert "bio has no age" in told(profiles, "bio")


def test_a_basic_under_a_general_prefix_is_not_missing(load: Load) -> None:
    one = person()
    one["information_attributes"] = {
        f"general_{'full_name' if key == 'name' else key}": value
        for key, value in one["information_attributes"].items()
    }
    assert load(one).oddities == ()


def test_spellings_of_one_event_and_domain_are_one(load: Load) -> None:
    profiles = load(
        person(
            one=record("Won in May.", event="lottery win", domain="mental_health"),
            two=record("Told nobody.", event="Lottery_Win", domain="Mental health"),
        )
    )
    assert {m.event for m in profiles.profiles[0].memories} == {"general", "lottery win"}
    assert {m.domain for m in profiles.profiles[0].memories} == {"general", "mental_health"}
    assert "Lottery_Win, lottery win" in told(profiles, "event 'lottery win'")
    assert "Mental health, mental_health" in told(profiles, "domain 'mental_health'")


def test_keys_out_of_snake_case_or_numbered_are_told(load: Load) -> None:
    keys = {f"item_{number}": record(f"Fact {number} holds.") for number in range(9)}
    keys |= {"primaire_hôpital": record("A."), "fullText": record("B.")}
    profiles = load(person("Ada Lind", **keys))
    assert "2 keys" in told(profiles, "snake case")
    assert "9 keys end in a number" in told(profiles, "no meaning")


def test_what_two_profiles_share_is_told_and_names_may_clash(load: Load) -> None:
    profiles = load(person("A B"), person("A B"), person("A-B 2"), person("Ы"))
    assert [p.id for p in profiles.profiles] == ["a-b", "a-b-2", "a-b-2-2", "profile-4"]
    assert "2 profiles are named A B" in told(profiles, "are named")
    told(profiles, "keys stand in more than one profile")
    told(profiles, "statements stand in more than one profile")


def test_labels_in_a_profiles_file_are_told_and_leave_the_digest_alone(load: Load) -> None:
    plain, labelled = person(), person()
    labelled["contexts"][0]["labels_combined"] = {"Had a fever.": {"necessary": 1.0}}
    profiles = load(labelled)
    assert "import them" in told(profiles, "carry labels")
    assert profiles.profiles[0].digest == load(plain).profiles[0].digest


def test_a_byte_order_mark_is_told(load: Load) -> None:
    text = b"\xef\xbb\xbf" + json.dumps([person()]).encode()
    assert told(load(text=text), "byte order mark")


def test_the_digest_follows_the_content_and_the_order_of_attributes(load: Load) -> None:
    base = person(a=record("One."), b=record("Two."))
    variants = [copy.deepcopy(base) for _ in range(5)]
    variants[0]["information_attributes"]["a"]["memory_statement"] = "Other."
    items = variants[1]["information_attributes"]
    items["a"] = items.pop("a")
    variants[2]["bio"]["age"] = 41
    variants[3]["contexts"][1]["task"] = "Other"
    variants[4]["information_attributes"]["a"]["event"] = "other"
    digests = {load(variant).profiles[0].digest for variant in (base, *variants)}
    assert len(digests) == 6
    assert load(copy.deepcopy(base)).profiles[0].digest == load(base).profiles[0].digest


def changed(path: str, value: Any = None, *, drop: bool = False) -> Raw:
    """A person with one part replaced or dropped; path by slashes."""
    one: Any = person()
    *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    place = one
    for parent in parents:
        place = place[parent]
    if drop:
        del place[last]
    else:
        place[last] = value
    return dict(one)


FEVER = "information_attributes/fever"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (changed("bio", drop=True), "profile 1: .*bio: found no such key"),
        (changed("bio/name", drop=True), "bio: name: found no such key"),
        (changed("bio/name", " "), r"bio\.name: found ' ' \(text\)"),
        (changed("bio/name", 3), r"bio\.name: found 3 \(number\)"),
        (changed("information_attributes", []), r"Ada Lind.*information_attributes: found \[\]"),
        (changed("information_attributes", {}), "at least one attribute"),
        (changed(FEVER, None), r"Ada Lind.*attribute 'fever': found None \(null\)"),
        (
            changed(f"{FEVER}/memory_statement", drop=True),
            "fever': memory_statement: found no such",
        ),
        (changed(f"{FEVER}/memory_statement", None), r"fever': memory_statement: found None"),
        (changed(f"{FEVER}/memory_statement", ""), r"fever': memory_statement: found ''"),
        (changed(f"{FEVER}/memory_statement", ["x"]), r"fever': memory_statement: .*\(list\)"),
        (changed(f"{FEVER}/memory_statement", "\ud800"), "half a surrogate pair"),
        (changed(f"{FEVER}/event", drop=True), "fever': event: found no such key"),
        (changed(f"{FEVER}/information_domain", 7), r"fever': information_domain: found 7"),
        (changed("contexts", drop=True), "contexts: found no such key"),
        (changed("contexts", {}), "contexts: found {}"),
        (changed("contexts", []), "found none in any profile"),
        (changed("contexts/1/task", drop=True), r"contexts\[1\]: task: found no such key"),
        (changed("contexts/0/recipient", None), r"contexts\[0\]\.recipient: found None"),
        (changed("information_attributes/", record("No key.")), "attribute '': found ''"),
    ],
)
def test_an_unusable_part_is_named_with_its_place(load: Load, raw: Raw, words: str) -> None:
    with pytest.raises(DatasetError, match=words) as error:
        load(raw)
    assert "profiles.json" in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"value": 1, ', '"value": NaN, ', "Ada Lind.*attribute 'fever': value: found NaN"),
        ('"value": 1, ', '"value": [-Infinity], ', "information_attributes.fever.value.*-Infinity"),
        (
            '"value": 1, ',
            '"value": 1, "value": 2, ',
            "attribute 'fever': found the key 'value' twic",
        ),
        ('"value": 1, ', '"value": {"a": 1, "a": 2}, ', r"fever\.value: found the key 'a' twice"),
        (
            '"fever": {',
            '"fever": {}, "fever": {',
            "information_attributes: found the key 'fever' tw",
        ),
        ('"value": 1, ', f'"value": {"9" * 5000}, ', "not JSON"),
        ('"value": 1, ', f'"value": {"[" * 200_000}1{"]" * 200_000}, ', "not JSON"),
        ('"value": 1, ', '"value": 1e999, ', "Ada Lind.*Out of range float"),
        ('"value": 1, ', '"value": , ', "not JSON"),
    ],
)
def test_what_is_no_plain_json_is_refused(load: Load, old: str, new: str, words: str) -> None:
    one = person(fever=record("Had a fever."))
    one["information_attributes"] = {"fever": one["information_attributes"]["fever"]}
    text = json.dumps([one])
    assert old in text
    with pytest.raises(DatasetError, match=words):
        load(text=text.replace(old, new))


@pytest.mark.parametrize("text", ["{}", "[]", "null", '"x"', "[1]", b"\xff\xfe", "[[]]"])
def test_another_kind_of_file_is_refused(load: Load, text: str | bytes) -> None:
    with pytest.raises(DatasetError, match=r"profiles\.json"):
        load(text=text)


def test_a_missing_file_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"datasets/cimemories/README\.md"):
        load_profiles(tmp_path / "none.json")


def test_one_profile_without_contexts_can_still_receive(load: Load) -> None:
    hermit = person("B C")
    hermit["contexts"] = []
    profiles = load(person(), hermit)
    assert profiles.contexts_of("b-c") == ()
    told(profiles, "it can only receive")


@pytest.mark.parametrize(
    ("key", "exact", "compat"),
    [
        ("name", True, True),
        ("full_name", True, True),
        ("general_full_name", True, True),
        ("general_age", True, True),
        ("fullName", True, False),
        ("Home Address", True, False),
        ("user_sex", True, True),
        ("gender", True, False),
        ("age_general_05", True, True),
        ("adresse", False, False),
        ("miscarriage_grief_level", False, True),
        ("mortgage_balance", False, True),
        ("therapist_name", False, True),
        ("spouse_age", False, True),
        ("sexual_assault_case_status", False, True),
        ("manager_support", False, True),
        ("date_of_birth", False, False),
        ("years_of_residence_at_current_address", False, True),
        ("income", False, False),
    ],
)
def test_the_two_readings_of_a_basic_attribute(key: str, exact: bool, compat: bool) -> None:
    assert is_basic_exact(key) is exact
    assert is_basic_compat(key) is compat


@given(st.text())
def test_any_key_folds_to_snake_case_once_and_for_all(key: str) -> None:
    folded = snake(key)
    assert re.fullmatch(r"(?:[a-z0-9]+(?:_[a-z0-9]+)*)?", folded)
    assert snake(folded) == folded


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1, max_size=6))
def test_ids_are_unique_and_plain_whatever_the_names(names: list[str]) -> None:
    from leakgrid.datasets.cimemories import _free_id

    ids: list[str] = []
    for number, name in enumerate(names, start=1):
        ids.append(_free_id(name, number, ids))
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", one) for one in ids)


def test_data_check_prints_counts_and_oddities(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([person(twin=record("Is not ill."), other=record("Is not ill."))]))
    out = io.StringIO()
    check(path, out)
    printed = out.getvalue()
    assert "profiles 1, attributes 6, distinct contexts 2, attribute-context pairs 12" in printed
    assert "instances of the dialogue: 0" in printed
    assert "domain: general 4, health 2" in printed
    assert "value types: whole number 6" in printed
    assert "4 by exact key, 4 by a key" in printed
    assert "with a negation: 2 of 6 (33.3%)" in printed
    assert "oddity: profile ada-lind: same statement under 'twin', 'other'" in printed


def test_data_check_says_so_where_nothing_is_odd(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([person()]))
    out = io.StringIO()
    check(path, out)
    assert out.getvalue().endswith("oddities: none\n")


@pytest.mark.skipif(not RELEASED.exists(), reason=f"the released file is not at {RELEASED}")
def test_the_released_file_has_the_known_counts() -> None:
    profiles = load_profiles(RELEASED)
    sizes = [len(profile.memories) for profile in profiles.profiles]
    assert sizes == [147, 142, 147, 150, 145, 145, 150, 145, 147, 149]
    assert len(profiles.contexts) == 49
    assert len({c.recipient for c in profiles.contexts}) == 49
    assert len({c.task for c in profiles.contexts}) == 49
    assert all(profiles.contexts_of(p.id) == profiles.contexts for p in profiles.profiles)
    lines = statistic_lines(profiles)
    text = "\n".join(lines)
    for expected in (
        "profiles 10, attributes 1467, distinct contexts 49, attribute-context pairs 71883",
        "instances of the dialogue: 4410",
        "education 151, employment 151, finance 152, general 107, health 151, housing 151, "
        "legal 151, mental_health 151, relationships 152, schedule 150",
        "life events: 21 distinct, a profile min 3, median 3, mean 3.0, max 3, with domain 270",
        "characters: min 10, median 55, mean 55.3, max 119, 95 % at most 78",
        "words: min 3, median 9, mean 9.1, max 17",
        "min 7054, median 8458.5, mean 8261.7, max 9150",
        "beyond ASCII: 228 of 1467 (15.5%)",
        "boolean 56, list 1, number 5, text 1171, whole number 234",
        "40 by exact key, 188 by a key",
    ):
        assert expected in text
    basics = Counter(p.id for p in profiles.profiles for m in p.memories if m.basic)
    assert set(basics.values()) == {4}
    told(profiles, "34 keys stand in more than one profile")
    told(profiles, "1 statements stand in more than one profile")
    assert not any("same statement" in line or "part of" in line for line in profiles.oddities)
    heavy = told(profiles, "beyond ASCII")
    assert heavy.startswith("228 statements")
    assert "shawn-franklin 63, troy-salazar 38, paula-phillips 24" in heavy


def test_the_sample_is_four_people_of_about_forty_attributes_over_all_domains() -> None:
    profiles = load_profiles(SAMPLE / "profiles.json")
    assert len(profiles.profiles) == 4
    assert len(profiles.contexts) == 8
    for profile in profiles.profiles:
        assert 38 <= len(profile.memories) <= 45
        assert profiles.contexts_of(profile.id) == profiles.contexts
        events = {memory.event for memory in profile.memories} - {"general"}
        assert len(events) == 3
        for event in events:
            assert {m.domain for m in profile.memories if m.event == event} == DOMAINS
        assert sum(memory.basic for memory in profile.memories) == 4
        assert len({memory.statement for memory in profile.memories}) == len(profile.memories)
    harmless = ("beyond ASCII", "a dash that", "values with a line break", "keys stand in more")
    assert all(any(word in line for word in harmless) for line in profiles.oddities)


@pytest.mark.skipif(not RELEASED.exists(), reason=f"the released file is not at {RELEASED}")
def test_nothing_of_the_released_file_is_in_the_sample() -> None:
    def grams(profiles: Profiles) -> set[tuple[str, ...]]:
        words = [m.statement.lower().split() for p in profiles.profiles for m in p.memories]
        return {tuple(w[i : i + 5]) for w in words for i in range(len(w) - 4)}

    ours, theirs = load_profiles(SAMPLE / "profiles.json"), load_profiles(RELEASED)
    assert not grams(ours) & grams(theirs)
    assert not {c.task.lower() for c in ours.contexts} & {c.task.lower() for c in theirs.contexts}
    assert not {p.name for p in ours.profiles} & {p.name for p in theirs.profiles}
