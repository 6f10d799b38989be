"""A full disk, or a file where a folder should be: one line that names it, and nothing lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leakgrid.cli import main
from tests.project import Project
from tests.test_landed import RUN, anew, page_of, tables
from tests.test_things_that_go_wrong import small_disk  # noqa: F401


def fill(disk: Path, spare: int) -> Path:
    """Fill a file system but for some bytes; the file that does it."""
    filler = disk / "filler"
    filler.unlink(missing_ok=True)
    free = os.statvfs(disk)
    filler.write_bytes(b"x" * (free.f_bavail * free.f_frsize - spare))
    return filler


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    (tmp_path / "p").mkdir()
    monkeypatch.chdir(tmp_path / "p")
    return Project(tmp_path / "p", items=1)


@pytest.mark.parametrize("spare_kb", [0, 4, 12, 16])
def test_a_disk_that_is_full_before_anything_is_sent(
    project: Project,
    small_disk: Path,  # noqa: F811
    spare_kb: int,
) -> None:
    cache = small_disk / "cache"
    filler = fill(small_disk, spare_kb * 1024)
    done = project.run(*RUN, "--cache", str(cache))
    assert done.returncode == 5, done.stderr
    assert done.stderr.startswith("leakgrid: ") and done.stderr.count("\n") == 1
    assert "make room" in done.stderr
    filler.unlink()
    done = project.run(*RUN, "--cache", str(cache))
    assert done.returncode == 0 and "8 of 8 open cells done" in done.stdout, done.stderr


@pytest.mark.parametrize("spare_kb", [0, 4, 40])
def test_a_database_on_a_full_disk(
    project: Project,
    small_disk: Path,  # noqa: F811
    spare_kb: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database = small_disk / "deep" / "x.duckdb"
    database.parent.mkdir()
    words = ["--database", str(database)]
    filler = fill(small_disk, spare_kb * 1024)
    assert main([*RUN, *words]) == 0
    told = capsys.readouterr().err
    assert "results are safe in cache, not yet in the database" in told
    assert f"{database}: there is no room for it on the disk; make room" in told
    assert "the same command again takes them in" in told
    for command in (["report", *words], [*RUN, "--report", *words], ["rebuild", *words]):
        assert main(command) == 6, command
        assert "no room" in capsys.readouterr().err
    assert not list(database.parent.glob("*.new*"))
    filler.unlink()
    assert main([*RUN, *words]) == 0
    assert not capsys.readouterr().err
    assert tables(database) == anew(project)


def test_a_page_on_a_full_disk(
    project: Project,
    small_disk: Path,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    (project.folder / "reports").mkdir()
    (project.folder / "reports" / "out").symlink_to(small_disk)
    project.write_job(job={"limit": 1, "models": ["sim-a"]})
    assert main([*RUN, "--report"]) == 0
    before = page_of(project).read_bytes()
    project.write_job()
    filler = fill(small_disk, 8192)
    capsys.readouterr()
    assert main([*RUN, "--report"]) == 6
    told = capsys.readouterr().err
    assert "reports/out/job.simulated." in told
    assert "cannot be written (No space left on device); make room" in told
    assert page_of(project).read_bytes() == before
    filler.unlink()
    assert main([*RUN, "--report"]) == 0
    assert "8 of 8 planned cells" in page_of(project).read_text()
    assert {path.suffix for path in small_disk.iterdir()} == {".html", ".svg"}


IN_THE_WAY = {
    "reports": (6, "reports: File exists"),
    "reports/out": (6, "reports/out: cannot be written (File exists)"),
    "cache": (5, "cannot be written (Not a directory)"),
    "cache/locks": (5, "cache/locks: cannot be written (File exists)"),
    "cache/plans": (5, "cache/plans: cannot be written (File exists)"),
    "cache/records": (5, "cache/records: cannot write the cache here (File exists)"),
}


@pytest.mark.parametrize("place", IN_THE_WAY)
def test_a_file_where_a_folder_should_be(
    project: Project, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, words = IN_THE_WAY[place]
    path = project.folder / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("in the way")
    assert main([*RUN, "--report"]) == code
    assert words in capsys.readouterr().err
    assert path.read_text() == "in the way"
    path.unlink()
    assert main([*RUN, "--report"]) == 0
    assert "8 of 8 planned cells" in page_of(project).read_text()


@pytest.mark.parametrize("several", [False, True])
def test_any_other_refusal_of_the_disk_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], several: bool
) -> None:
    def refused(*_: object) -> None:
        error = PermissionError(13, "Permission denied", "some/file")
        raise ExceptionGroup("in a task", [error]) if several else error

    monkeypatch.setattr("leakgrid.jobs.forecast.show_plan", refused)
    assert main(["plan", "jobs/any.toml"]) == 1
    assert capsys.readouterr().err == "leakgrid: some/file: Permission denied\n"


def test_a_mistake_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ExceptionGroup("in a task", [OSError(28, "No space left"), ValueError("ours")])

    monkeypatch.setattr("leakgrid.jobs.forecast.show_plan", broken)
    with pytest.raises(ExceptionGroup, match="in a task"):
        main(["plan", "jobs/any.toml"])
