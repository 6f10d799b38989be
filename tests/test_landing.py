"""After a run the results are taken in by a process apart, and its errors are told as ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakgrid.outcomes import StoreError
from leakgrid.store.landing import land_apart
from tests.project import Project


def test_rows_are_taken_in_once(tmp_path: Path) -> None:
    project = Project(tmp_path, items=2)
    assert project.run_job().returncode == 0
    again = land_apart(tmp_path / "cache", tmp_path / "other.duckdb")
    assert again.rows["reply"] == 2 * 2 * 2 * 2
    assert again.peak_mb >= 0
    assert land_apart(tmp_path / "cache", tmp_path / "other.duckdb").rows.get("reply", 0) == 0


def test_a_file_that_is_no_database_is_told_with_what_to_do(tmp_path: Path) -> None:
    project = Project(tmp_path, items=1)
    assert project.run_job().returncode == 0
    wrong = tmp_path / "wrong.duckdb"
    wrong.write_text("no database")
    with pytest.raises(StoreError, match="delete the file and try again"):
        land_apart(tmp_path / "cache", wrong)
