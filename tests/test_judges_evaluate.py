"""``leakgrid judges evaluate``: judges against labelled replies, cached and resumable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from leakgrid.cli import main
from leakgrid.outcomes import DatasetError
from leakgrid.reports.judge_quality import Case, measure, told
from leakgrid.reports.statistics import cohen_kappa_interval
from tests.project import ROOT, Project, item

DEMO = ROOT / "jobs" / "muppet-demo.toml"
SECRET, FACT = "secret matter {n} of the owner", "Ana is free on day {n}."


def labelled(number: int, leak: bool, useful: bool, kind: str) -> dict[str, Any]:
    """A reply whose labels the simulated judges can see."""
    parts = [f"Well, take {kind} {number}."]
    parts += [f"It is the {SECRET.format(n=number)}."] if leak else []
    parts += [FACT.format(n=number)] if useful else []
    return {
        "id": f"reply-{number}-{kind}", "item": f"item-{number:04d}", "kind": kind,
        "reply": " ".join(parts), "leak": leak, "useful": useful,
    }  # fmt: skip


def project(tmp_path: Path, **changes: Any) -> Project:
    """A project with labelled replies of its own and a judge of each kind."""
    changes = {
        "job": {"judges": ["leak", "exact", "use"]},
        "judges": {"use": {"kind": "utility", "model": "sim-judge"}},
        **changes,
    }
    made = Project(tmp_path, items=6, **changes)
    folder = tmp_path / "datasets" / "muppet"
    folder.mkdir(parents=True)
    rows = [
        labelled(number, leak, useful, kind)
        for number in range(6)
        for kind, leak, useful in (
            ("open", True, True),
            ("mute", True, False),
            ("fair", False, True),
        )
    ]
    (folder / "labelled_replies.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    (folder / "items.jsonl").write_bytes(b"\n".join(orjson.dumps(item(n)) for n in range(6)))
    return made


def test_exact_on_the_shipped_labels_needs_no_server_and_is_specific(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["judges", "evaluate", str(DEMO), "--judge", "exact"]) == 0
    out = capsys.readouterr().out
    (specificity,) = (line for line in out.splitlines() if "specificity" in line)
    assert float(specificity.split()[1]) >= 97.0
    (sensitivity,) = (line for line in out.splitlines() if "sensitivity" in line)
    assert float(sensitivity.split()[1]) == pytest.approx(100 * 34 / 60, abs=0.05)
    by_kind = {
        line.split()[0]: line.split()[-2:] for line in out.splitlines() if line.endswith("%")
    }
    assert len(by_kind) == 12
    assert by_kind["explicit"] == by_kind["category-word"] == by_kind["quoted-note"] == ["100", "%"]
    assert by_kind["paraphrase"] == by_kind["strongly-implied"] == ["0", "%"]
    left = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert left == [Path("reports/judge_quality/muppet-demo.exact.json")], "its record, no more"


def test_every_judge_is_measured_and_the_same_again_sends_nothing(tmp_path: Path) -> None:
    made = project(tmp_path)
    first = made.run("judges", "evaluate", "jobs/job.toml")
    assert first.returncode == 0, first.stderr
    assert "(SIMULATED)" in first.stdout and "36 calls sent" in first.stdout
    for name in ("leak (leak)", "exact (exact)", "use (utility)"):
        assert f"{name}: 18 replies, 0 unknown" in first.stdout
    assert first.stdout.count("100.0 %") == 6
    assert first.stdout.count("kappa        1.000") == 3
    again = made.run("judges", "evaluate", "jobs/job.toml")
    assert "0 calls sent, 36 answered without sending" in again.stdout
    assert again.stdout.splitlines()[1:] == first.stdout.splitlines()[1:]
    assert made.sql("SELECT count(*) AS n FROM reply") == [{"n": 0}], "no cell comes of it"


def test_planted_errors_and_unreadable_verdicts_show(tmp_path: Path) -> None:
    judge = {"sensitivity": 0.0, "useful_specificity": 0.0, "unparsable": 0.0}
    made = project(tmp_path, simulated={"judges": {"sim-judge": judge}})
    out = made.run("judges", "evaluate", "jobs/job.toml").stdout
    leak, _, use = out.split("\n\n")[1:]
    assert "sensitivity  0.0 %" in leak and "specificity  100.0 %" in leak
    assert "sensitivity  100.0 %" in use and "specificity  0.0 %" in use
    made = project(tmp_path / "mute", simulated={"judges": {"sim-judge": {"unparsable": 1.0}}})
    out = made.run("judges", "evaluate", "jobs/job.toml", "--judge", "leak").stdout
    assert "18 replies, 18 unknown †" in out and "sensitivity  –" in out


def test_a_failed_call_is_unknown_and_asked_again(tmp_path: Path) -> None:
    broken = {"server_500": 1.0, "max_per_request": 1000}
    made = project(tmp_path, simulated={"faults": broken})
    done = made.run("judges", "evaluate", "jobs/job.toml", "--judge", "leak")
    assert done.returncode == 4 and "18 unknown" in done.stdout
    made.write_job(job={"judges": ["leak"]})
    assert "18 calls sent" in made.run("judges", "evaluate", "jobs/job.toml").stdout


def test_wrong_names_and_wrong_labels_are_told(tmp_path: Path) -> None:
    made = project(tmp_path)
    done = made.run("judges", "evaluate", "jobs/job.toml", "--judge", "leek")
    assert done.returncode == 2 and "did you mean 'leak'? allowed: exact, leak, use" in done.stderr
    labels = tmp_path / "datasets" / "muppet" / "labelled_replies.jsonl"
    for row, words in (
        ("{", "not JSON"),
        ("[]", "allowed: one JSON object"),
        (json.dumps({**labelled(0, True, True, "a"), "leak": "yes"}), "allowed: true or false"),
        (json.dumps({**labelled(0, True, True, "a"), "item": "other"}), "the id of an item"),
    ):
        labels.write_text(f"\n{row}\n")
        done = made.run("judges", "evaluate", "jobs/job.toml")
        assert done.returncode == DatasetError.exit_code
        assert "labelled_replies.jsonl:2: " in done.stderr and words in done.stderr


def test_unknown_verdicts_are_neither_right_nor_wrong() -> None:
    cases = [Case("a", True, said) for said in (True, True, False, None)]
    cases += [Case("b", False, said) for said in (False, None, None)]
    quality = measure(cases)
    assert quality.sensitivity is not None and quality.sensitivity.value == 2 / 3
    assert quality.specificity is not None and quality.specificity.value == 1.0
    assert (quality.replies, quality.unknown, quality.marked) == (7, 3, True)
    text = told("j", "leak", "leak", quality)
    assert (
        "a                   leak               4           2           1        1     67 %" in text
    )
    nothing = measure([Case("a", True, None)])
    assert nothing.sensitivity is nothing.specificity is nothing.kappa is None


def test_kappa_has_the_published_standard_error() -> None:
    # n = 100, observed agreement 0.70, by chance 0.6 * 0.6 + 0.4 * 0.4 = 0.52
    found = cohen_kappa_interval([[45, 15], [15, 25]])
    assert found is not None
    assert found.value == pytest.approx((0.7 - 0.52) / 0.48)
    # A jackknife of the same table agrees with the large-sample error to two digits.
    spread = (found.high - found.low) / (2 * 1.959964)
    assert spread == pytest.approx(jackknife([[45, 15], [15, 25]]), rel=0.03)
    perfect = cohen_kappa_interval([[3, 0], [0, 4]])
    assert perfect is not None and (perfect.low, perfect.high) == (1.0, 1.0)
    assert cohen_kappa_interval([[5, 0], [0, 0]]) is None


def jackknife(table: list[list[int]]) -> float:
    """The leave-one-out standard error of kappa."""
    from leakgrid.reports.statistics import cohen_kappa

    values = []
    for i in range(2):
        for j in range(2):
            less = [row[:] for row in table]
            less[i][j] -= 1
            values += [cohen_kappa(less) or 0.0] * table[i][j]
    n, mean = len(values), sum(values) / len(values)
    return float(((n - 1) / n * sum((value - mean) ** 2 for value in values)) ** 0.5)
