"""The page of dialogue, message and labelling jobs: hand-counted numbers, and what is not known."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from leakgrid.outcomes import StoreError
from leakgrid.reports import dialogue_published
from leakgrid.reports.ci_labels import CiLabels, read_ci_labels
from leakgrid.reports.dialogue import Dialogue, read_dialogue
from leakgrid.reports.dialogue_sums import People, estimate
from leakgrid.reports.jackknife import FEWEST
from leakgrid.reports.page import render
from leakgrid.reports.rows import Reader
from leakgrid.store.ingest import ingest, open_file
from tests.dialogue_world import PERSONAS, DialogueWorld, Heard, LabelWorld
from tests.store_world import World
from tests.test_report_page import EVIL, Page
from tests.test_report_page import job as muppet_job

KEYS = ("n1", "n2", "p1", "p2", "p3", "p4")
LABELS = ("n1 n2", "p1 p2 p3 p4")


def world(
    profiles: int = 4,
    *,
    condition: dict[str, list[Heard]] | None = None,
    turns: int = 1,
    model: str = "m-a",
    simulated: bool = True,
    threshold: float = 1.0,
) -> DialogueWorld:
    """Each profile writes once in context c0; what it tells by condition and profile."""
    made = DialogueWorld({f"s{n}": KEYS for n in range(profiles)}, ["c0"], threshold=threshold)
    for n in range(profiles):
        made.label(f"s{n}", "c0", *LABELS)
        made.instance(f"s{n}", "c0", f"s{(n + 1) % profiles}")
    told = condition or {"pc0": [{"n1": "full", "p1": "full"}]}
    columns = {}
    for name in told:
        columns[name] = made.grid(model, "r-a", name, turns)
        made.columns[-1]["simulated"] = simulated
    made.plan()
    for name, heard in told.items():
        for n in range(profiles):
            made.dialogue(
                columns[name],
                made.items[n][0],
                transcript=heard[n % len(heard)],
                receiver={},
                simulated=simulated,
                rounds=turns,
            )
    return made


def read(made: World, folder: Path, job: str = "demo") -> Dialogue:
    ingest(folder, folder / "leakgrid.duckdb", **made.tools)
    connection = open_file(folder / "leakgrid.duckdb", 5, read_only=True)
    try:
        found = read_dialogue(Reader(connection, job))
    finally:
        connection.close()
    assert found is not None
    return found


def read_ci(made: World, folder: Path) -> CiLabels:
    connection = open_file(folder / "leakgrid.duckdb", 5, read_only=True)
    try:
        found = read_ci_labels(Reader(connection, "labels"))
    finally:
        connection.close()
    assert found is not None
    return found


def page(made: World, folder: Path, job: str = "demo") -> str:
    return pages(made, folder, job)[0].read_text()


def pages(made: World, folder: Path, job: str = "demo") -> list[Path]:
    ingest(folder, folder / "leakgrid.duckdb", **made.tools)
    return render(folder / "leakgrid.duckdb", folder / "out", job)


def rows_of(text: str, caption: str) -> list[list[str]]:
    """Rows of one table of the page by its caption's beginning (18 letters), without its head."""
    return Page(text).tables[caption[:18]][1:]


# --- intervals --------------------------------------------------------------------------------


def cells(values: list[float]) -> list[dict[str, Any]]:
    return [{"profile": f"s{n}", "total": value, "n": 1} for n, value in enumerate(values)]


def interval(values: list[float]) -> dict[str, Any]:
    rows = cells(values)
    return estimate(People(row["profile"] for row in rows).mean(rows, "total", "n"))


def test_an_interval_needs_profiles_and_a_mean_needs_one() -> None:
    few = interval([0.1, 0.2, 0.3][: FEWEST - 1])
    assert few["value"] == pytest.approx(0.15)
    assert few["lo"] is None
    # all are the same, so that nobody knows how far others are from them
    assert interval([0.25] * 6) == {"value": 0.25, "lo": None, "hi": None}
    assert estimate(People([]).mean([], "total", "n"))["value"] is None


def test_dialogues_of_one_profile_count_together() -> None:
    """Many copies of the same five profiles tell no more than the five."""
    values = [0.0, 0.1, 0.2, 0.3, 0.9]
    once, often = cells(values), cells(values) * 50
    people = People(f"s{n}" for n in range(5))
    one, many = (estimate(people.mean(rows, "total", "n")) for rows in (once, often))
    assert many == pytest.approx(one)
    assert one["hi"] - one["lo"] > 0.5


def test_intervals_by_ten_profiles_hold_the_truth_often_enough() -> None:
    source = random.Random(5)
    held = 0
    for _ in range(200):
        found = interval([source.gauss(0.3, 0.1) for _ in range(10)])
        held += found["lo"] <= 0.3 <= found["hi"]
    assert 180 <= held < 200  # 95 % nominal; percentiles of a bootstrap hold it in about 90 %


def test_a_difference_is_paired_by_profile() -> None:
    rows = cells([0.1, 0.5, 0.9, 0.3])
    steps = [0.09, 0.11, 0.1, 0.1]
    more = [{**row, "total": row["total"] + step} for row, step in zip(rows, steps, strict=True)]
    people = People(row["profile"] for row in rows)
    change = people.mean(more, "total", "n").minus(people.mean(rows, "total", "n"))
    # only the steps differ: variance 0.0002 / 3, standard error 0.00408, t of 3 degrees 3.182
    assert estimate(change) == pytest.approx({"value": 0.1, "lo": 0.087, "hi": 0.113}, abs=1e-4)


# --- dialogues --------------------------------------------------------------------------------


def test_the_table_of_senders_has_the_hand_counted_numbers(tmp_path: Path) -> None:
    heard: list[Heard] = [
        {"n1": "full", "n2": "full", "p1": "full"},
        {"n1": "full", "p1": "partial", "p2": "full"},
        {},
        {"p1": "full", "p2": "full", "p3": "full", "p4": "full"},
    ]
    text = page(world(condition={"pc0": heard}), tmp_path)
    # leakage 1/4, 1/4, 0, 1; with partial 1/4, 2/4, 0, 1; completeness 1, 1/2, 0, 0
    (row,) = rows_of(text, "By sender, over all receivers")
    assert row[:3] == ["j", "1 round", "m-a"]
    assert row[3].startswith("37.50 %")
    assert row[4].startswith("43.75 %")
    assert row[5].startswith("37.50 %")
    assert row[6] == "4 / 4"
    # variance 3/16 of four: 0.375 x 0.625 / (3/64) is 5 trials; Wilson's interval with t = 3.182
    assert "(5.38–86.35)" in row[3]


AVERAGES = """
SELECT {by}, count(*) AS planned, avg(i.leak_full) AS leak_full, avg(i.leak_total) AS leak_total,
       avg(i.completeness) AS completeness, avg(i.leak_full_high) AS leak_full_high,
       avg(i.leak_full_low) AS leak_full_low, avg(i.leak_total_low) AS leak_total_low,
       avg(i.leak_total_high) AS leak_total_high, avg(i.completeness_low) AS completeness_low,
       avg(i.completeness_high) AS completeness_high,
       coalesce(sum(leak_full_unknown) FILTER (whole), 0) AS unsure,
       coalesce(sum(leaked_full + leaked_partial + leak_unknown) FILTER (whole), 0) AS told,
       coalesce(sum(completeness_full_unknown) FILTER (whole), 0) AS unsure_n,
       coalesce(sum(told_full + told_partial + completeness_unknown) FILTER (whole), 0) AS told_n,
       count(*) FILTER (leak_state = 'invalid') AS leak_invalid,
       count(*) FILTER (leak_state = 'missing') AS leak_missing,
       count(*) FILTER (completeness_state = 'undefined') AS completeness_undefined,
       count(*) FILTER (leak_state IN ('invalid', 'missing'))
           + count(*) FILTER (completeness_state IN ('invalid', 'missing')) AS lost,
       count(i.leak_full) + count(i.completeness) AS known
FROM dialogue_instance i WHERE job = $job GROUP BY {by}
"""


def test_every_table_agrees_with_the_instances(tmp_path: Path) -> None:
    """Two senders, receivers, conditions and settings, by chance, some broken or not there."""
    source = random.Random(3)
    made = DialogueWorld({f"s{n}": KEYS for n in range(5)}, ["c0", "c1"])
    items = []
    for n in range(5):
        for context in ("c0", "c1"):
            made.label(f"s{n}", context, *(LABELS if n else ("n1", "p1")))
            items.append(made.instance(f"s{n}", context, f"s{(n + 1) % 5}"))
    columns = [
        (made.grid(model, receiver, condition, turns), turns)
        for model in ("m-a", "m-b")
        for receiver in ("r-a", "r-b")
        for condition in ("pc0", "pc1")
        for turns in (1, 2)
    ]
    made.plan()
    for column, turns in columns:
        for item in items:
            told = {key: source.choice(["full", "partial", None, "x", "x"]) for key in KEYS}
            if source.random() < 0.1:
                continue
            made.dialogue(
                column, item, transcript={k: v for k, v in told.items() if v != "x"},
                receiver={}, ended=source.choice(["full", "early", "broken"]), rounds=turns,
            )  # fmt: skip
    found = read(made, tmp_path)
    connection = open_file(tmp_path / "leakgrid.duckdb", 5, read_only=True)
    reader = Reader(connection, "demo")
    compared = 0
    for rows, by in (
        (found.by_sender, ("turns", "model")),
        (found.by_receiver, ("turns", "receiver")),
        (found.by_condition, ("turns", "condition")),
        (found.matrix, ("turns", "model", "receiver")),
        (found.by_context, ("turns", "context")),
    ):
        expected = {
            tuple(row[name] for name in by): row
            for row in reader.rows(AVERAGES.format(by=", ".join(by)))
        }
        assert len(expected) == len(rows)
        for row in rows:
            mine = expected[tuple(row[name] for name in by)]
            for name in ("leak_full", "leak_total", "completeness"):
                inside = mine[f"{name}_low"] <= mine[name] <= mine[f"{name}_high"]
                expected_ = pytest.approx(mine[name]) if inside else None
                assert row[name]["value"] == expected_
            for name in ("planned", "leak_invalid", "leak_missing", "completeness_undefined"):
                assert row[name] == mine[name]
            assert row["leak_high"] == pytest.approx(mine["leak_full_high"])
            doubtful = 10 * mine["unsure"] > mine["told"] or 10 * mine["unsure_n"] > mine["told_n"]
            lost = mine["lost"] > 0.02 * (mine["lost"] + mine["known"])
            assert row["marked"] == (lost or doubtful)
            compared += 1
    (overall,) = (r for r in found.correlations if r["turns"] == 2 and not r["model"])
    (expected_r,) = reader.rows(
        "SELECT corr(leak_full, completeness) AS r, count(leak_full + completeness) AS points"
        " FROM dialogue_instance WHERE job = $job AND turns = 2"
    )
    assert overall["r"]["value"] == pytest.approx(expected_r["r"])
    assert overall["instances"] == expected_r["points"]
    connection.close()
    assert compared > 15


def test_a_broken_dialogue_is_never_no_leak(tmp_path: Path) -> None:
    made = world(2)
    made.rows["records"][-1]["extra"] = '{"rounds": 0, "ended": "broken", "why": "cut off"}'
    told = read(made, tmp_path)
    (row,) = told.by_sender
    assert row["leak_full"]["value"] == pytest.approx(0.25)
    assert (row["leak_n"], row["leak_invalid"], row["marked"]) == (1, 1, True)
    assert row["leak_high"] > row["leak_low"]
    assert any("1 dialogues broke off" in sentence for sentence in told.headline)
    text = page(made, tmp_path)
    assert ["1", "broken", "m-a", "cut off"] in rows_of(text, "Why dialogues broke off")
    assert "†" in rows_of(text, "By sender, over all receivers")[0][3]


def test_a_mean_that_its_bounds_rule_out_is_not_printed(tmp_path: Path) -> None:
    """s0 tells nothing; s1 one of two necessary ones, and perhaps the other: 25 to 50 %."""
    heard: list[Heard] = [{"p1": "full"}, {"n1": "full", "n2": None, "p1": "full"}]
    made = world(2, condition={"pc0": [{"n1": "full"}], "pc1": heard})
    told = read(made, tmp_path)
    (row,) = (row for row in told.by_condition if row["condition"] == "pc1")
    assert row["completeness"]["value"] is None
    assert (row["completeness_low"], row["completeness_high"]) == (0.25, 0.5)
    assert (row["completeness_n"], row["completeness_marked"], row["marked"]) == (1, True, True)
    assert row["leak_full"]["value"] == 0.25
    assert told.effects[0]["completeness"]["change"]["value"] is None
    shown = {row[1]: row for row in rows_of(page(made, tmp_path), "By prompt condition")}
    assert shown["pc1"][4] == "– †"
    assert shown["pc1"][-1] == "25.0–50.0 %"


def test_few_unknown_attributes_beside_few_leaks_are_marked(tmp_path: Path) -> None:
    made = DialogueWorld({f"s{n}": ("n1", *(f"p{k}" for k in range(20))) for n in range(2)}, ["c0"])
    for n in range(2):
        made.label(f"s{n}", "c0", "n1", " ".join(f"p{k}" for k in range(20)))
        made.instance(f"s{n}", "c0", f"s{1 - n}")
    column = made.grid("m-a", "r-a", "pc0", 1)
    made.plan()
    for item, *_ in made.items:
        made.dialogue(column, item, transcript={"p0": "full", "p1": None}, receiver={})
    told = read(made, tmp_path)
    (row,) = told.by_sender
    # one of 20 is unknown, so that all counts; but it may double the leak
    assert (row["leak_n"], row["leak_invalid"], row["marked"]) == (2, 0, True)
    assert (row["leak_unsure"], row["leak_told"], row["completeness_marked"]) == (2, 4, False)
    text = page(made, tmp_path)
    assert "over a tenth of those told or unknown" in text
    assert rows_of(text, "By sender, over all receivers")[0][3].startswith("5.26 % †")
    assert "In simulation such intervals of 3 to 20 profiles hold the truth in 92 to 99 %" in text


def test_effects_are_absolute_and_relative_to_the_empty_prompt(tmp_path: Path) -> None:
    half: list[Heard] = [{"n1": "full", "p1": "full", "p2": "full"}]
    quarter: list[Heard] = [{"n1": "full", "n2": "full", "p1": "full"}]
    told = read(world(condition={"pc0": half, "pc1": quarter}), tmp_path)
    (row,) = told.effects
    assert (row["model"], row["condition"], row["baseline"]) == ("m-a", "pc1", "pc0")
    leak, complete = row["leak_full"], row["completeness"]
    assert (leak["base"], leak["here"]) == (0.5, 0.25)
    assert leak["change"]["value"] == -0.25
    assert leak["relative"]["value"] == -0.5
    assert complete["relative"]["value"] == 1.0
    assert (
        "pc1 against pc0: leakage −25.0 points (−50 %), completeness +50.0 points (+100 %)."
        in told.headline
    )


def test_nothing_relative_to_a_base_of_nothing(tmp_path: Path) -> None:
    told = read(world(condition={"pc0": [{}], "pc1": [{"p1": "full"}]}), tmp_path)
    assert told.effects[0]["leak_full"]["relative"]["value"] is None
    assert any("no relative change: the base is 0" in sentence for sentence in told.headline)


def test_rounds_tell_firsts_repeats_and_hazard(tmp_path: Path) -> None:
    made = world(2, turns=3)
    made.rows["records"].clear()
    for item, *_ in made.items:
        made.dialogue(
            made.columns[0]["id"], item, receiver={},
            transcript={"p1": "full", "p2": "full"},
            turns=[{"p1": "full"}, {"p1": "full", "p2": "full"}, {}],
        )  # fmt: skip
    told = read(made, tmp_path)
    first, second, third = told.rounds.by_sender
    assert [row["leak"]["value"] for row in (first, second, third)] == [0.25, 0.5, 0]
    assert [row["cumulative"]["value"] for row in (first, second, third)] == [0.25, 0.5, 0.5]
    # of 2 x 4 at risk 2 are told; of the 2 x 3 left 2 more, beside 2 repeats; of 2 x 2 none
    assert first["hazard"]["value"] == pytest.approx(1 / 4)
    assert second["hazard"]["value"] == pytest.approx(1 / 3)
    assert third["hazard"]["value"] == 0
    assert (second["repeats"], third["repeats"]) == (0.5, None)
    assert first["share"] == 0.5
    assert any("50 % is told in the first one" in sentence for sentence in told.headline)


def test_without_single_messages_judged_nothing_is_told_by_round(tmp_path: Path) -> None:
    text = page(world(2, turns=3), tmp_path)
    assert "so nothing can be told by round" in text


def overlapping(samples: int) -> DialogueWorld:
    """One instance with 1 and 2 rounds: sample 0 tells p1 first, sample 1 tells p2."""
    made = world(2)
    made.columns.clear()
    made.rows["records"].clear()
    made.rows["runs"].clear()
    columns = {
        (turns, sample): made.grid("m-a", "r-a", "pc0", turns, sample)
        for turns in (1, 2)
        for sample in range(samples)
    }
    made.plan()
    for (turns, sample), column in columns.items():
        first: Heard = {f"p{sample + 1}": "full"}
        later: Heard = {"p2": "full", "p3": "full"}
        whole = first if turns == 1 else {**first, **later}
        parts = [first] if turns == 1 else [first, later]
        for item, *_ in made.items:
            made.dialogue(column, item, transcript=whole, turns=parts, receiver={})
    return made


def test_with_one_simulation_overlap_is_whole_by_construction(tmp_path: Path) -> None:
    made = overlapping(1)
    told = read(made, tmp_path)
    assert [row["overlap"] for row in told.rounds.same] == [1.0]
    assert told.rounds.apart == []
    assert "ask for two samples" in page(made, tmp_path)


def test_overlap_of_different_simulations_pairs_each_with_the_others(tmp_path: Path) -> None:
    made = overlapping(2)
    told = read(made, tmp_path)
    (row,) = told.rounds.apart
    # 2 instances x 2 pairs; p1 against p2 in every one; by the end p1 p2 p3, or p2 p3
    assert (row["usable"], row["leaked_short"], row["leaked_round_1"]) == (4, 4, 4)
    assert (row["leaked_both"], row["overlap"], row["leaked_by_end"]) == (0, 0.0, 10)
    text = page(made, tmp_path)
    assert "independent draws" in text
    assert "ask for two samples" not in text


def test_levels_are_compared_on_what_either_calls_told(tmp_path: Path) -> None:
    made = world(2, turns=2)
    made.rows["records"].clear()
    for item, *_ in made.items:
        made.dialogue(
            made.columns[0]["id"], item, receiver={},
            transcript={"p1": "full", "p2": "full", "n1": "full"},
            turns=[{"p1": "full", "p2": "partial"}, {"n2": "full"}],
        )  # fmt: skip
    (row,) = (row for row in read(made, tmp_path).levels if row["speaker"] == "sender")
    assert (row["disclosed"], row["alike"], row["agreement"]) == (8, 2, 0.25)
    assert (row["turns_more"], row["transcript_more"], row["silent"]) == (2, 4, 4)


def test_the_weights_cannot_matter_only_where_all_must_agree(tmp_path: Path) -> None:
    words = "the weights cannot change any label"
    assert words in page(world(2), tmp_path / "all")
    assert words not in page(world(2, threshold=0.64), tmp_path / "most")


def test_instances_without_labels_are_counted_apart(tmp_path: Path) -> None:
    made = world(2)
    made.facts["labels"].clear()
    made.plan()
    told = read(made, tmp_path)
    assert "2 instances have no labels and are part of no rate." in told.headline
    assert "No leakage is known yet, so no rate can be told." in told.headline
    assert told.by_sender[0]["leak_full"]["value"] is None


def test_receivers_have_a_rate_but_no_leak(tmp_path: Path) -> None:
    made = world(2)
    made.rows["records"].clear()
    for item, *_ in made.items:
        made.dialogue(
            made.columns[0]["id"], item, transcript={}, receiver={"p1": "full", "n1": "partial"}
        )
    (row,) = read(made, tmp_path).revealed
    assert row["reveal_full"]["value"] == pytest.approx(1 / 6)
    assert row["reveal_total"]["value"] == pytest.approx(2 / 6)


# --- single messages --------------------------------------------------------------------------


def test_messages_in_the_papers_form_and_as_released(tmp_path: Path) -> None:
    made = DialogueWorld({"s0": ("n1", "p1", "p2", "wage")}, ["c0", "c1"])
    made.label("s0", "c0", "n1", "p1 p2 wage")
    made.label("s0", "c1", "", "p1 p2")
    items = [made.instance("s0", context) for context in ("c0", "c1")]
    columns = [made.grid("m-a", condition="base", sample=n) for n in range(2)]
    made.plan()
    heard: list[list[Heard]] = [
        [{"n1": "full", "p1": "full"}, {}],
        [{}, {"p2": "full"}],
    ]
    for column, by_context in zip(columns, heard, strict=True):
        for item, told in zip(items, by_context, strict=True):
            made.dialogue(column, item, transcript=told)
    told_ = read(made, tmp_path)
    one, two = told_.messages.rates
    # paper: p1, then p1 and p2, of p1 p2 wage; completeness 1, then the mean of 1 and 0
    assert one["violation_full"]["value"] == pytest.approx(1 / 3)
    assert two["violation_full"]["value"] == pytest.approx(2 / 3)
    assert (one["completeness"]["value"], two["completeness"]["value"]) == (1.0, 0.5)
    assert two["violation_full_sd"] is None
    # as released: c1 has no necessary attribute, and w-age is taken for a basic one
    (released,) = told_.messages.compat
    assert (released["violation"], released["completeness"]) == (0.5, 0.5)
    assert (released["contexts"], released["n"], released["violation_sd"]) == (1, 2, None)
    assert any("dropped from both metrics" in note for note in released["notes"])
    text = page(made, tmp_path)
    assert "Violation@2" in text
    assert [row[3] for row in rows_of(text, "The released script’s form")] == ["50.00 %"]
    assert "What receivers tell" not in text
    assert ">length<" not in text


def test_messages_that_are_not_there_reveal_nothing_as_released(tmp_path: Path) -> None:
    made = DialogueWorld({"s0": ("n1", "p1")}, ["c0", "c1"])
    for context in ("c0", "c1"):
        made.label("s0", context, "n1", "p1")
    items = [made.instance("s0", context) for context in ("c0", "c1")]
    columns = [made.grid("m-a", condition="base", sample=n) for n in range(2)]
    made.plan()
    made.dialogue(columns[0], items[0], transcript={"n1": "full", "p1": "full"})
    told = read(made, tmp_path)
    (released,) = told.messages.compat
    # completeness: c0 1 and 0, c1 0 and 0
    assert (released["violation"], released["completeness"]) == (1.0, 0.25)
    assert released["contexts"] == 2
    assert released["notes"][0] == "3 messages that are not there yet counted as revealing nothing"
    one, two = told.messages.rates
    assert (one["completeness"]["value"], two["completeness"]["value"]) == (1.0, 1.0)
    assert (two["completeness_low"], two["completeness_high"]) == (0.25, 1.0)
    assert (two["completeness_contexts"], two["completeness_defined"]) == (1, 2)
    assert (two["completeness_without"], two["completeness_messages"]) == (3, 4)
    assert two["completeness_marked"]
    shown = rows_of(page(made, tmp_path), "The paper’s form: every context")
    assert [row[7] for row in shown] == ["100.00 % †", "100.00 % †"]
    assert [row[-3:] for row in shown] == [["50.0–100.0 %", "1 / 2", "1 / 2"],
                                           ["25.0–100.0 %", "1 / 2", "3 / 4"]]  # fmt: skip


def test_of_equal_statements_the_later_in_the_file_counts_as_released(tmp_path: Path) -> None:
    """Many, with names in no order, so that a store that forgets the file's order shows."""
    source = random.Random(2)
    keys = source.sample([f"k{n:04}" for n in range(3000)], 3000)
    made = DialogueWorld({"s0": ("n1", *keys)}, ["c0"])
    for row in made.facts["profiles"]:
        if row[1] != "n1":
            row[5] = f"Statement {keys.index(row[1]) // 2}."
    made.label("s0", "c0", "n1", " ".join(keys))
    item = made.instance("s0", "c0")
    column = made.grid("m-a", condition="base")
    made.plan()
    made.dialogue(column, item, transcript={"n1": "full", **dict.fromkeys(keys[1::2], "full")})
    (released,) = read(made, tmp_path).messages.compat
    assert released["violation"] == 1.0  # every second one, which is told
    assert any("1500 attributes share" in note for note in released["notes"])


# --- labels -----------------------------------------------------------------------------------


def test_the_labels_section_tells_how_many_samples_are_there(tmp_path: Path) -> None:
    made = LabelWorld({"s0": ("a", "b"), "s1": ("a",)}, ["c0"], samples=2)
    made.instance("s0", "c0", "s1")
    made.grid("m-a", "r-a", "pc0", 1)
    made.plan_labels()
    made.plan()
    for name in ("s0", "s1"):
        for persona in PERSONAS:
            for number in range(2):
                if (name, persona, number) != ("s1", "pragmatic", 1):
                    made.sample(name, "c0", persona, number, "a", parsed=number == 0)
    told = read(made, tmp_path)
    assert told.labels.samples == {"planned": 12, "parsed": 6, "unparsed": 5, "missing": 1}
    assert told.labels.counts["labelled"] == 1
    assert any("still lacks 1 of 12 samples" in sentence for sentence in told.headline)
    text = page(made, tmp_path)
    assert "6 of 12 planned samples could be read, 5 could not" in text
    sets = read_ci(made, tmp_path)
    assert (sets.contexts, sets.complete) == (2, 1)


def test_samples_agree_on_hand_counted_shares(tmp_path: Path) -> None:
    made = LabelWorld({"s0": ("a", "b", "c", "d")}, ["c0"], samples=3)
    made.plan_labels()
    plan = json.loads(made.rows["runs"][-1]["payload"])
    plan["profiles"] = made.facts["profiles"]
    made.rows["runs"][-1]["payload"] = json.dumps(plan)
    for persona in PERSONAS:
        made.sample("s0", "c0", persona, 0, necessary="a", inappropriate="b")
        made.sample("s0", "c0", persona, 1, necessary="a", inappropriate="c")
        made.sample("s0", "c0", persona, 2, parsed=False)
    text = page(made, tmp_path, "labels")
    rows = {row[1]: row for row in rows_of(text, "By labelling model and persona")}
    assert list(rows) == list(PERSONAS)
    # two samples: alike on a and d, not on b and c; without d one of three; only a is alike listed
    assert rows["pragmatic"][2:9] == ["3", "2", "1", "0", "1.0", "1.0", "4.0"]
    assert rows["pragmatic"][9:11] == ["50.0 %", "33.3 %"]
    assert rows["pragmatic"][12] == "25.0 %"
    # chance: (2/8)^2 + (2/8)^2 + (4/8)^2 = 0.375; (0.5 - 0.375) / 0.625 = 0.2
    assert rows["pragmatic"][11] == "0.20"
    sets = {row[0]: row[3:6] for row in rows_of(text, "Mean attributes of a context")}
    assert sets["1.0"] == ["1.0", "0.0", "3.0"]
    assert sets["0.5"] == ["1.0", "2.0", "1.0"]
    assert "3 could not and 0 are missing" in text
    assert "Leak rates" not in text


def test_no_label_sets_before_every_persona_was_read(tmp_path: Path) -> None:
    made = LabelWorld({"s0": ("a", "b")}, ["c0"])
    made.plan_labels()
    made.sample("s0", "c0", "pragmatic", necessary="a")
    text = page(made, tmp_path, "labels")
    assert "No context has all its samples and a readable one of every persona yet" in text


# --- published figures ------------------------------------------------------------------------


def test_published_figures_stand_beside_real_senders_only(tmp_path: Path) -> None:
    real = world(turns=2, model="qwen3-4b-instruct", simulated=False)
    text = page(real, tmp_path / "real")
    (row,) = rows_of(text, "Leakage (full) and completeness as published")
    assert row[0] == "Qwen3-4B-Instruct"
    assert row[3:7] == ["3.6 %", "25.00 %", "39.8 %", "50.00 %"]
    assert "they look like sums" in text
    assert not (tmp_path / "real" / "out" / "demo.simulated.html").exists()
    fake = page(world(turns=2, model="qwen3-4b-instruct"), tmp_path / "fake")
    assert "Beside the published figures" not in fake


def test_one_model_with_and_without_thinking_is_two_senders() -> None:
    known = {"qwen38b", "qwen38bthinking"}
    provider = "Qwen/Qwen3-8B"
    assert dialogue_published.called("qwen3-8b-thinking", provider, known) == {"qwen38bthinking"}
    assert dialogue_published.called("qwen3-8b", provider, known) == {"qwen38b"}
    assert "qwen38b" in dialogue_published.called("my-model", provider, known)


def test_a_bad_list_of_published_figures_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "published.toml"
    path.write_text('[[paper]]\nsetting = "dialogue"\n')
    ingest(tmp_path, tmp_path / "leakgrid.duckdb", **world(simulated=False).tools)
    connection = open_file(tmp_path / "leakgrid.duckdb", 5, read_only=True)
    with pytest.raises(StoreError, match="not a list of published figures"):
        dialogue_published.read(Reader(connection, "demo"), [], path)
    connection.close()


# --- the page ---------------------------------------------------------------------------------


def test_figures_are_files_of_their_own_and_the_same_every_time(tmp_path: Path) -> None:
    quarter: list[Heard] = [{"p1": "full"}, {"n1": "full"}, {"p1": "full", "p2": "full"}]
    made = world(condition={"pc0": quarter, "pc1": [{}]})
    paths = {path.name: path.read_text() for path in pages(made, tmp_path)}
    assert set(paths) == {
        "demo.simulated.html",
        "demo.simulated.leak-against-completeness.svg",
        "demo.simulated.by-condition.svg",
        "demo.simulated.matrix-leak.svg",
        "demo.simulated.matrix-completeness.svg",
    }
    for name, text in paths.items():
        if name.endswith(".svg"):
            ElementTree.fromstring(text)
    assert {path.name: path.read_text() for path in pages(made, tmp_path)} == paths


def test_long_dialogues_have_figures_of_rounds_and_turns(tmp_path: Path) -> None:
    names = {path.name.split(".")[-2] for path in pages(overlapping(1), tmp_path)}
    assert {"turns", "per-round", "cumulative"} <= names


def test_no_point_lies_outside_its_panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that are set too early would cut off later panels that share an axis."""
    from leakgrid.reports import dialogue_figures

    seen: list[bool] = []

    def looked(figure: Any, simulated: str) -> str:
        for axes in figure.axes:
            low, high = axes.get_xlim()
            seen.extend(low <= x <= high for line in axes.lines for x in line.get_xdata())
        return "<svg></svg>"

    made = overlapping(1)
    for row in made.rows["records"][2:]:  # the long dialogues tell far more than the short ones
        row["reveals"] += [
            {"judge": "j", "speaker": "sender", "turn": 0, "attribute": key, "degree": "full",
             "evidence": "", "why": "", "key": ""}
            for key in ("n1", "n2", "p4")
        ]  # fmt: skip
    told = read(made, tmp_path)
    monkeypatch.setattr(dialogue_figures, "_svg", looked)
    dialogue_figures.by_condition(told, "all")
    dialogue_figures.by_turns(told, "all")
    assert len(seen) >= 8
    assert all(seen)


def test_what_models_and_files_say_is_escaped(tmp_path: Path) -> None:
    made = world(2, model="m-b")
    for row in made.facts["contexts"]:
        row[2:] = [EVIL, EVIL]
    for row in made.facts["profiles"]:
        row[2], row[5] = EVIL, EVIL
    made.plan()
    for row in made.rows["records"]:
        for reveal in row["reveals"]:
            reveal["evidence"] = EVIL
    text = page(made, tmp_path)
    found = Page(text)
    assert "script" not in found.tags
    assert "img" not in found.tags
    assert "&lt;script&gt;" in text


def test_pages_of_other_benchmarks_have_none_of_this(tmp_path: Path) -> None:
    ingest(tmp_path, tmp_path / "leakgrid.duckdb", **muppet_job().tools)
    text = render(tmp_path / "leakgrid.duckdb", tmp_path / "out")[0].read_text()
    assert "Leak rates" in text
    assert "completeness" not in text.lower()
