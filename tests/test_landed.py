"""What a run kept gets into its database, however it ended; and the page follows the database."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pytest

from leakgrid.cli import main
from leakgrid.outcomes import StoreError
from leakgrid.reports import files
from leakgrid.store.landed import is_landed, land
from tests.project import Project, wait_until
from tests.test_command_line import HEAVY, imported

RUN = ["run", "jobs/job.toml", "--quiet"]


def tables(database: Path) -> dict[str, list[Any]]:
    """All rows of all tables that hold any of the cache's."""
    with duckdb.connect(str(database), read_only=True) as connection:
        names = connection.execute(
            "SELECT table_name FROM information_schema.columns WHERE column_name = 'ordinal' AND"
            " table_name IN (SELECT table_name FROM duckdb_tables()) ORDER BY table_name"
        ).fetchall()
        return {
            name: connection.execute(f"FROM {name} ORDER BY ALL").fetchall() for (name,) in names
        }


def anew(project: Project, name: str = "anew.duckdb") -> dict[str, list[Any]]:
    """The tables of a database that was never interrupted."""
    land(project.folder / "cache", project.folder / name)
    return tables(project.folder / name)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path, items=2)


@pytest.mark.parametrize("wait", [0.0, 0.03])
def test_a_run_killed_while_landing_is_landed_by_the_next(tmp_path: Path, wait: float) -> None:
    project = Project(tmp_path, items=20)
    reports = tmp_path / "reports"
    process = project.start(*RUN)
    wait_until(lambda: any(reports.glob("*.duckdb*")))
    time.sleep(wait)
    process.kill()
    process.communicate()
    done = project.run_job()
    assert done.returncode == 0 and "160 cells are done; 0 calls sent" in done.stdout, done.stderr
    found = tables(reports / "leakgrid.duckdb")
    assert found == anew(project)
    assert len(found["reply"]) == 160 and len(found["run_start"]) == len(found["run_end"]) == 1


def test_a_file_that_a_kill_left_half_made_is_made_anew(project: Project) -> None:
    database = project.folder / "reports" / "leakgrid.duckdb"
    assert main(RUN) == 0
    whole, right = database.read_bytes(), tables(database)
    for left in (0, 4096, 8192):
        database.write_bytes(whole[:left])
        assert main(RUN) == 0
        assert tables(database) == right
    database.write_bytes(b"somebody's own")
    assert main(RUN) == 0
    assert database.read_bytes() == b"somebody's own"


def test_a_database_that_was_in_use_is_completed_by_the_next_run(tmp_path: Path) -> None:
    project = Project(tmp_path, items=1)
    database = tmp_path / "reports" / "leakgrid.duckdb"
    database.parent.mkdir()
    with duckdb.connect(str(database)):
        done = project.run_job()
    assert done.returncode == 0
    assert "not yet in the database" in done.stderr
    assert "the same command again takes them in" in done.stderr
    done = project.run_job()
    assert done.returncode == 0 and "0 calls sent" in done.stdout and not done.stderr
    assert tables(database) == anew(project)


def test_what_is_landed_is_known_of_each_database_by_itself(project: Project) -> None:
    cache, first = project.folder / "cache", project.folder / "reports" / "leakgrid.duckdb"
    second = project.folder / "second.duckdb"
    assert main(RUN) == 0
    assert is_landed(cache, first) and not is_landed(cache, second)
    assert main([*RUN, "--database", str(second)]) == 0
    assert tables(second) == tables(first)
    # One that was deleted, or put in the place of another, is not the one that was filled.
    second.unlink()
    assert not is_landed(cache, second)
    duckdb.connect(str(second)).close()
    assert not is_landed(cache, second)
    assert main([*RUN, "--database", str(second)]) == 0
    assert tables(second) == tables(first)
    assert is_landed(cache, first) and is_landed(cache, second)


def test_a_note_that_cannot_be_read_is_as_good_as_none(project: Project) -> None:
    cache, database = project.folder / "cache", project.folder / "reports" / "leakgrid.duckdb"
    note = database.with_name("leakgrid.duckdb.landed")
    assert main(RUN) == 0
    whole = note.read_bytes()
    for torn in (b"", b"[]", whole[:20], b"{}", orjson.dumps({"cache": 1, "database": 2})):
        note.write_bytes(torn)
        assert not is_landed(cache, database)
    assert main(RUN) == 0
    assert note.read_bytes() == whole and is_landed(cache, database)


def test_jobs_that_share_a_database_do_not_hide_each_others_rows(project: Project) -> None:
    cache, database = project.folder / "cache", project.folder / "reports" / "leakgrid.duckdb"
    text = (project.folder / "jobs" / "job.toml").read_text()
    (project.folder / "jobs" / "other.toml").write_text(text.replace("seed = 3", "seed = 4"))
    assert main(RUN) == 0
    before = shutil.copytree(cache, project.folder / "before")
    assert main(["run", "jobs/other.toml", "--quiet", "--database", "other.duckdb"]) == 0
    assert is_landed(before, database) is True
    # The other job's rows are not in this database yet: that is told, and made good.
    assert not is_landed(cache, database)
    assert main(RUN) == 0
    assert is_landed(cache, database)
    assert tables(database) == anew(project)


# --- pages ----------------------------------------------------------------------------------------


def page_of(project: Project) -> Path:
    return project.folder / "reports" / "out" / "job.simulated.html"


def test_a_page_follows_what_was_landed_without_it(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write_job(job={"limit": 1})
    assert main([*RUN, "--report"]) == 0
    assert "8 of 8 planned cells" in page_of(project).read_text()
    project.write_job()
    assert main(RUN) == 0
    assert "8 of 8 planned cells" in page_of(project).read_text()
    assert main([*RUN, "--report"]) == 0
    assert "16 of 16 planned cells" in page_of(project).read_text()
    capsys.readouterr()
    rendered = page_of(project).stat().st_mtime_ns
    assert main([*RUN, "--report"]) == 0
    assert page_of(project).stat().st_mtime_ns == rendered
    assert ".html" not in capsys.readouterr().out
    assert imported(*RUN, "--report", cwd=project.folder).isdisjoint(HEAVY)


def test_a_page_that_is_torn_or_gone_is_made_again_and_another_jobs_run_changes_nothing(
    project: Project,
) -> None:
    text = (project.folder / "jobs" / "job.toml").read_text()
    (project.folder / "jobs" / "job.b.toml").write_text(text.replace("seed = 3", "seed = 4"))
    both = ["run", "jobs/job.toml", "jobs/job.b.toml", "--quiet", "--report"]
    assert main(both) == 0
    pages = sorted(page_of(project).parent.glob("*.html"))
    assert len(pages) == 2
    rendered = [page.stat().st_mtime_ns for page in pages]
    whole = page_of(project).read_bytes()
    assert main(both) == 0
    assert [page.stat().st_mtime_ns for page in pages] == rendered
    for torn in (b"<html>", b"", whole[:-1]):
        page_of(project).write_bytes(torn)
        assert main([*RUN, "--report"]) == 0
        assert page_of(project).read_bytes() == whole
    page_of(project).unlink()
    assert main([*RUN, "--report"]) == 0
    assert page_of(project).read_bytes() == whole


def test_only_the_page_of_exactly_this_job_and_these_rows_is_current(tmp_path: Path) -> None:
    files.write(tmp_path, "a.b", False, "<html>", "2-ff", {})
    files.write(tmp_path, "ab", True, "<html>", "3-aa", {})
    assert files.is_current(tmp_path, "a.b", "2-ff") and files.is_current(tmp_path, "ab", "3-aa")
    for job, mark in (("a", "2-ff"), ("a.b", "2-f"), ("a.b", "3-aa"), ("ab", "aa"), ("ab", "")):
        assert not files.is_current(tmp_path, job, mark)


def test_a_chart_that_cannot_be_written_leaves_the_page_as_it_was(tmp_path: Path) -> None:
    files.write(tmp_path, "j", False, "old", "1-a", {"leaks": "<svg/>"})
    (tmp_path / "j.rates.svg").mkdir()
    with pytest.raises(StoreError, match=r"j\.rates\.svg: cannot be written .*--out"):
        files.write(tmp_path, "j", False, "new", "2-b", {"leaks": "<svg></svg>", "rates": "<svg/>"})
    assert files.is_current(tmp_path, "j", "1-a")
    assert (tmp_path / "j.html").read_text().startswith("old")
    assert {path.name for path in tmp_path.iterdir()} == {"j.html", "j.leaks.svg", "j.rates.svg"}


def test_a_database_of_another_form_is_not_taken_for_landed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, database = project.folder / "cache", project.folder / "reports" / "leakgrid.duckdb"
    land(cache, database)
    assert is_landed(cache, database)
    monkeypatch.setattr("leakgrid.store.landed.views_digest", lambda: "that of a newer leakgrid")
    assert not is_landed(cache, database)
