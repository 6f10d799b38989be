"""Several vLLM models on one GPU: few loads, and a cell waits until its next model is up."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from leakgrid.jobs.jobfile import load_job
from leakgrid.jobs.plan import Plan
from leakgrid.providers.vllm_config import VISIBLE
from tests.project import Project
from tests.vllm_world import FIXTURES

pytestmark = pytest.mark.timeout(180)

FRONT = [sys.executable, str(FIXTURES / "front.py"), "serve"]


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[str]:
    """The simulated models behind all fronts, as one server that stays."""
    home = Project(tmp_path / "truth")
    plan = Plan(load_job(home.folder / "jobs" / "job.toml"))
    assert plan.simulated is not None
    config = tmp_path / "truth.json"
    config.write_bytes(orjson.dumps(plan.simulated["table"]))
    server = subprocess.Popen(
        [sys.executable, "-m", "leakgrid.providers.simulated.server", "--config", str(config)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    ready = orjson.loads(server.stdout.readline())
    yield f"http://127.0.0.1:{ready['port']}"
    server.terminate()
    server.communicate(timeout=20)


NAMES = ("sim-a", "sim-b", "sim-judge")


def project(
    tmp_path: Path, upstream: str, memory: float = 1.0, own_gpus: bool = False, **more: Any
) -> Project:
    """Two assistants and a judge as managed vLLM models, each with its share of one GPU."""
    environment = {"FRONT_UPSTREAM": upstream, "FRONT_LOG": str(tmp_path / "front.log"), **more}
    models = {
        name: {
            "provider": "vllm",
            "params": {"max_tokens": 200, "temperature": 0.0},
            "command": FRONT,
            "environment": environment | ({VISIBLE: str(gpu)} if own_gpus else {}),
            "memory": memory,
        }
        for gpu, name in enumerate(NAMES)
    }
    made = Project(tmp_path / "run", items=4, models=models, simulated=None)
    # A job without any simulated model has no [simulated] table.
    return made


def events(tmp_path: Path, what: str) -> list[str]:
    lines = (tmp_path / "front.log").read_text().splitlines()
    return [line.split()[1] for line in lines if line.startswith(what)]


def told_loads(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    found = re.search(r"vLLM servers started: (.*)", done.stderr)
    assert found, done.stderr
    return {name: int(count) for name, count in re.findall(r"(\S+) (\d+)", found[1])}


def test_each_model_is_loaded_once_and_the_judge_last(tmp_path: Path, upstream: str) -> None:
    made = project(tmp_path, upstream)
    first = made.run_job()
    assert first.returncode == 0, first.stderr
    # What a server is was not known before it started for the first time: that is noted once.
    again = made.run("forget", "--where", "true", "--yes")
    assert again.returncode == 0
    (tmp_path / "front.log").unlink()
    done = made.run_job()
    assert done.returncode == 0, done.stderr
    assert told_loads(done) == {"sim-a": 1, "sim-b": 1, "sim-judge": 1}
    assert events(tmp_path, "start") == ["sim-a", "sim-b", "sim-judge"]
    for name in NAMES:
        (noted,) = (made.folder / "cache" / "servers").glob(f"job.{name}.vllm-*.json")
        known = orjson.loads(noted.read_bytes())
        assert known["facts"]["engine"] == "vllm 0.99.0" and "refuses_system" in known["template"]
    rows = made.sql("SELECT status, count(*) AS n FROM cell GROUP BY ALL")
    assert rows == [{"status": "done", "n": 4 * 2 * 2 * 2}]
    nothing = made.run_job()
    assert " 0 calls sent" in nothing.stdout
    assert len(events(tmp_path, "start")) == 3


def test_a_model_named_like_a_path_has_its_files_among_the_others(
    tmp_path: Path, upstream: str
) -> None:
    made = project(tmp_path, upstream)
    model = {
        "provider": "vllm",
        "model": "sim-a",
        "params": {"max_tokens": 200, "temperature": 0.0},
        "command": FRONT,
        "environment": {"FRONT_UPSTREAM": upstream, "FRONT_LOG": str(tmp_path / "front.log")},
    }
    made.write_job(
        job={"models": ["org/../../sim-a:x"], "defences": ["none"], "judges": ["exact"]},
        models={**dict.fromkeys(NAMES), "org/../../sim-a:x": model},
        judges={"leak": None},
        simulated=None,
    )
    done = made.run_job()
    assert done.returncode == 0, done.stderr
    folder = made.folder / "cache" / "servers"
    (log,) = folder.glob("job.*.log")
    assert re.fullmatch(r"job\.org-\.\.-\.\.-sim-a-x-[0-9a-f]{12}\.log", log.name)
    assert log.with_suffix(".json").exists()
    assert [*folder.glob(f"{log.stem}.vllm-*.json")]
    assert not [path for path in tmp_path.rglob("*sim-a*") if path.parent != folder]
    assert f"(log: {log.relative_to(made.folder)})" in done.stderr


def test_models_that_fit_together_are_up_together(tmp_path: Path, upstream: str) -> None:
    made = project(tmp_path, upstream, memory=0.33)
    assert made.run_job().returncode == 0
    assert made.run("forget", "--where", "true", "--yes").returncode == 0
    (tmp_path / "front.log").unlink()
    done = made.run_job()
    assert done.returncode == 0, done.stderr
    what = [line.split()[0] for line in (tmp_path / "front.log").read_text().splitlines()]
    assert what == ["start"] * 3 + ["end"] * 3
    assert told_loads(done) == {"sim-a": 1, "sim-b": 1, "sim-judge": 1}


def test_models_on_gpus_of_their_own_load_at_the_same_time(tmp_path: Path, upstream: str) -> None:
    # None is ready before all have started: one after the other would take for ever.
    made = project(tmp_path, upstream, own_gpus=True, FRONT_TOGETHER="3")
    done = made.run_job()
    assert done.returncode == 0, done.stderr
    assert told_loads(done) == dict.fromkeys(NAMES, 1)
    # What all of them are was learned at once: planned anew once, so each was started twice.
    assert Counter(events(tmp_path, "start")) == dict.fromkeys(NAMES, 2)
    rows = made.sql("SELECT status, count(*) AS n FROM cell GROUP BY ALL")
    assert rows == [{"status": "done", "n": 4 * 2 * 2 * 2}]


def test_a_run_that_lacks_verdicts_alone_loads_the_judge_alone(
    tmp_path: Path, upstream: str
) -> None:
    made = project(tmp_path, upstream, memory=0.33)
    assert made.run_job().returncode == 0
    assert made.run("forget", "--where", "model = 'sim-judge'", "--yes").returncode == 0
    done = made.run_job()
    assert done.returncode == 0, done.stderr
    assert told_loads(done) == {"sim-a": 0, "sim-b": 0, "sim-judge": 1}


def test_a_server_that_is_killed_stops_its_lane_and_the_run_resumes(
    tmp_path: Path, upstream: str
) -> None:
    made = project(tmp_path, upstream)
    made.run_job()
    assert made.run("forget", "--where", "true", "--yes").returncode == 0
    (tmp_path / "front.log").unlink()
    process = made.start("run", "jobs/job.toml", "--quiet")
    log = tmp_path / "front.log"
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline and not (log.exists() and "start sim-b" in log.read_text()):
        time.sleep(0.05)
    pid = int(re.findall(r"start sim-b (\d+)", log.read_text())[-1])
    os.kill(pid, signal.SIGKILL)
    out, err = process.communicate(timeout=50)
    assert process.returncode in (0, 3), out + err
    if process.returncode == 3:
        assert "vLLM sim-b" in err
    done = made.run_job()
    assert done.returncode == 0, done.stderr
    rows = made.sql("SELECT status, count(*) AS n FROM cell GROUP BY ALL")
    assert rows == [{"status": "done", "n": 4 * 2 * 2 * 2}]


def test_a_pair_that_does_not_fit_is_told_before_anything_starts(
    tmp_path: Path, upstream: str
) -> None:
    made = project(tmp_path, upstream)
    text = (made.folder / "jobs" / "job.toml").read_text().replace("memory = 1.0", "memory = 1.2")
    (made.folder / "jobs" / "job.toml").write_text(text)
    done = made.run_job()
    assert done.returncode == 2
    assert "memory" in done.stderr
    assert not (tmp_path / "front.log").exists()
