"""A dialogue killed at any moment goes on to the same transcript, and pays nothing twice."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest

from leakgrid.providers.simulated.process import running
from tests.dialogue_project import DialogueProject, at_server
from tests.project import stats, wait_until

SPOKEN = (
    "SELECT c.item, u.turn, u.speaker, u.text, u.outcome FROM dialogue_cell c "
    "JOIN utterance u USING (stem, ordinal) ORDER BY ALL"
)
DISCLOSED = (
    "SELECT c.item, r.judge, r.speaker, r.turn, r.attribute, r.degree, r.evidence, r.why "
    "FROM dialogue_cell c JOIN reveal r USING (stem, ordinal) ORDER BY ALL"
)
HEARD = (
    "SELECT c.item, h.judge, h.speaker, h.turn, h.asked, h.unknown, h.whole, c.ended, c.rounds "
    "FROM dialogue_cell c JOIN hearing h USING (stem, ordinal) ORDER BY ALL"
)

MODELS = ("sim-open", "sim-discreet", "sim-judge")
SLOW: dict[str, Any] = {
    "job": {"conditions": ["pc2"], "turns": [6], "cells_at_once": 1},
    "subset": {"instances": 1},
    "judges": {"reveal": {"batch": 20}},
    "simulated": {"latency": {"median_ms": 50, "p95_ms": 120}},
}
CALLS = 12 + 2 * 3
"""Of the one dialogue: six messages of each side, then three batches about each."""


def result(project: DialogueProject) -> list[list[dict[str, Any]]]:
    """Everything that a reader of the dialogue gets to see."""
    return [project.sql(query) for query in (SPOKEN, DISCLOSED, HEARD)]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """The dialogue when nothing interrupts it."""
    project = DialogueProject(tmp_path_factory.mktemp("straight") / "project", **SLOW)
    done = project.run_job()
    assert done.returncode == 0, done.stderr
    assert f"{CALLS} calls sent" in done.stdout
    said, disclosed, _ = found = result(project)
    assert len(said) == 12 and len(disclosed) > 10
    return found


def killed_at(project: DialogueProject, root_url: str, received: int, wait_s: float) -> int:
    """Run the job, kill it once the server has received so many calls; those in flight then."""
    process = project.start("run", "jobs/job.toml", "--quiet")
    wait_until(
        lambda: process.poll() is not None or stats(root_url)["received"] >= received, seconds=40
    )
    time.sleep(wait_s)
    process.kill()
    process.communicate()
    wait_until(lambda: stats(root_url)["in_flight"] == 0)
    lost = int(stats(root_url)["received"]) - project.kept()
    return lost


@pytest.mark.timeout(300)
def test_killed_again_and_again_it_ends_as_if_never_killed(
    tmp_path: Path, straight: list[list[dict[str, Any]]]
) -> None:
    """Kills in most of its messages and in the judging, each of which the next run goes on from."""
    moments = random.Random(3)
    project = DialogueProject(tmp_path, **SLOW)
    with running(project.table()) as server:
        project.write_job(**{**SLOW, "models": at_server(server.base_url, *MODELS)})
        lost = kills = 0
        while project.kept() < CALLS - 1:
            target = stats(server.root_url)["received"] + moments.randrange(1, 3)
            lost_now = killed_at(project, server.root_url, target, moments.random() * 0.1)
            # One dialogue has one call in flight, and that alone may be lost.
            assert 0 <= lost_now - lost <= 1
            lost = lost_now
            kills += 1
        assert kills >= 5
        done = project.run_job()
        assert done.returncode == 0, done.stderr
        assert project.kept() == CALLS
        assert stats(server.root_url)["received"] == CALLS + lost
        assert "0 calls sent" in project.run_job().stdout
        assert stats(server.root_url)["received"] == CALLS + lost
    assert result(project) == straight
    (rows,) = project.sql("SELECT count(*) AS n, count(DISTINCT key) AS keys FROM response_now")
    assert rows["n"] == rows["keys"] == CALLS


@pytest.mark.timeout(120)
@pytest.mark.parametrize("call", [1, 7, 12, 15])
def test_killed_once_after_a_call_it_resumes_to_the_same_transcript(
    tmp_path: Path, straight: list[list[dict[str, Any]]], call: int
) -> None:
    project = DialogueProject(tmp_path, **SLOW)
    with running(project.table()) as server:
        project.write_job(**{**SLOW, "models": at_server(server.base_url, *MODELS)})
        lost = killed_at(project, server.root_url, call, 0.0)
        assert call - 1 <= project.kept()
        done = project.run_job()
        assert done.returncode == 0, done.stderr
        assert stats(server.root_url)["received"] == CALLS + lost
    assert result(project) == straight
