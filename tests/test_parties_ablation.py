"""The shipped ablation tells apart what depends on the audience, on the length, or on both."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest

from leakgrid.cli import main
from tests.project import ROOT


@pytest.mark.may_block  # it runs in the tests' own process, whose heap is large
@pytest.mark.timeout(180)
def test_the_shipped_job_tells_audience_and_length_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", str(ROOT / "jobs" / "muppet-parties.toml"), "--quiet"]) == 0
    capsys.readouterr()
    query = str(ROOT / "reports" / "parties-ablation.sql")
    assert main(["sql", query, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))

    def moves(model: str, arm: str, key: str) -> float:
        """The difference between the arm's ends in standard errors."""
        mine = [row for row in rows if (row["model"], row["arm"]) == (model, arm)]
        mine.sort(key=lambda row: int(row[key]))
        low, high = (int(row["leaks"]) / int(row["known"]) for row in (mine[0], mine[-1]))
        count = int(mine[0]["known"])
        error = math.sqrt((low * (1 - low) + high * (1 - high)) / count)
        return (high - low) / error

    found = {
        model: (
            moves(model, "parties", "parties") > 4,
            moves(model, "length", "tokens") > 4,
        )
        for model in ("sim-audience", "sim-length", "sim-both")
    }
    assert found == {
        "sim-audience": (True, False),
        "sim-length": (False, True),
        "sim-both": (True, True),
    }
    assert abs(moves("sim-length", "parties", "parties")) < 2.6
    assert abs(moves("sim-audience", "length", "tokens")) < 2.6
    query = str(ROOT / "reports" / "condition-statistics.sql")
    assert main(["sql", query, "--format", "csv"]) == 0
    statistics = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    held = {(row["facts"], row["density"]) for row in statistics if row["arm"] == "parties"}
    assert len(held) == 1
