"""A job on the batch tier, by the command line: parked cells, Ctrl-C while waiting, resume."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from leakgrid.benchmarks.every import every
from leakgrid.outcomes import LaneStopped, Outcome, Parked
from leakgrid.providers.simulated.batch_settings import STEPS
from leakgrid.providers.simulated.batch_work import STRANGE
from tests.batch_service import running
from tests.project import Project, wait_until

pytest.importorskip("openai", reason="the extra 'openai' is not installed")
pytestmark = pytest.mark.timeout(180)


def project(folder: Path, root: str, **first: Any) -> Project:
    models = {
        name: {
            "provider": "openai",
            "base_url": f"{root}/v1",
            "tier": "batch",
            "model": name,
            "price": {"input": 2.0, "output": 8.0},
            "params": {"max_tokens": 200},
        }
        for name in ("sim-a", "sim-b", "sim-judge")
    }
    models["sim-a"] |= first
    return Project(folder, items=4, models=models, simulated=None)


def test_cells_wait_for_batches_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    with running() as service:
        made = project(tmp_path / "run", service.root)
        service.control(plans=[{"end": "never"}])
        process = made.start("run", "jobs/job.toml", "--quiet")
        deadline = time.monotonic() + 60
        while not service.state()["batches"] and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert process.returncode == 130, told
        service.control(polls=0)
        done = made.run_job()
        assert done.returncode == 0, done.stderr
        state = service.state()
        assert max(state["carried_out"].values()) == 1
        # Assistants first, then the judge: two rounds of batches, and no more.
        assert len(state["batches"]) == 3
    rows = made.sql("SELECT status, count(*) AS n FROM cell GROUP BY ALL")
    assert rows == [{"status": "done", "n": 4 * 2 * 2 * 2}]
    assert made.sql("SELECT DISTINCT tier FROM response") == [{"tier": "batch"}]
    (row,) = made.sql(
        "SELECT bool_and(abs(usd - (input + output * 4.0) / 1e6) < 1e-12) AS half FROM response"
    )
    assert row["half"] is True
    assert " 0 calls sent" in made.run_job().stdout


# --- simulated models, no key -------------------------------------------------------------------

VERDICTS = (
    "SELECT model, defence, condition, item, judge, leaked, why FROM verdict_now ORDER BY ALL"
)
REPLIES = (
    "SELECT model, defence, condition, item, reply, reply_outcome, status FROM cell ORDER BY ALL"
)
BATCHED = {name: {"tier": "batch"} for name in ("sim-a", "sim-b", "sim-judge")}


def carried_out(made: Project) -> Counter[str]:
    """How often each call was answered in a batch of the server that the job starts."""
    counts: Counter[str] = Counter()
    for path in (made.folder / "cache" / "servers").glob("batches-*/*.data"):
        for line in map(json.loads, path.read_bytes().splitlines()):
            response = line.get("response")
            if response and response["status_code"] == 200:
                counts[line["custom_id"]] += 1
    return counts


def test_a_killed_job_on_the_batch_tier_ends_as_the_same_job_online(tmp_path: Path) -> None:
    online = Project(tmp_path / "online", items=4)
    assert online.run_job().returncode == 0
    # The server is the engine's own and ends with it, while its batches go on.
    slow = {"batches": {"turnaround_s": 1.5}}
    made = Project(tmp_path / "batch", items=4, models=BATCHED, simulated=slow)
    process = made.start("run", "jobs/job.toml", "--quiet")
    kept = made.folder / "cache" / "servers"
    wait_until(lambda: len(list(kept.glob("batches-*/*.batch.json"))) == 2, 60)
    process.kill()
    _, told = process.communicate()
    assert process.returncode == -signal.SIGKILL, told
    done = made.run_job()
    assert done.returncode == 0, done.stderr
    assert "waiting for 1 batches of an earlier run" in done.stderr + done.stdout
    assert made.sql(VERDICTS) == online.sql(VERDICTS)
    assert made.sql(REPLIES) == online.sql(REPLIES)
    times = carried_out(made)
    assert set(times.values()) == {1}
    (rows,) = made.sql("SELECT count(*) AS n, count(DISTINCT key) AS keys FROM response")
    assert rows == {"n": len(times), "keys": len(times)}
    assert made.sql("SELECT DISTINCT tier, simulated, usd FROM response") == [
        {"tier": "batch", "simulated": True, "usd": None}
    ]
    # The same keys as online, so what is known from there is not asked again in a batch.
    keys = "SELECT DISTINCT key FROM response ORDER BY ALL"
    assert made.sql(keys) == online.sql(keys)
    assert " 0 calls sent" in made.run_job().stdout


def test_faults_on_a_schedule_at_every_step_change_no_verdict(tmp_path: Path) -> None:
    online = Project(tmp_path / "online", items=2)
    assert online.run_job().returncode == 0
    often = dict.fromkeys(STEPS, 0.15)
    batches = {
        "turnaround_s": 0.1, "fails": often, "lost": often, "expired": 0.3, "early": 0.1,
        "hidden": 0.2, "queue_full": 0.1, "line_500": 0.05, "line_429": 0.05,
        "line_missing": 0.05, "line_strange": 0.05,
    }  # fmt: skip
    made = Project(tmp_path / "batch", items=2, models=BATCHED, simulated={"batches": batches})
    for _ in range(6):  # a lane stops where a service stays down, and the next run goes on
        done = made.run_job()
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr
    assert made.sql(VERDICTS) == online.sql(VERDICTS)
    assert made.sql(REPLIES) == online.sql(REPLIES)
    counts = carried_out(made)
    (rows,) = made.sql("SELECT count(DISTINCT key) AS n FROM response")
    assert {count for key, count in counts.items() if key != STRANGE} == {1}
    assert len(counts.keys() - {STRANGE}) == rows["n"]


def test_prices_of_a_simulated_batch_are_half_of_the_jobs_own(tmp_path: Path) -> None:
    priced = {name: {"price": {"input": 2.0, "output": 8.0}, **BATCHED[name]} for name in BATCHED}
    made = Project(tmp_path, items=1, models=priced, simulated={"batches": {"turnaround_s": 0}})
    assert made.run_job().returncode == 0
    (row,) = made.sql(
        "SELECT bool_and(abs(usd - (input + output * 4.0) / 1e6) < 1e-12) AS half FROM response"
    )
    assert row["half"] is True


def test_a_simulated_batch_needs_the_extra(tmp_path: Path) -> None:
    made = Project(tmp_path / "run", items=1, models=BATCHED)
    hidden = tmp_path / "hidden" / "openai"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError('not here')\n")
    done = made.run_job(env={"PYTHONPATH": str(hidden.parent)})
    assert done.returncode == 2
    assert "pip install 'leakgrid[openai]'" in done.stderr


def test_steps_that_need_not_wait_for_each_other_are_all_asked_before_parking() -> None:
    asked = []

    async def step(number: int) -> int:
        asked.append(number)
        if number % 2:
            raise Parked("lane")
        return number

    async def stopped() -> int:
        raise LaneStopped("lane", Outcome.AUTH, "no")

    async def main() -> None:
        assert await every(step(number) for number in (0, 2)) == [0, 2]
        with pytest.raises(Parked):
            await every(step(number) for number in range(5))
        assert asked == [0, 2, 0, 1, 2, 3, 4]
        with pytest.raises(LaneStopped):
            await every(stopped() for _ in range(2))

    asyncio.run(main())
