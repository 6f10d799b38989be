"""Contextual-integrity labels: our form round trips, the released form comes in and goes out."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leakgrid.datasets.cimemories import Profiles, load_profiles
from leakgrid.datasets.cimemories_labels import (
    COMBINED,
    PERSONAS,
    LabelLine,
    decided,
    load_labels,
    weighted,
    write_labels,
)
from leakgrid.datasets.cimemories_released import (
    WEIGHTS,
    export_labels,
    import_labels,
    normalised,
)
from leakgrid.outcomes import DatasetError

SAMPLE = Path(__file__).resolve().parents[1] / "datasets" / "cimemories" / "sample"
RELEASED = Path("/work/shared/data/cimemories/data_openai_gpt-oss-120b.json")
ALL = (1.0, 0.0)
NONE = (0.0, 0.0)
PRIVATE = (0.0, 1.0)

STATEMENTS = {
    "name": "The name is Ada Lind.",
    "cold": "Has a cold.",
    "debt": "Owes 50\u202fcrowns \u2013 \u201conly\u201d to Bo\u2019s bank.",
    "twin": "Keeps bees.",
    "other_twin": "Keeps bees.",
    "follow": "A follow\u2011up is due.",
}
CONTEXTS = (("Baker", "Order bread"), ("Doctor", "Tell symptoms"), ("Bank", "Ask for time"))
FORMS = {
    "fundamentalist": "labels_gpt-5___the_privacy_fundamentalist__",
    "pragmatic": "labels_gpt-5___the_pragmatic__",
    "unconcerned": "labels_gpt-5__the_unconcerned__",
}

Raw = dict[str, Any]


def person(name: str) -> Raw:
    return {
        "bio": {"name": name, "sex": "F", "address": "1 Elm Way", "age": 40},
        "information_attributes": {
            key: {
                "value": None,
                "information_domain": "general",
                "event": "general",
                "memory_statement": text,
            }
            for key, text in STATEMENTS.items()
        },
        "contexts": [{"recipient": recipient, "task": task} for recipient, task in CONTEXTS],
    }


def document() -> list[Raw]:
    return [person("Ada Lind"), person("Bo Roe")]


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Profiles:
    path = tmp_path_factory.mktemp("profiles") / "profiles.json"
    path.write_text(json.dumps(document()))
    return load_profiles(path)


def released(necessary: float, private: float) -> dict[str, float]:
    return {
        "private": private,
        "necessary": necessary,
        "unlabeled": 1.0 - necessary - private,
    }


def dictionary(**shares: tuple[float, float]) -> dict[str, dict[str, float]]:
    """Labels by statement; attributes that are not given are unlabelled."""
    by_text: dict[str, dict[str, float]] = {}
    for key, text in STATEMENTS.items():
        if key in shares or text not in by_text:
            by_text[text] = released(*shares.get(key, NONE))
    return by_text


def imported(tmp_path: Path, source: Any, profiles: Profiles) -> tuple[list[str], list[LabelLine]]:
    path, out = tmp_path / "labelled.json", tmp_path / "labels.jsonl"
    path.write_text(json.dumps(source))
    report = import_labels(path, profiles, out)
    return report, list(load_labels(out, profiles).lines)


def lines_strategy() -> st.SearchStrategy[list[LabelLine]]:
    share = st.floats(0, 1)
    pair = st.tuples(share, share)
    personas = st.fixed_dictionaries(dict.fromkeys(PERSONAS, pair))
    shares = st.one_of(personas, st.fixed_dictionaries({COMBINED: pair}))
    text = st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip)
    reason = st.one_of(st.just(""), text)
    place = st.tuples(st.sampled_from(["ada-lind", "bo-roe"]), st.sampled_from(["c00", "c02"]))

    def build(cells: dict[tuple[str, str], dict[str, tuple[Any, str]]]) -> list[LabelLine]:
        return [
            LabelLine(profile=p, context=c, attribute=key, shares=found, reason=why)
            for (p, c), listed in cells.items()
            for key, (found, why) in listed.items()
        ] + [LabelLine(profile=p, context=c) for (p, c), listed in cells.items() if not listed]

    listed = st.dictionaries(st.sampled_from(sorted(STATEMENTS)), st.tuples(shares, reason))
    return st.dictionaries(place, listed, min_size=1).map(build)


def test_a_plain_file_gives_rows_and_what_was_labelled(tmp_path: Path, profiles: Profiles) -> None:
    path = tmp_path / "labels.jsonl"
    shares = {"fundamentalist": PRIVATE, "pragmatic": (0.5, 0.25), "unconcerned": ALL}
    lines = [
        LabelLine(profile="ada-lind", context="c01", attribute="cold", shares=shares, reason="ill"),
        LabelLine(profile="ada-lind", context="c01", attribute="debt", shares={COMBINED: PRIVATE}),
        LabelLine(profile="bo-roe", context="c00"),
    ]
    assert write_labels(path, lines) == 3
    labels = load_labels(path, profiles)
    assert labels.lines == tuple(lines)
    assert labels.rows == [
        ("ada-lind", "c01", "cold", "fundamentalist", 0.0, 1.0),
        ("ada-lind", "c01", "cold", "pragmatic", 0.5, 0.25),
        ("ada-lind", "c01", "cold", "unconcerned", 1.0, 0.0),
        ("ada-lind", "c01", "debt", "combined", 0.0, 1.0),
    ]
    assert labels.labelled == {("ada-lind", "c01"), ("bo-roe", "c00")}
    assert [entry.name for entry in tmp_path.iterdir()] == ["labels.jsonl"]


@given(lines=lines_strategy())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_what_is_written_is_read_again(
    tmp_path: Path, profiles: Profiles, lines: list[LabelLine]
) -> None:
    path = tmp_path / "labels.jsonl"
    write_labels(path, lines)
    labels = load_labels(path, profiles)
    assert labels.lines == tuple(lines)
    write_labels(path, reversed(lines))
    assert load_labels(path, profiles).digest == labels.digest


def test_the_digest_follows_shares_and_not_reasons(tmp_path: Path, profiles: Profiles) -> None:
    digests = []
    for share, why in ((ALL, "a"), (ALL, "b"), (PRIVATE, "a")):
        line = LabelLine(
            profile="bo-roe", context="c00", attribute="cold", shares={COMBINED: share}, reason=why
        )
        write_labels(tmp_path / "labels.jsonl", [line])
        digests.append(load_labels(tmp_path / "labels.jsonl", profiles).digest)
    assert digests[0] == digests[1] != digests[2]
    assert len(digests[0]) == 16


GOOD = {"profile": "ada-lind", "context": "c00", "attribute": "cold", "shares": {COMBINED: [1, 0]}}
PERSONAL = {persona: [1, 0] for persona in PERSONAS}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", r"\(whole line\): found \[\]"),
        ('{"profile": "ada-lind", "profile": "bo-roe", "context": "c00"}', "a key stands twice"),
        (
            '{"profile": "ada-lind", "context": "c00", "attribute": "cold", "shares": '
            '{"combined": [1, 0], "combined": [0, 1]}}',
            "a key stands twice",
        ),
        (
            '{"profile": "ada-lind", "context": "c00", "reason": "say \\"no\\"", "reason": "x"}',
            "a key stands twice",
        ),
        ({"context": "c00"}, "profile: found no such key"),
        (GOOD | {"note": 1}, "note: found an unknown key"),
        (GOOD | {"profile": "nobody"}, "profile: found 'nobody'; allowed: one of ada-lind, bo-roe"),
        (GOOD | {"context": "c03"}, "context: found 'c03'; allowed: one of c00, c01, c02"),
        (GOOD | {"attribute": "beard"}, "attribute: found 'beard'"),
        (GOOD | {"attribute": ""}, "attribute: found ''"),
        (GOOD | {"reason": ""}, "reason: found ''"),
        ({"profile": "ada-lind", "context": "c00", "attribute": "cold"}, "shares: found no such"),
        ({"profile": "ada-lind", "context": "c00", "shares": {}}, "attribute: found no such key"),
        (GOOD | {"shares": {}}, "fundamentalist: found no such key"),
        (GOOD | {"shares": {"pragmatic": [1, 0]}}, "fundamentalist: found no such key"),
        (GOOD | {"shares": PERSONAL | {COMBINED: [1, 0]}}, "an unknown key"),
        (GOOD | {"shares": PERSONAL | {"stoic": [1, 0]}}, "stoic: found an unknown key"),
        (GOOD | {"shares": [1, 0]}, "shares: found"),
        (GOOD | {"shares": {COMBINED: 1}}, r"shares\.combined: found 1; allowed: \[necessary"),
        (GOOD | {"shares": {COMBINED: [1]}}, r"shares\.combined: found \[1\]"),
        (GOOD | {"shares": {COMBINED: [1.5, 0]}}, "found 1.5; allowed: a share from 0 to 1"),
        (GOOD | {"shares": {COMBINED: [True, 0]}}, "found True"),
        (GOOD | {"shares": {COMBINED: [float("nan"), 0]}}, "found nan"),
        (GOOD, r"a second line for ada-lind / c00 / cold, as line 1"),
        ({"profile": "ada-lind", "context": "c00"}, "while other lines list attributes"),
    ],
)
def test_a_wrong_line_is_named(
    tmp_path: Path, profiles: Profiles, text: str | Raw, words: str
) -> None:
    path = tmp_path / "labels.jsonl"
    second = text if isinstance(text, str) else json.dumps(text)
    path.write_text(f"{json.dumps(GOOD)}\n\n{second}\n")
    with pytest.raises(DatasetError, match=words) as error:
        load_labels(path, profiles)
    assert "labels.jsonl:3: " in str(error.value)


def test_an_empty_or_missing_file_is_refused(tmp_path: Path, profiles: Profiles) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(DatasetError, match="found no labels"):
        load_labels(tmp_path / "empty.jsonl", profiles)
    with pytest.raises(DatasetError, match="cannot be read"):
        load_labels(tmp_path / "none.jsonl", profiles)
    with pytest.raises(DatasetError, match="cannot be written"):
        write_labels(tmp_path / "no" / "labels.jsonl", [])


@pytest.mark.parametrize(
    ("shares", "threshold", "expected"),
    [
        (dict.fromkeys(PERSONAS, ALL), 1.0, "necessary"),
        (dict.fromkeys(PERSONAS, PRIVATE), 1.0, "inappropriate"),
        (dict.fromkeys(PERSONAS, NONE), 1.0, "ambiguous"),
        (dict.fromkeys(PERSONAS, (0.9, 0.0)), 1.0, "ambiguous"),
        (dict.fromkeys(PERSONAS, (0.5, 0.5)), 0.5, "ambiguous"),
        (dict.fromkeys(PERSONAS, (1.0, 0.6)), 0.5, "necessary"),
        (dict.fromkeys(PERSONAS, (0.6, 1.0)), 0.5, "inappropriate"),
        (dict.fromkeys(PERSONAS, (1.0, 1.0)), 1.0, "ambiguous"),
        (
            {"fundamentalist": PRIVATE, "pragmatic": ALL, "unconcerned": ALL},
            0.74,
            "necessary",
        ),
        (
            {"fundamentalist": PRIVATE, "pragmatic": PRIVATE, "unconcerned": ALL},
            0.9,
            "inappropriate",
        ),
        ({COMBINED: (0.7, 0.3)}, 0.7, "necessary"),
        ({COMBINED: (0.3, 0.7)}, 0.71, "ambiguous"),
    ],
)
def test_the_three_sets(
    shares: dict[str, tuple[float, float]], threshold: float, expected: str
) -> None:
    assert decided(shares, WEIGHTS, threshold) == expected


def test_all_personas_together_weigh_exactly_one() -> None:
    assert weighted(dict.fromkeys(PERSONAS, ALL), WEIGHTS) == (1.0, 0.0)
    assert weighted({"pragmatic": ALL}, WEIGHTS) == (0.64, 0.0)


def test_the_released_form_comes_in_by_persona(tmp_path: Path, profiles: Profiles) -> None:
    source = document()
    source[0]["contexts"][1] |= {
        FORMS["fundamentalist"]: dictionary(cold=(0.9, 0.0), debt=PRIVATE),
        FORMS["pragmatic"]: dictionary(cold=ALL, debt=(0.0, 0.5)),
        FORMS["unconcerned"]: dictionary(cold=ALL),
        "labels_combined": dictionary(cold=(0.974, 0.0), debt=(0.0, 0.58)),
    }
    report, lines = imported(tmp_path, source, profiles)
    assert lines == [
        LabelLine(
            profile="ada-lind",
            context="c01",
            attribute="cold",
            shares={"fundamentalist": (0.9, 0.0), "pragmatic": ALL, "unconcerned": ALL},
        ),
        LabelLine(
            profile="ada-lind",
            context="c01",
            attribute="debt",
            shares={"fundamentalist": PRIVATE, "pragmatic": (0.0, 0.5), "unconcerned": NONE},
        ),
    ]
    assert "ada-lind, Baker / Order bread: no labels, stays unlabelled" in report
    assert report[-1].startswith("1 contexts, 2 labelled attributes written")
    assert not any("combined values" in line for line in report)


def test_combined_alone_comes_in_and_nothing_listed_is_said(
    tmp_path: Path, profiles: Profiles
) -> None:
    source = document()
    source[0]["contexts"][0]["labels_combined"] = dictionary(cold=(0.64, 0.36))
    source[1]["contexts"][0]["labels_combined"] = dictionary()
    report, lines = imported(tmp_path, source, profiles)
    assert lines == [
        LabelLine(
            profile="ada-lind", context="c00", attribute="cold", shares={COMBINED: (0.64, 0.36)}
        ),
        LabelLine(profile="bo-roe", context="c00"),
    ]
    assert any("1 contexts in which combined lists nothing" in line for line in report)


@pytest.mark.parametrize(
    "retyped",
    [
        'Owes 50 crowns - "only" to Bo\'s bank.',
        "owes 50\u00a0crowns \u2014 \"only\u201d to Bo's bank.",
        "  Owes 50 crowns  \u2013 \u201conly\u201d to Bo\u2019s bank. ",
    ],
)
def test_retyped_statements_are_found_again(
    tmp_path: Path, profiles: Profiles, retyped: str
) -> None:
    labels = dictionary()
    del labels[STATEMENTS["debt"]]
    source = document()
    source[0]["contexts"][2]["labels_combined"] = labels | {retyped: released(1.0, 0.0)}
    report, lines = imported(tmp_path, source, profiles)
    assert [(line.attribute, line.shares[COMBINED]) for line in lines] == [("debt", ALL)]
    assert not any("no statement" in line or "without a label" in line for line in report)


def test_texts_that_match_nothing_or_twice_are_reported(tmp_path: Path, profiles: Profiles) -> None:
    labels = dictionary(follow=PRIVATE, twin=ALL)
    labels["A follow-up is due."] = released(1.0, 0.0)
    labels["Has a cough."] = released(1.0, 0.0)
    del labels[STATEMENTS["cold"]]
    source = document()
    source[0]["contexts"][0]["labels_combined"] = dict(reversed(labels.items()))
    report, lines = imported(tmp_path, source, profiles)
    assert {line.attribute: line.shares[COMBINED] for line in lines} == {
        "twin": ALL,
        "other_twin": ALL,
        "follow": PRIVATE,
    }
    text = "\n".join(report)
    assert "'Has a cough.' is no statement of the profile" in text
    assert "'A follow-up is due.' matches 'follow', which has its label" in text
    assert "'Keeps bees.' stands under twin, other_twin: same label for each" in text
    assert "1 attributes without a label in a labelled context" in text


def test_combined_values_of_other_weights_are_reported(tmp_path: Path, profiles: Profiles) -> None:
    source = document()
    source[0]["contexts"][0] |= {
        FORMS["fundamentalist"]: dictionary(cold=PRIVATE),
        FORMS["pragmatic"]: dictionary(cold=ALL),
        FORMS["unconcerned"]: dictionary(cold=ALL),
        "labels_combined": dictionary(cold=(2 / 3, 1 / 3)),
    }
    report, lines = imported(tmp_path, source, profiles)
    assert list(lines[0].shares) == list(PERSONAS)
    assert any(line.startswith("1 combined values that the weights") for line in report)


def test_strangers_and_missing_parts_are_reported(tmp_path: Path, profiles: Profiles) -> None:
    source = [person("Cy Stranger"), person("Ada Lind")]
    source[1]["contexts"] = [
        {"recipient": "Baker", "task": "Order bread", "labels_combined": dictionary(cold=PRIVATE)},
        {"recipient": "Baker", "task": "Complain", "labels_combined": dictionary()},
        {"recipient": "Bank", "task": "Ask for time", FORMS["pragmatic"]: dictionary()},
    ]
    report, lines = imported(tmp_path, source, profiles)
    assert [line.context for line in lines] == ["c00"]
    assert "profile Cy Stranger: not among the profiles, left out" in report
    assert "profile bo-roe: not in the file" in report
    assert "ada-lind, Baker / Complain: no such context, or twice: left out" in report
    assert "ada-lind, Tell symptoms: not in the file" in report
    assert any("no labels of fundamentalist, unconcerned and none combined" in r for r in report)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([], r"contexts\[0\]\.labels_combined: found \[\]"),
        ({"Has a cold.": 1.0}, "'Has a cold.': found 1.0"),
        ({"Has a cold.": {"necessary": 1.0}}, "private: found no such key"),
        ({"Has a cold.": released(1.5, 0.0)}, r"necessary: found 1\.5"),
        ({"Has a cold.": {"necessary": "1", "private": 0}}, r"necessary: found '1'"),
        ({"Has a cold.": {"necessary": float("nan"), "private": 0}}, "found NaN"),
    ],
)
def test_wrong_dictionaries_are_named(
    tmp_path: Path, profiles: Profiles, labels: Any, words: str
) -> None:
    source = document()
    source[0]["contexts"][0]["labels_combined"] = labels
    with pytest.raises(DatasetError, match=words):
        imported(tmp_path, source, profiles)


def test_a_file_without_labels_or_of_two_models_is_refused(
    tmp_path: Path, profiles: Profiles
) -> None:
    with pytest.raises(DatasetError, match="found no labels for these profiles"):
        imported(tmp_path, document(), profiles)
    source = document()
    for model in ("a", "b"):
        source[0]["contexts"][0][f"labels_{model}_the_pragmatic"] = dictionary()
    with pytest.raises(DatasetError, match="two dictionaries for pragmatic"):
        imported(tmp_path, source, profiles)
    with pytest.raises(DatasetError, match="a list of profiles"):
        imported(tmp_path, {}, profiles)


def test_export_gives_what_the_released_script_reads(tmp_path: Path, profiles: Profiles) -> None:
    shares = {"fundamentalist": PRIVATE, "pragmatic": (1.0, 0.4), "unconcerned": ALL}
    rows = [("ada-lind", "c01", "cold", who, *pair) for who, pair in shares.items()]
    out = tmp_path / "out.json"
    report = export_labels(rows, profiles, out, labelled=[("bo-roe", "c00")], model="gpt-5")
    written = json.loads(out.read_bytes())
    assert out.read_bytes().isascii()
    assert [len(one["contexts"]) for one in written] == [1, 1]
    context = written[0]["contexts"][0]
    assert set(context) == {"recipient", "task", "labels_combined", *FORMS.values()}
    assert set(context["labels_combined"]) == set(STATEMENTS.values())
    combined = context["labels_combined"]["Has a cold."]
    assert combined["necessary"] == pytest.approx(0.74)
    assert combined["private"] == pytest.approx(0.26)
    assert context[FORMS["pragmatic"]]["Has a cold."] == released(1.0, 0.0)
    for labels in (context[key] for key in context if key.startswith("labels")):
        assert all(sum(shares.values()) == pytest.approx(1.0) for shares in labels.values())
        assert labels["The name is Ada Lind."]["unlabeled"] == 1.0
    assert set(written[1]["contexts"][0]) == {"recipient", "task", "labels_combined"}
    assert written[0]["information_attributes"] == document()[0]["information_attributes"]
    assert "ada-lind: 2 unlabelled contexts left out" in report
    assert load_profiles(out).profiles[0].memories == profiles.profiles[0].memories


def test_export_reports_twins_that_are_labelled_differently(
    tmp_path: Path, profiles: Profiles
) -> None:
    rows = [("ada-lind", "c00", "twin", COMBINED, 1.0, 0.0)]
    report = export_labels(rows, profiles, tmp_path / "out.json")
    assert sum("'other_twin' shares its statement" in line for line in report) == 1
    rows.append(("ada-lind", "c00", "other_twin", COMBINED, 1.0, 0.0))
    report = export_labels(rows, profiles, tmp_path / "out.json")
    assert not any("shares its statement" in line for line in report)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_labels_survive_the_way_out_and_in(
    tmp_path: Path, profiles: Profiles, data: st.DataObject
) -> None:
    """Ten samples a persona, each listing an attribute once at most, as the released form has."""
    count = st.integers(0, 10).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, 10 - n)))
    pair = count.map(lambda both: (both[0] / 10, both[1] / 10))
    shares = st.fixed_dictionaries(dict.fromkeys(PERSONAS, pair))
    keys = sorted(set(STATEMENTS) - {"other_twin", "twin"})
    listed = data.draw(st.dictionaries(st.sampled_from(keys), shares, min_size=1))
    rows = [
        ("bo-roe", "c02", key, who, *found)
        for key, by_persona in listed.items()
        for who, found in by_persona.items()
    ]
    export_labels(rows, profiles, tmp_path / "labelled.json")
    import_labels(tmp_path / "labelled.json", profiles, tmp_path / "labels.jsonl")
    found = {
        (row[2], row[3]): row[4:] for row in load_labels(tmp_path / "labels.jsonl", profiles).rows
    }
    for _, _, key, who, necessary, inappropriate in rows:
        got = found.get((key, who), NONE)
        assert got == pytest.approx((necessary, inappropriate))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Follow\u2011up", "follow-up"),
        ("2020\u20132021 \u2014 or \u22125", "2020-2021 - or -5"),
        ("\u201cBo\u2019s\u201d", '"bo\'s"'),
        (" 5\u202fmg\u00a0a\tday\n", "5 mg a day"),
        ("soft\u00adhyphen", "softhyphen"),
        ("ﬁne ²", "fine 2"),
    ],
)
def test_what_normalising_folds(text: str, plain: str) -> None:
    assert normalised(text) == plain


def test_the_sample_labels_every_attribute_in_every_context_with_a_reason() -> None:
    profiles = load_profiles(SAMPLE / "profiles.json")
    labels = load_labels(SAMPLE / "labels.jsonl", profiles)
    everything = {
        (profile.id, context.id, memory.key)
        for profile in profiles.profiles
        for context in profiles.contexts
        for memory in profile.memories
    }
    assert {(line.profile, line.context, line.attribute) for line in labels.lines} == everything
    assert len(labels.lines) == len(everything) == 1360
    assert all(4 <= len(line.reason) <= 120 for line in labels.lines)
    assert len({line.reason for line in labels.lines}) > 450
    assert Counter(line.reason for line in labels.lines).most_common(1)[0][1] <= 40


def test_every_context_of_the_sample_has_enough_of_both() -> None:
    profiles = load_profiles(SAMPLE / "profiles.json")
    labels = load_labels(SAMPLE / "labels.jsonl", profiles)
    basic = {(p.id, m.key) for p in profiles.profiles for m in p.memories if m.basic}
    sets = Counter(
        (line.profile, line.context, decided(line.shares, WEIGHTS, 1.0))
        for line in labels.lines
        if (line.profile, line.attribute) not in basic
    )
    for profile, context in labels.labelled:
        necessary = sum(
            decided(line.shares, WEIGHTS, 1.0) == "necessary"
            for line in labels.lines
            if (line.profile, line.context) == (profile, context)
        )
        assert 3 <= necessary <= 10
        assert sets[profile, context, "inappropriate"] >= 10
    assert len(labels.labelled) == 32


def test_weights_matter_in_the_sample_below_threshold_one() -> None:
    profiles = load_profiles(SAMPLE / "profiles.json")
    lines = load_labels(SAMPLE / "labels.jsonl", profiles).lines
    even = dict.fromkeys(PERSONAS, 1 / 3)

    def counts(weights: Any, threshold: float) -> Counter[str]:
        return Counter(decided(line.shares, weights, threshold) for line in lines)

    assert counts(WEIGHTS, 1.0) == counts(even, 1.0)
    assert counts(WEIGHTS, 0.7) != counts(even, 0.7)
    assert counts(WEIGHTS, 0.7)["necessary"] > counts(WEIGHTS, 1.0)["necessary"] >= 150


def test_the_sample_survives_the_released_form(tmp_path: Path) -> None:
    profiles = load_profiles(SAMPLE / "profiles.json")
    labels = load_labels(SAMPLE / "labels.jsonl", profiles)
    export_labels(labels.rows, profiles, tmp_path / "labelled.json", labelled=labels.labelled)
    report = import_labels(tmp_path / "labelled.json", profiles, tmp_path / "labels.jsonl")
    again = load_labels(tmp_path / "labels.jsonl", profiles)
    wanted = {row for row in labels.rows if any(row[4:])}
    assert {row for row in again.rows if any(row[4:])} == wanted
    assert report == [f"32 contexts, 1226 labelled attributes written to {tmp_path}/labels.jsonl"]


@pytest.mark.skipif(not RELEASED.exists(), reason=f"the released file is not at {RELEASED}")
def test_labels_of_all_released_statements_find_their_attribute(tmp_path: Path) -> None:
    """Retyped in ASCII, no two statements of a profile fall together."""
    profiles = load_profiles(RELEASED)
    source = json.loads(RELEASED.read_bytes())
    for one in source:
        one["contexts"] = one["contexts"][:1]
        one["contexts"][0]["labels_combined"] = {
            normalised(found["memory_statement"]): released(1.0, 0.0)
            for found in one["information_attributes"].values()
        }
    report, lines = imported(tmp_path, source, profiles)
    assert len({(line.profile, line.attribute) for line in lines}) == 1467
    assert all("not in the file" in line or "written to" in line for line in report)
