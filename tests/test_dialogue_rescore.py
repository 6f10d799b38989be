"""What a text means may change at no cost: another parser, other labels, weights or threshold."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from leakgrid.benchmarks.dialogue import reveal
from leakgrid.benchmarks.dialogue.degrees import FULL, PARTIAL, Said, Words
from leakgrid.benchmarks.dialogue.degrees import read as usual_read
from leakgrid.providers.simulated.process import Running, running
from tests.dialogue_cells import SAMPLE
from tests.dialogue_project import DialogueProject, at_server
from tests.project import stats

MODELS = ("sim-open", "sim-discreet", "sim-judge")
SMALL: dict[str, Any] = {
    "job": {"turns": [2]},
    "subset": {"instances": 8},
    "judges": {"reveal": {"speakers": "sender", "level": "both"}},
    "simulated": {"labels": "planted.jsonl"},
}
"""The truth has a file of its own: a label file that plants it too would change the answers."""

RATES = (
    "SELECT item, leak_full, leak_total, completeness, n_necessary, n_inappropriate "
    "FROM dialogue_instance WHERE job = 'job' ORDER BY ALL"
)
SETS = (
    "SELECT profile, context, label_set, count(*) AS n FROM label WHERE job = 'job' "
    "GROUP BY ALL ORDER BY ALL"
)


def planted(folder: Path) -> DialogueProject:
    """A project whose truth is in planted.jsonl."""
    shutil.copy(SAMPLE / "labels.jsonl", folder / "planted.jsonl")
    return DialogueProject(folder, **SMALL)


@pytest.fixture
def finished(tmp_path: Path) -> Iterator[tuple[DialogueProject, Running]]:
    """A job that is done, at a server that goes on counting."""
    project = planted(tmp_path)
    with running(project.table()) as server:
        project.write_job(**{**SMALL, "models": at_server(server.base_url, *MODELS)})
        assert project.main("run", "jobs/job.toml", "--quiet") == 0
        yield project, server


def again(
    finished: tuple[DialogueProject, Running], capsys: pytest.CaptureFixture[str], **changes: Any
) -> str:
    """Run the job with other [labels]; no call may be sent. What the run printed."""
    project, server = finished
    before = stats(server.root_url)["received"]
    if changes:
        project.write_job(
            **{**SMALL, "models": at_server(server.base_url, *MODELS), "labels": changes}
        )
    capsys.readouterr()
    assert project.main("run", "jobs/job.toml", "--quiet") == 0
    assert stats(server.root_url)["received"] == before
    printed = capsys.readouterr().out
    assert "0 calls sent" in printed
    return printed


def test_another_parser_scores_a_finished_run_again_without_a_call(
    finished: tuple[DialogueProject, Running],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project, _ = finished
    before = project.rows(RATES)
    assert all(row["leak_total"] is not None for row in before)
    assert any(row["leak_total"] > row["leak_full"] for row in before)
    said = project.rows("SELECT item, turn, speaker, text FROM utterance ORDER BY ALL")

    def strict(text: str, count: int, words: Words) -> list[Said]:
        """A parser for which whatever is hinted at is told."""
        return [
            replace(one, degree=FULL) if one.degree == PARTIAL else one
            for one in usual_read(text, count, words)
        ]

    kinds = {"reveal": replace(reveal.JUDGES["reveal"], parser="reveal-strict")}
    monkeypatch.setattr(reveal, "JUDGES", kinds)
    monkeypatch.setattr(reveal, "PARSER", "reveal-strict")
    monkeypatch.setattr(reveal, "read", strict)
    printed = again(finished, capsys)
    assert "8 of 8 open cells done" in printed
    after = project.rows(RATES)
    assert [row["leak_full"] for row in after] == [row["leak_total"] for row in before]
    assert after != before
    new = project.rows(
        "SELECT DISTINCT parser FROM hearing h JOIN dialogue_cell c USING (stem, ordinal)"
    )
    assert new == [{"parser": "reveal-strict"}]
    texts = "SELECT DISTINCT item, turn, speaker, text FROM utterance ORDER BY ALL"
    assert project.rows(texts) == said
    # Back at the first parser its records still stand.
    monkeypatch.undo()
    assert "0 of 0 open cells done" in again(finished, capsys)
    assert project.rows(RATES) == before


def numbers(rows: Sequence[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


def test_another_threshold_or_weight_decides_the_labels_anew_without_a_call(
    finished: tuple[DialogueProject, Running], capsys: pytest.CaptureFixture[str]
) -> None:
    project, _ = finished
    at_one = project.rows(RATES), project.rows(SETS)
    file = {"file": "labels.jsonl"}
    again(finished, capsys, **file, threshold=0.5)
    at_half = project.rows(RATES), project.rows(SETS)
    assert at_half[1] != at_one[1] and at_half[0] != at_one[0]
    # At 0.5 whatever the pragmatic majority says counts: no set shrinks, and some grow.
    for name in ("n_necessary", "n_inappropriate"):
        pairs = list(zip(numbers(at_one[0], name), numbers(at_half[0], name), strict=True))
        assert all(one <= half for one, half in pairs) and any(one < half for one, half in pairs)
    assert numbers(at_half[0], "leak_full") != numbers(at_one[0], "leak_full")

    weights = {"fundamentalist": 0.1, "pragmatic": 0.1, "unconcerned": 0.8}
    again(finished, capsys, **file, threshold=0.5, weights=weights)
    open_handed = project.rows(RATES), project.rows(SETS)
    assert open_handed[1] != at_half[1] and open_handed[0] != at_half[0]
    # Where all must agree weights cannot matter; and back at the first rule all is as it was.
    weights["unconcerned"] = 0.8
    again(finished, capsys, **file, threshold=1.0, weights=weights)
    assert (project.rows(RATES), project.rows(SETS)) == at_one
    again(finished, capsys, **file)
    assert (project.rows(RATES), project.rows(SETS)) == at_one


def test_a_changed_label_file_counts_without_a_call(
    finished: tuple[DialogueProject, Running], capsys: pytest.CaptureFixture[str]
) -> None:
    project, _ = finished
    before = project.rows(RATES)
    path = project.folder / "labels.jsonl"
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    turned = 0
    for line in lines:
        # What everybody found necessary nobody does any more: the two sets change places.
        for persona, pair in line.get("shares", {}).items():
            line["shares"][persona] = pair[::-1]
            turned += pair[0] != pair[1]
    assert turned > 100
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    again(finished, capsys)
    after = project.rows(RATES)
    assert numbers(after, "n_necessary") != numbers(before, "n_necessary")
    assert after != before
    # And nothing is done again where nothing has changed.
    assert "all 8 cells are done; 0 calls sent" in again(finished, capsys)


def test_labels_of_a_job_are_weighed_anew_without_a_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Labels that simulated personas gave: ambiguous ones hang on weights and threshold."""
    project = planted(tmp_path)
    project.write_labels_job(job={"samples": 4})
    rule = {"file": None, "job": "labels"}
    project.write_job(**{**SMALL, "labels": rule})
    for job in ("labels", "job"):
        assert project.main("run", f"jobs/{job}.toml", "--quiet") == 0
    before = project.rows(RATES), project.rows(SETS)
    assert not any(row["label_set"] is None for row in before[1])
    # The simulated server is started by the run itself; a call would be told.
    project.write_job(**{**SMALL, "labels": {**rule, "threshold": 0.4}})
    capsys.readouterr()
    assert project.main("run", "jobs/job.toml", "--quiet") == 0
    assert "0 calls sent" in capsys.readouterr().out
    assert project.rows(SETS) != before[1] and project.rows(RATES) != before[0]
