"""Jobs on the real vLLM: models take turns on a GPU or share it, a server dies, the run goes on.

Runs like ``test_vllm_real.py``, with ``LEAKGRID_VLLM=1`` alone. What the models say is noise.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.dialogue_project import DialogueProject
from tests.project import Project, wait_until
from tests.vllm_world import (
    ARGUMENTS,
    END,
    LEGIBLE,
    MAX_MODEL_LEN,
    ON_CPU,
    alive,
    children,
    home_of,
    real_environment,
    real_vllm,
    small_sample,
    tiny_model,
)

pytestmark = [*real_vllm, pytest.mark.timeout(900)]

START_S = 400.0
"""Two models on a machine that does other things, too."""


def managed(config: pytest.Config, seed: int, memory: float, **params: Any) -> dict[str, Any]:
    """A table of [models] for a tiny model whose server leakgrid starts."""
    home = home_of(config)
    bin_folder = real_environment(home / "environment")
    return {
        "provider": "vllm",
        "model": str(tiny_model(bin_folder, home, seed)),
        "command": [str(bin_folder / "vllm"), "serve"],
        "memory": memory,
        "max_model_len": MAX_MODEL_LEN,
        "arguments": ARGUMENTS,
        "environment": ON_CPU,
        "concurrency": 2,
        "params": {"max_tokens": 600, "temperature": 1.0, "logit_bias": LEGIBLE, **params},
    }


@pytest.fixture
def project(tmp_path: Path, pytestconfig: pytest.Config) -> Project:
    """Two assistants and a judge, which is the second of them under another name.

    Either server takes the whole GPU. Noise may end at once: assistants go on for a while.
    """
    models = {
        "sim-a": managed(pytestconfig, 0, 1.0, min_tokens=200),
        "sim-b": managed(pytestconfig, 1, 1.0, min_tokens=200),
        "sim-judge": managed(pytestconfig, 1, 1.0),
    }
    return Project(
        tmp_path / "project",
        items=2,
        # With less patience calls give up before anybody has seen that the server is dead.
        job={"judges": ["leak", "exact"], "patience": 1.0},
        models=models,
        simulated=None,
    )


def loads(err: str) -> dict[str, int]:
    found = re.search(r"vLLM servers started: (.*)", err)
    assert found, err
    return {name: int(count) for name, count in re.findall(r"(\S+) (\d+)", found[1])}


def front_of(engine: int, lane: str) -> int:
    """The process id of a lane's vLLM that a running engine's supervisor started."""
    for supervisor, command in children(engine):
        if "leakgrid.providers.vllm" in command and f".{lane}.json" in command:
            for pid, words in children(supervisor):
                if "serve" in words.split():
                    return pid
    raise AssertionError(f"no vLLM for {lane} is up")


def answers(project: Project) -> dict[str, str]:
    """By request key, the run in which its answer came; an answer that came twice is an error."""
    rows = project.sql("SELECT key, run FROM answers WHERE kind = 'answer'")
    found = {row["key"]: row["run"] for row in rows}
    assert len(found) == len(rows), "a call was paid for twice"
    return found


def answered(project: Project, lane: str) -> int:
    """Answers of a lane that are on disk now."""
    mark = f'"lane":"{lane}"'.encode()
    journals = (project.folder / "cache" / "answers").glob("*.jsonl")
    return sum(path.read_bytes().count(mark) for path in journals)


def killed_while_it_answers(project: Project, lane: str, after: int) -> tuple[int, str]:
    """A run whose vLLM for ``lane`` is killed ``after`` some answers: exit code, what it said."""
    said = project.folder / "said.txt"
    with said.open("w") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "leakgrid", "run", "jobs/job.toml", "--quiet"],
            cwd=project.folder,
            stdout=subprocess.DEVNULL,
            stderr=err,
        )
        try:
            wait_until(
                lambda: process.poll() is not None or answered(project, lane) >= after, START_S
            )
            assert process.poll() is None, said.read_text()
            front = front_of(process.pid, lane)
            workers = [pid for pid, _ in children(front)]
            os.kill(front, signal.SIGKILL)
            code = process.wait(timeout=100)
        finally:
            process.kill()
            process.wait()
    assert workers and not any(alive(pid) for pid in workers)
    return code, said.read_text()


def test_two_models_take_turns_and_a_dead_server_costs_nothing_twice(project: Project) -> None:
    code, err = killed_while_it_answers(project, "sim-b", after=3)
    assert code == 3, err
    assert "the vLLM sim-b server died" in err, err
    assert "vLLM died (exit code -9)" in err, err
    assert "run the same command again to go on" in err
    assert loads(err) == {"sim-a": 1, "sim-b": 1}
    kept = answers(project)

    process = project.start("run", "jobs/job.toml", "--quiet")
    out, err = process.communicate(timeout=START_S)
    assert process.returncode == 0, err
    # All that sim-a had to say was kept: it is not even started.
    assert {name: count for name, count in loads(err).items() if count} == {"sim-b": 1}
    whole = answers(project)
    assert {key: whole[key] for key in kept} == kept
    assert f" {len(whole) - len(kept)} calls sent" in out
    rows = project.sql("SELECT status, count(*) AS n FROM cell GROUP BY ALL")
    assert rows == [{"status": "done", "n": 2 * 2 * 2 * 2}]
    verdicts = project.sql("SELECT judge, leaked, why FROM verdict_now")
    assert len(verdicts) == 2 * 2 * 2 * 2 * 2
    for row in verdicts:
        assert row["leaked"] is not None or row["why"], row
    assert any(row["leaked"] is not None for row in verdicts if row["judge"] == "leak")


def test_a_dialogue_pair_shares_a_gpu_and_a_dead_receiver_is_started_again_alone(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Sender and receiver are up together; the receiver's server is the judge's, too."""
    profiles, labels = small_sample(tmp_path, people=2, facts=4)
    # Noise that ends soon, so that there is something to judge.
    speaking = {"logit_bias": {END: 4, **LEGIBLE}, "min_tokens": 20, "max_tokens": 150}
    project = DialogueProject(
        tmp_path / "project",
        profiles=profiles,
        job={"turns": [1], "patience": 1.0},
        subset={"instances": 2},
        models={
            "sim-open": managed(pytestconfig, 0, 0.45, **speaking),
            "sim-discreet": managed(pytestconfig, 1, 0.45, **speaking),
            "sim-judge": managed(pytestconfig, 1, 0.45, max_tokens=900),
        },
        judges={"reveal": {"batch": 2, "retries": 0}},
        simulated=None,
    )
    (project.folder / "labels.jsonl").write_bytes(labels)
    code, err = killed_while_it_answers(project, "sim-discreet", after=2)
    assert code == 3, err
    assert "the vLLM sim-discreet server died" in err, err
    assert loads(err) == {"sim-discreet": 1, "sim-open": 1}
    kept = answers(project)

    process = project.start("run", "jobs/job.toml", "--quiet")
    out, err = process.communicate(timeout=START_S)
    assert process.returncode == 0, err
    # The senders had had their say: theirs is not started.
    assert loads(err) == {"sim-discreet": 1, "sim-open": 0}
    whole = answers(project)
    assert {key: whole[key] for key in kept} == kept
    assert f" {len(whole) - len(kept)} calls sent" in out and len(whole) > len(kept)
    rows = project.sql("SELECT status, ended FROM dialogue_cell")
    assert rows == [{"status": "done", "ended": "full"}] * 2
    degrees = project.sql("SELECT speaker, degree, why FROM dialogue_degree WHERE headline")
    assert {row["speaker"] for row in degrees} == {"sender", "receiver"}
    for row in degrees:
        # Noise quotes nobody: a disclosure never stands, and what is unknown says why.
        assert row["degree"] == "none" or (row["degree"] == "unknown" and row["why"]), row
    again = project.run_job()
    assert again.returncode == 0 and " 0 calls sent" in again.stdout
