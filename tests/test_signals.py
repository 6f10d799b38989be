"""Ctrl-C and SIGTERM end every command the same way at any moment, and say what is true."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leakgrid.store.landing import Landing
from tests.project import Project
from tests.test_landed import anew, tables

SENDS = """
import importlib, os, sys
module, name, number, *words = sys.argv[1:]
owner = importlib.import_module(module)
real = getattr(owner, name)

def sends(*args, **options):
    os.kill(os.getpid(), int(number))
    return real(*args, **options)

setattr(owner, name, sends)
from leakgrid.cli import main
sys.exit(main(words))
"""
"""A command that gets a signal at the moment when one function is called."""

RUN = ("run", "jobs/job.toml", "--quiet", "--report")
MOMENTS = {
    "starting": ("leakgrid.jobs.jobfile", "load_job", RUN),
    "after the last call": ("leakgrid.jobs.command", "_summary", RUN),
    "landing": ("leakgrid.store.ingest", "ingest", RUN),
    "landing, some rows in": ("leakgrid.store.ingest", "_mark", RUN),
    "rendering": ("leakgrid.reports.page", "render", RUN),
    "writing a chart": ("leakgrid.reports.files", "_replace", RUN),
    "plan": ("leakgrid.jobs.forecast", "show_plan", ("plan", "jobs/job.toml")),
    "sql": ("leakgrid.store.live", "run_sql", ("sql", "SELECT 1")),
}


def interrupted(project: Project, moment: str, number: signal.Signals) -> tuple[int, str]:
    """Exit code and standard error of a command that a signal reaches at ``moment``."""
    module, name, words = MOMENTS[moment]
    done = subprocess.run(
        [sys.executable, "-c", SENDS, module, name, str(int(number)), *words],
        cwd=project.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("moment", "number"),
    [*((moment, signal.SIGTERM) for moment in MOMENTS), ("landing", signal.SIGINT)],
)
def test_a_signal_at_any_moment_is_told_and_the_same_command_goes_on(
    tmp_path: Path, moment: str, number: signal.Signals
) -> None:
    project = Project(tmp_path, items=1)
    code, told = interrupted(project, moment, number)
    assert code == 130, told
    assert "Traceback" not in told
    if MOMENTS[moment][2] is not RUN:
        assert told == "leakgrid: interrupted\n"
        return
    kept = "every answer so far is kept in cache, and the same command goes on"
    assert told.endswith(f"leakgrid: interrupted; {kept}\n")
    done = project.run(*RUN)
    assert done.returncode == 0 and not done.stderr
    assert (moment == "starting") == ("8 of 8 open cells done" in done.stdout)
    assert tables(tmp_path / "reports" / "leakgrid.duckdb") == anew(project)
    out = tmp_path / "reports" / "out"
    assert "8 of 8 planned cells" in (out / "job.simulated.html").read_text()
    assert {path.suffix for path in out.iterdir()} == {".html", ".svg"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_long_query_ends_at_once(tmp_path: Path, number: signal.Signals) -> None:
    project = Project(tmp_path, items=1)
    endless = "SELECT count(*) FROM range(100000000) a JOIN range(100000000) b ON a.range > b.range"
    process = project.start("sql", endless)
    time.sleep(2)  # in the query by now; if not, the end is the same
    process.send_signal(number)
    _, told = process.communicate(timeout=30)
    assert (process.returncode, told) == (130, "leakgrid: interrupted\n")


def test_who_waits_for_the_follower_and_is_interrupted_leaves_none_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing = Landing(tmp_path / "cache", tmp_path / "x.duckdb")
    landing._start()
    follower = landing._follower
    assert follower is not None

    def stopped() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(follower, "communicate", stopped)
        with pytest.raises(KeyboardInterrupt):
            landing.finish()
    assert follower.returncode == -signal.SIGKILL
    for pipe in (follower.stdin, follower.stdout, follower.stderr):
        assert pipe is not None
        pipe.close()
