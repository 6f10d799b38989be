"""kill -9 between any two steps of a batch: nothing is paid twice, nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from leakgrid.cache.journal_file import JournalFile
from tests.batch_service import running
from tests.project import ROOT

pytest.importorskip("openai", reason="the extra 'openai' is not installed")
pytest.importorskip("google.genai", reason="the extra 'google' is not installed")

CELLS = [["a", "b"], ["c"], ["d"]]
EXPIRES: list[dict[str, Any]] = [{"end": "expired", "done": 2, "polls": 1}]
SLOW: list[dict[str, Any]] = [{"polls": 2}]
TOO_LONG = {"code": "token_limit_exceeded", "message": "Enqueued token limit", "line": None}
QUEUED: list[dict[str, Any]] = [{"end": "failed", "errors": [TOO_LONG]}, {"polls": 2}]


def lives(folder: Path, wire: str, plans: list[dict[str, Any]], *, twice: bool) -> list[Any]:
    """Every life (see batch_world): the moment, how its processes ended, what was asked."""
    with running() as service:
        spec = {
            "port": service.port, "folder": str(folder), "wire": wire, "cells": CELLS,
            "plans": plans, "twice": twice, "seed": 7,
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "tests.batch_world", json.dumps(spec)],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("wire", "plans", "twice"),
    [
        ("openai", SLOW, False),
        ("openai", EXPIRES, True),
        ("gemini", SLOW, False),
    ],
)
def test_a_kill_at_any_step_never_pays_twice(
    tmp_path: Path, wire: str, plans: list[dict[str, Any]], twice: bool
) -> None:
    found = lives(tmp_path, wire, plans, twice=twice)
    assert len(found) > 30
    assert found[-1]["codes"] == [0]  # the life that nobody ended shows that all steps were tried
    for life in found[:-1]:
        assert life["codes"][0] == -9 and life["codes"][-1] == 0, life["die"]
        state = life["state"]
        told = f"killed at step {life['die']}"
        assert len(state["carried_out"]) == 4, told
        assert set(state["carried_out"].values()) == {1}, told
        times = Counter(key for batch in state["batches"] for key in batch["keys"])
        again = {key for key, count in times.items() if count > 1}
        if plans is EXPIRES:  # one of three calls was not carried out, and only that goes again
            assert len(again) == 1 and max(times.values()) == 2, told
        else:
            assert not again, told
        intents = [batch["intent"] for batch in state["batches"]]
        assert len(intents) == len(set(intents)), told
        keys: list[str] = []
        for path in (tmp_path / str(life["die"]) / "answers").glob("*.jsonl"):
            keys += [json.loads(row)["key"] for _, row in JournalFile(path).payloads()]
        assert len(keys) == len(set(keys)) == 4, told


@pytest.mark.timeout(400)
def test_a_kill_after_a_full_queue_makes_no_second_batch_of_the_same(tmp_path: Path) -> None:
    found = lives(tmp_path, "openai", QUEUED, twice=False)
    assert len(found) > 20
    for life in found:
        state, told = life["state"], f"killed at step {life['die']}"
        assert set(state["carried_out"].values()) == {1}, told
        # But for the batch that failed for the queue, each call stands in one alone.
        made = [batch for batch in state["batches"] if batch["status"] != "failed"]
        assert set(Counter(key for batch in made for key in batch["keys"]).values()) == {1}, told
