"""The command line: it starts fast, explains itself, plans, forgets and rebuilds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from leakgrid.jobs import guard
from tests.project import ROOT, Project

HEAVY = (
    "openai",
    "google",
    "vllm",
    "duckdb",
    "pyarrow",
    "matplotlib",
    "scipy",
    "numpy",
    "aiohttp",
    "xllamacpp",
    "jinja2",
    "rich",
    "pandas",
)


def imported(*words: str, cwd: Path | None = None) -> set[str]:
    """Top-level packages that a command has imported."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "leakgrid", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in lines}


def test_help_imports_nothing_heavy() -> None:
    found = imported("--help")
    assert found.isdisjoint(HEAVY) and found.isdisjoint({"orjson", "asyncio", "tenacity"})


def test_a_run_with_nothing_to_do_imports_no_sdk_and_no_database(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert project.run_job().returncode == 0
    found = imported("run", "jobs/job.toml", cwd=project.folder)
    assert found.isdisjoint(HEAVY)


def test_help_names_every_command_and_exit_code() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "leakgrid", "--help"], capture_output=True, text=True, check=True
    )
    for word in ("run", "plan", "sql", "report", "rebuild", "forget", "130"):
        assert word in done.stdout


def test_a_plan_sends_nothing_and_its_calls_are_what_a_run_sends(tmp_path: Path) -> None:
    project = Project(tmp_path)
    planned = project.run("plan", "jobs/job.toml")
    assert planned.returncode == 0
    assert not (project.folder / "cache").exists()
    counts = {
        words[0]: int(words[1].replace(",", ""))
        for words in (line.split() for line in planned.stdout.splitlines())
        if words and words[0].startswith("sim-")
    }
    assert counts == {"sim-a": 24, "sim-b": 24, "sim-judge": 48}
    assert project.run_job().returncode == 0
    rows = project.sql("SELECT model, count(*) AS n FROM response GROUP BY model")
    sent = {row["model"]: row["n"] for row in rows}
    assert (sent["sim-a"], sent["sim-b"]) == (24, 24)
    # Verdicts on identical replies are asked once: the plan is an upper bound.
    assert 0 < sent["sim-judge"] <= 48
    again = project.run("plan", "jobs/job.toml")
    assert "48 done, 0 open" in again.stdout and "nothing would be sent" in again.stdout


def test_a_plan_counts_every_step_of_every_defence(tmp_path: Path) -> None:
    defences = ["privacy-checker", "rewrite-guard", "one-two-three", "party-ledger"]
    models = {"sim-a": {"params": {"max_tokens": 4000}}}
    project = Project(tmp_path, job={"defences": defences, "models": ["sim-a"]}, models=models)
    planned = project.run("plan", "jobs/job.toml")
    assert planned.returncode == 0, planned.stderr
    counts = {
        words[0]: int(words[1].replace(",", ""))
        for words in (line.split() for line in planned.stdout.splitlines())
        if words and words[0].startswith("sim-")
    }
    # Six items in two conditions: 1 + 2 + 3 + 2 calls a reply, and a verdict on each.
    assert counts == {"sim-a": 6 * 2 * (1 + 2 + 3 + 2), "sim-judge": 6 * 2 * 4}
    assert project.run_job().returncode == 0
    (row,) = project.sql("SELECT count(*) AS n FROM call WHERE role NOT LIKE 'judge%'")
    assert row["n"] == counts["sim-a"]


def test_a_plan_of_the_papers_job_needs_no_key(capsys: pytest.CaptureFixture[str]) -> None:
    from leakgrid.cli import main

    assert main(["plan", str(ROOT / "jobs" / "muppet-paper.toml")]) == 0
    told = capsys.readouterr().out
    assert "318 items x 70 columns = 22,260 cells" in told
    assert "unknown" not in told and "price of" in told and "gpt-5.5" in told


def test_a_plan_tells_what_its_models_are_and_their_terms(tmp_path: Path) -> None:
    project = Project(tmp_path, models={"sim-a": {"note": "weights under some terms"}})
    done = project.run("plan", "jobs/job.toml")
    assert "sim-a: weights under some terms" in done.stdout.splitlines()


def test_a_plan_prices_what_it_can_and_says_unknown_of_the_rest(tmp_path: Path) -> None:
    models = {
        "sim-a": {"provider": "openai", "price": {"input": 1000.0, "output": 2000.0}},
        "sim-b": {"provider": "openai"},
    }
    project = Project(tmp_path, models=models, job={"budget_usd": 5})
    told = project.run("plan", "jobs/job.toml").stdout
    lines = {line.split()[0]: line.split() for line in told.splitlines() if line.strip()}
    assert float(lines["sim-a"][4].replace(",", "")) > 1
    assert lines["sim-b"][4] == "unknown"
    assert "and unknown for sim-b" in told
    assert "budget: $5.00, $0.0000 spent so far" in told


def test_forgotten_answers_are_asked_again_and_nothing_else(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert project.run_job().returncode == 0
    before = project.sql("SELECT count(*) AS n FROM response")[0]["n"]
    where = "model = 'sim-a'"
    dry = project.run("forget", "--where", where)
    assert "24 answers" in dry.stdout and "--yes" in dry.stdout
    assert "all 48 cells are done" in project.run_job().stdout
    assert project.run("forget", "--where", where, "--yes").returncode == 0
    assert project.sql("SELECT count(*) AS n FROM response")[0]["n"] == before - 24
    done = project.run_job()
    assert "24 of 24 open cells done, 24 calls sent" in done.stdout
    assert project.sql("SELECT count(*) AS n FROM response")[0]["n"] == before
    missing = project.run("forget", "--where", "model = 'nobody'", "--yes")
    assert missing.returncode == 2 and "no kept answer matches" in missing.stderr
    wrong = project.run("forget", "--where", "modle = 1", "--yes")
    assert wrong.returncode == 6 and "modle" in wrong.stderr


def test_the_database_can_be_made_again(tmp_path: Path) -> None:
    import duckdb

    project = Project(tmp_path)
    assert project.run_job().returncode == 0
    path = project.folder / "reports" / "leakgrid.duckdb"
    query = "SELECT * FROM verdict_now ORDER BY ALL"

    def table() -> list[tuple[object, ...]]:
        with duckdb.connect(str(path), read_only=True) as database:
            return database.execute(query).fetchall()

    before = table()
    path.unlink()
    assert project.run("rebuild").returncode == 0
    assert table() == before
    # And a run that has nothing to send notices a missing database.
    path.unlink()
    assert project.run_job().returncode == 0
    assert table() == before


def test_wrong_sql_is_a_message_and_not_a_traceback(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert project.run_job().returncode == 0
    done = project.run("sql", "SELECT modle FROM response")
    assert done.returncode == 6
    assert done.stderr.startswith("leakgrid: ") and "Traceback" not in done.stderr


@pytest.mark.parametrize("columns", ["", "COLUMNS"])
def test_output_in_a_pipe_is_plain_lines(tmp_path: Path, columns: str) -> None:
    project = Project(tmp_path)
    done = project.run("run", "jobs/job.toml", env={"COLUMNS": "80"} if columns else {})
    assert "\r" not in done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.local
@pytest.mark.timeout(600)
def test_the_embedded_model_runs_the_shipped_local_job(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
    import html
    import json

    project = Project(tmp_path)
    process = project.start("run", str(ROOT / "jobs" / "local.toml"), "--report", "--quiet")
    _, told = process.communicate(timeout=580)
    assert process.returncode == 0, told
    (row,) = project.sql("SELECT count(*) AS n FROM cell WHERE reply_outcome = 'answer'")
    assert row["n"] >= 6
    bodies = project.sql("SELECT text, simulated FROM response WHERE role = 'judge:leak'")
    assert len(bodies) >= 6
    for said in bodies:
        verdict = json.loads(said["text"])
        assert set(verdict) == {"rationale", "leak", "confidence"}
        assert verdict["leak"] in ("YES", "NO") and 1 <= verdict["confidence"] <= 5
        assert said["simulated"] is False
    (page,) = (project.folder / "reports" / "out").glob("*.html")
    assert "simulated" not in page.name
    text = html.unescape(page.read_text())
    assert "a 270M base model: its quality is not the point" in text
    assert "under Google's Gemma Terms of Use (ai.google.dev/gemma/terms)" in text


def test_no_call_waited_less_than_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path)
    # On uvloop, whose clock stands still between two turns; the guard would take asyncio's own.
    assert project.run_job(env={guard.VARIABLE: "0"}).returncode == 0
    (row,) = project.sql("SELECT count(*) AS n, min(wait_ms) AS least FROM response")
    assert row["n"] > 50 and row["least"] >= 0
