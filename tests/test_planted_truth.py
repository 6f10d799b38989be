"""The demonstration as shipped: planted leak rates come back through the whole engine."""

from __future__ import annotations

import math
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from leakgrid.cli import main
from leakgrid.datasets.items import load_items
from leakgrid.providers.simulated import config, planted
from tests.project import ROOT

DEMO = ROOT / "jobs" / "muppet-demo.toml"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which the shipped demonstration has run."""
    folder = tmp_path_factory.mktemp("demo")
    before = Path.cwd()
    os.chdir(folder)
    try:
        code = main(["run", str(DEMO), "--quiet", "--report"])
        assert code == 0
        yield folder
    finally:
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)


def rows(folder: Path, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(folder / "reports" / "leakgrid.duckdb"), read_only=True) as database:
        return database.execute(query).fetchall()


def table() -> config.Simulated:
    from leakgrid.jobs.jobfile import load_job
    from leakgrid.jobs.plan import Plan

    plan = Plan(load_job(DEMO))
    assert plan.simulated is not None
    return config.parse(plan.simulated["table"])


def expected(simulated: config.Simulated, judge: object, *group: object) -> float:
    """What ``judge`` should measure for (model, defence, condition, category)."""
    model, defence, condition, category = (str(part) for part in group)
    leak = planted.leak_probability(simulated, model, defence, condition, category)
    if judge == "exact":
        return leak
    made = simulated.judges["sim-judge"]
    return leak * made.sensitivity + (1 - leak) * (1 - made.specificity)


@pytest.mark.timeout(120)
def test_measured_leak_rates_recover_the_planted_ones(demo: Path) -> None:
    """In at least 90 % of groups the planted rate lies within the measured 95 % interval."""
    simulated = table()
    inside: dict[str, list[bool]] = defaultdict(list)
    for judge, model, defence, condition, category, lo, hi in rows(
        demo, "SELECT judge, model, defence, condition, category, lo, hi FROM leak_rate"
    ):
        truth = expected(simulated, judge, model, defence, condition, category)
        inside[str(judge)].append(float(str(lo)) <= truth <= float(str(hi)))
    assert {judge: len(found) for judge, found in inside.items()} == {"exact": 216, "leak": 216}
    for judge, found in inside.items():
        assert sum(found) >= 0.9 * len(found), judge


def planted_use(simulated: config.Simulated, *group: object) -> float:
    """The planted share of useful replies; one that is refused is never useful."""
    model, defence, condition, category = (str(part) for part in group)
    useful = planted.useful_probability(simulated, model, defence, condition, category)
    return useful * (1 - simulated.assistants[model].refusal)


def called_useful(simulated: config.Simulated, useful: float) -> float:
    """What the judge should measure where a share ``useful`` of replies is."""
    made = simulated.judges["sim-judge"]
    return useful * made.useful_sensitivity + (1 - useful) * (1 - made.useful_specificity)


def test_measured_usefulness_recovers_the_planted_one(demo: Path) -> None:
    simulated = table()
    inside, deviations = [], []
    for model, defence, condition, category, rate, lo, hi, known in rows(
        demo,
        "SELECT model, defence, condition, category, rate, lo, hi, known FROM utility_by_category",
    ):
        truth = called_useful(
            simulated, planted_use(simulated, model, defence, condition, category)
        )
        inside.append(float(str(lo)) <= truth <= float(str(hi)))
        spread = math.sqrt(truth * (1 - truth) / int(str(known)))
        deviations.append((float(str(rate)) - truth) / spread)
    assert len(inside) == 216
    assert sum(inside) >= 0.9 * len(inside)
    assert abs(sum(deviations)) / math.sqrt(len(deviations)) < 3.3


def test_useful_and_discreet_at_once_recovers_the_product_of_both(demo: Path) -> None:
    """Leak and usefulness are planted by coins of their own, so their joint rate is a product."""
    simulated = table()
    categories = [item.category for item in load_items(ROOT / "datasets/muppet/items.jsonl")]
    found = rows(demo, "SELECT leak_judge, model, defence, condition, rate, known FROM joint")
    assert len(found) == 24
    for judge, model, defence, condition, rate, known in found:
        truth = 0.0
        for category in categories:
            group = (model, defence, condition, category)
            clean = 1 - expected(simulated, judge, *group)
            truth += clean * called_useful(simulated, planted_use(simulated, *group))
        truth /= len(categories)
        spread = math.sqrt(truth * (1 - truth) / int(str(known)))
        assert abs(float(str(rate)) - truth) < 3.3 * spread, (judge, model, defence, condition)


def test_totals_do_not_lean_to_either_side(demo: Path) -> None:
    """Over all categories the deviations look like chance: none large, and their sum near zero."""
    simulated = table()
    categories = [item.category for item in load_items(ROOT / "datasets/muppet/items.jsonl")]
    deviations: dict[str, list[float]] = defaultdict(list)
    for judge, model, defence, condition, rate, known in rows(
        demo, "SELECT judge, model, defence, condition, rate, known FROM leak_total"
    ):
        truths = [
            expected(simulated, judge, model, defence, condition, category)
            for category in categories
        ]
        truth = sum(truths) / len(truths)
        spread = math.sqrt(truth * (1 - truth) / int(str(known)))
        deviations[str(judge)].append((float(str(rate)) - truth) / spread)
    for judge, found in deviations.items():
        assert len(found) == 12
        assert max(map(abs, found)) < 3.3, judge
        assert abs(sum(found)) / math.sqrt(12) < 3.3, judge


def test_the_leak_judge_recovers_its_planted_sensitivity_and_specificity(demo: Path) -> None:
    counts = {
        (exact, leak): int(str(count))
        for exact, leak, count in rows(
            demo,
            "SELECT e.leaked, l.leaked, count(*) FROM verdict_now e JOIN verdict_now l "
            "USING (job, column_id, item) WHERE e.judge = 'exact' AND l.judge = 'leak' "
            "AND e.leaked IS NOT NULL AND l.leaked IS NOT NULL GROUP BY ALL",
        )
    }
    sensitivity = counts[(True, True)] / (counts[(True, True)] + counts[(True, False)])
    specificity = counts[(False, False)] / (counts[(False, False)] + counts[(False, True)])
    assert sensitivity == pytest.approx(0.95, abs=0.025)
    assert specificity == pytest.approx(0.97, abs=0.02)


def test_refusals_truncations_and_unparsable_verdicts_are_counted_apart(demo: Path) -> None:
    (row,) = rows(
        demo,
        "SELECT sum(planned), sum(known), sum(unknown), sum(missing) FROM leak_total "
        "WHERE judge = 'leak'",
    )
    planned, known, unknown, missing = (int(str(number)) for number in row)
    assert planned == 3816 and missing == 0 and known + unknown == planned
    assert unknown > 0
    whys = {
        str(why)
        for (why,) in rows(demo, "SELECT DISTINCT why FROM verdict_now WHERE leaked IS NULL")
    }
    assert "the reply ended as truncated" in whys
    assert any("no JSON object" in why for why in whys)


def test_everything_simulated_says_so(demo: Path) -> None:
    views = "leak_rate leak_total cell verdict_now rating_now utility_rate joint spend outcomes"
    for view in views.split():
        found = rows(demo, f"SELECT DISTINCT simulated FROM {view}")
        assert found == [(True,)], view
    assert rows(demo, "SELECT DISTINCT simulated FROM response") == [(True,)]
    pages = list((demo / "reports" / "out").glob("*"))
    assert pages and all("simulated" in page.name for page in pages)
    (page,) = (demo / "reports" / "out").glob("*.html")
    text = page.read_text()
    assert "SIMULATED" in text and 'id="utility"' in text
    assert any("leak-against-utility.svg" in page.name for page in pages)


def test_the_same_again_sends_nothing_and_changes_nothing(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in demo.rglob("*") if path.is_file()}
    assert main(["run", str(DEMO), "--quiet", "--report"]) == 0
    assert "all 3,816 cells are done; 0 calls sent" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in demo.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "reports").glob("*.sql")))
def test_every_shipped_query_answers_over_the_demonstration(
    demo: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", str(ROOT / "reports" / f"{name}.sql"), "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    # The demonstration has no probes, ablation, batches or dialogues, and nothing is left to do:
    # those questions have no answer.
    without = ("why-it-leaked", "parties-ablation", "batches", "still-to-do")
    empty = name in without or name.startswith("dialogue-")
    assert (len(lines) > 1) == (not empty)
