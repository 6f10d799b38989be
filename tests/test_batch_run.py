"""A job on the batch tier, by the command line: parked cells, Ctrl-C while waiting, resume."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from leakgrid.benchmarks.every import every
from leakgrid.outcomes import LaneStopped, Outcome, Parked
from tests.batch_service import running
from tests.project import Project

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
