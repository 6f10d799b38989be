"""A run may end in any way at any moment: nothing paid is lost, nothing is paid twice."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from leakgrid.providers.simulated.process import running
from tests.project import Project, stats, wait_until

ROWS = "SELECT model, defence, condition, item, judge, leaked, why FROM verdict_now ORDER BY ALL"
REPLIES = (
    "SELECT model, defence, condition, item, reply, reply_outcome, status FROM cell ORDER BY ALL"
)
CALLS = "SELECT count(*) AS n, count(DISTINCT key) AS different FROM response"
CELLS = "SELECT count(*) AS n, count(DISTINCT (column_id, item, digest)) AS different FROM reply"

OF_ONE_RUN = {"run_start", "run_end", "lane_state"}
"""Tables that tell of each run itself."""
OF_ONE_MOMENT = {"stem", "ordinal", "run", "ts", "latency_ms", "wait_ms"}
"""Columns that tell when and where a row was written."""


def contents(project: Project) -> dict[str, list[Any]]:
    """The database file: the rows of all its tables, but for what differs between any two runs.

    A plan may be noted again by a run after a killed one; it is then the same plan.
    """
    import duckdb

    from leakgrid.store.derive import selects

    found = {}
    path = project.folder / "reports" / "leakgrid.duckdb"
    with duckdb.connect(str(path), read_only=True) as database:
        for stream, tables in selects().items():
            for table in set(tables) - OF_ONE_RUN:
                described = database.execute(f"DESCRIBE {table}").fetchall()
                columns = [name for name, *_ in described if name not in OF_ONE_MOMENT]
                which = "DISTINCT" if stream == "runs" else ""
                query = f"SELECT {which} {', '.join(columns)} FROM {table} ORDER BY ALL"
                found[table] = database.execute(query).fetchall()
    return found


def attached(server: Any, **changes: Any) -> dict[str, Any]:
    """The usual models, at a server that outlives the engine and counts."""
    models = {
        name: {"provider": "simulated", "base_url": server.base_url, "params": {"max_tokens": 200}}
        for name in ("sim-a", "sim-b", "sim-judge")
    }
    return {"models": models, **changes}


def table_of(project: Project, **more: Any) -> dict[str, Any]:
    """The server's configuration, with the cues that the engine would give it."""
    from leakgrid.jobs.jobfile import load_job
    from leakgrid.jobs.plan import Plan

    plan = Plan(load_job(project.folder / "jobs" / "job.toml"))
    assert plan.simulated is not None
    return {**plan.simulated["table"], **more}


@pytest.mark.timeout(240)
def test_kill_9_at_twenty_moments_costs_at_most_the_calls_in_flight(tmp_path: Path) -> None:
    moments = random.Random(11)
    slow = {"latency": {"median_ms": 60, "p95_ms": 150}}
    straight = Project(tmp_path / "straight", items=12, simulated=slow)
    project = Project(tmp_path / "killed", items=12, simulated=slow)
    with running(table_of(project)) as server:
        straight.write_job(**attached(server), simulated=slow)
        assert straight.run_job().returncode == 0
        planned = straight.kept()
        # The same server, so that keys are the same; from here on it counts from there.
        assert stats(server.root_url)["received"] == planned

        def received() -> int:
            return int(stats(server.root_url)["received"]) - planned

        # Four cells at once for each of two models, each with one call in flight.
        project.write_job(**attached(server), job={"cells_at_once": 4}, simulated=slow)
        lost = 0
        for _ in range(20):
            process = project.start("run", "jobs/job.toml", "--quiet")
            target = received() + moments.randrange(1, 8)
            wait_until(
                lambda process=process, target=target: (
                    process.poll() is not None or received() >= target
                )
            )
            time.sleep(moments.random() * 0.1)
            process.kill()
            process.communicate()
            wait_until(lambda: stats(server.root_url)["in_flight"] == 0)
            # What was received and is not on disk was in flight: at most one call a cell.
            lost_now = received() - project.kept()
            assert 0 <= lost_now - lost <= 8
            lost = lost_now
        assert 0 < lost
        done = project.run_job()
        assert done.returncode == 0, done.stderr
        # Nothing that was kept was asked again: only the lost calls were sent twice.
        assert project.kept() == planned
        assert received() == planned + lost
        assert "0 calls sent" in project.run_job().stdout
        assert received() == planned + lost
    assert project.sql(ROWS) == straight.sql(ROWS)
    assert project.sql(REPLIES) == straight.sql(REPLIES)
    # The raw tables, as they hold every row that was ever written.
    assert project.sql(CALLS) == [{"n": planned, "different": planned}]
    assert project.sql(CELLS) == [{"n": 12 * 8, "different": 12 * 8}]
    expected = contents(straight)
    assert len(expected["response"]) == planned and len(expected["reply"]) == 12 * 8
    assert len(expected["verdict"]) == 12 * 8 * 2 and not expected["attempt"]
    assert contents(project) == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_first_signal_lets_paid_calls_finish(tmp_path: Path, number: signal.Signals) -> None:
    slow = {"latency": {"median_ms": 300, "p95_ms": 350}}
    project = Project(tmp_path, items=12, simulated=slow)
    with running(table_of(project)) as server:
        project.write_job(**attached(server), job={"cells_at_once": 8}, simulated=slow)
        process = project.start("run", "jobs/job.toml", "--quiet")
        wait_until(lambda: stats(server.root_url)["received"] >= 12)
        process.send_signal(number)
        _, told = process.communicate(timeout=30)
        assert process.returncode == 130
        assert "finishing the calls in flight" in told and "run the same command again" in told
        received = stats(server.root_url)["received"]
        kept = project.sql("SELECT count(*) AS n FROM response")[0]["n"]
        assert kept == received
        assert project.run_job().returncode == 0
        assert stats(server.root_url)["received"] == 12 * 8 * 2 - same_calls(project)


def same_calls(project: Project) -> int:
    """Calls that cells share, and that are therefore sent once."""
    (row,) = project.sql("SELECT count(*) - count(DISTINCT key) AS n FROM call")
    return int(row["n"])


def test_a_second_signal_leaves_at_once(tmp_path: Path) -> None:
    project = Project(tmp_path, simulated={"latency": {"median_ms": 20_000, "p95_ms": 20_000}})
    with running(table_of(project)) as server:
        project.write_job(
            **attached(server), simulated={"latency": {"median_ms": 20_000, "p95_ms": 20_000}}
        )
        process = project.start("run", "jobs/job.toml", "--quiet")
        wait_until(lambda: stats(server.root_url)["received"] >= 4)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
        assert process.returncode == 130


def test_a_server_that_dies_in_a_run_ends_it_clearly_and_nothing_is_lost(tmp_path: Path) -> None:
    slow = {"latency": {"median_ms": 100, "p95_ms": 120}}
    project = Project(tmp_path, items=12, job={"cells_at_once": 4}, simulated=slow)
    process = project.start("run", "jobs/job.toml", "--quiet")

    def children() -> list[int]:
        text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        return [int(number) for number in text.split()]

    wait_until(lambda: project.kept() >= 5)
    for child in children():
        os.kill(child, signal.SIGKILL)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 3
    assert "the simulated server died" in told and "run the same command again" in told
    before = project.kept()
    assert project.run_job().returncode == 0
    assert project.sql("SELECT count(*) AS n FROM cell WHERE status <> 'done'")[0]["n"] == 0
    assert project.kept() > before


def test_two_runs_of_one_job_do_not_pay_twice(tmp_path: Path) -> None:
    slow = {"latency": {"median_ms": 200, "p95_ms": 250}}
    project = Project(tmp_path, items=12, job={"cells_at_once": 4}, simulated=slow)
    first = project.start("run", "jobs/job.toml", "--quiet")
    wait_until(lambda: any((project.folder / "cache" / "answers").glob("*.jsonl")))
    second = project.run_job()
    assert second.returncode == 2
    assert f"already running (process {first.pid})" in second.stderr
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=30)


def test_two_jobs_share_one_cache_at_the_same_time(tmp_path: Path) -> None:
    project = Project(tmp_path, items=8)
    text = (project.folder / "jobs" / "job.toml").read_text()
    (project.folder / "jobs" / "other.toml").write_text(text.replace("seed = 3", "seed = 4"))
    both = [project.start("run", f"jobs/{name}.toml", "--quiet") for name in ("job", "other")]
    for process in both:
        _, told = process.communicate(timeout=60)
        assert process.returncode == 0, told
    rows = project.sql("SELECT job, count(*) AS n FROM cell WHERE status = 'done' GROUP BY job")
    assert {row["job"]: row["n"] for row in rows} == {"job": 64, "other": 64}


def test_a_changed_prompt_replays_only_what_it_touches(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert project.run_job().returncode == 0
    prompts = project.folder / "jobs" / "prompts"
    target = prompts.resolve()
    prompts.unlink()
    shutil.copytree(target, prompts)
    with (prompts / "muppet" / "defences" / "privacy-prompt.md").open("a") as file:
        file.write("\nThink twice.\n")
    # The cue follows the file, so the simulated server is the same for all other texts.
    done = project.run_job()
    assert done.returncode == 0, done.stderr
    assert "24 of 24 open cells" in done.stdout


def test_sql_works_while_a_run_goes_on(tmp_path: Path) -> None:
    slow = {"latency": {"median_ms": 600, "p95_ms": 700}}
    project = Project(tmp_path, items=12, job={"cells_at_once": 4}, simulated=slow)
    process = project.start("run", "jobs/job.toml", "--quiet")
    wait_until(lambda: any((project.folder / "cache" / "records").glob("*.jsonl")))
    counts = [project.sql("SELECT count(*) AS n FROM response")[0]["n"] for _ in range(3)]
    assert process.poll() is None
    assert 0 < counts[-1] < 12 * 8 * 2
    assert counts == sorted(counts)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)


def test_a_finished_job_sends_nothing_and_starts_no_server(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert project.run_job().returncode == 0
    before = {path: path.read_bytes() for path in project.files()}
    # A port that cannot be had shows that no server is started.
    project.write_job(simulated={"port": 1})
    done = project.run_job()
    assert done.returncode == 0
    assert "all 48 cells are done; 0 calls sent" in done.stdout
    assert {path: path.read_bytes() for path in project.files()} == before


def test_records_of_one_job_serve_another_that_asks_the_same(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert project.run_job().returncode == 0
    text = (project.folder / "jobs" / "job.toml").read_text()
    (project.folder / "jobs" / "copy.toml").write_text(text)
    done = project.run("run", "jobs/copy.toml", "--quiet")
    assert "0 of 0 open cells" in done.stdout or "0 calls sent" in done.stdout


def test_a_model_that_waits_for_its_quota_does_not_hold_up_another(tmp_path: Path) -> None:
    quota = {"quota": {"sim-a": {"rpm": 30, "burst_s": 10}}}
    project = Project(tmp_path, items=12, job={"cells_at_once": 4}, simulated=quota)
    process = project.start("run", "jobs/job.toml", "--quiet")
    open_cells = (
        "SELECT model, count(*) AS n FROM cell WHERE status <> 'done' GROUP BY model ORDER BY model"
    )
    wait_until(lambda: any((project.folder / "cache" / "records").glob("*.jsonl")))
    # sim-a may send one call in two seconds; sim-b is through long before.
    wait_until(lambda: [row["model"] for row in project.sql(open_cells)] == ["sim-a"], 25)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
