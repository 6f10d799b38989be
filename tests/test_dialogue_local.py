"""A real model on this machine talks, judges and labels: whatever it says, nothing is made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leakgrid.providers.local_weights import CONTEXT
from tests.dialogue_cells import REAL
from tests.dialogue_project import DIALOGUE, LABELS, DialogueProject, needs_real
from tests.test_local_model import FOLDER, local_only

KEPT = 12
"""So many attributes of the receiver: a base model on a shared processor reads 100 tokens a second.

The sender, whose disclosures are judged and labelled, keeps the whole profile."""

GEMMA: dict[str, Any] = {
    "provider": "local",
    "model": "gemma-3-270m",
}
MODELS = {
    "gemma": {**GEMMA, "params": {"temperature": 0.0, "max_tokens": 40, "stop": ["\n\n"]}},
    "gemma-judge": {**GEMMA, "params": {"temperature": 0.0, "max_tokens": 160}},
}


def first_facts(folder: Path) -> Path:
    """Two released people, the second with the first attributes only, and two of their contexts."""
    document = json.loads(REAL.read_text())[:2]
    facts = document[1]["information_attributes"]
    document[1]["information_attributes"] = dict(list(facts.items())[:KEPT])
    for person in document:
        person["contexts"] = person["contexts"][:2]
    path = folder / "real.json"
    path.write_text(json.dumps(document))
    return path


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> DialogueProject:
    """Both contexts of the first person held, judged and labelled by the embedded model."""
    folder = tmp_path_factory.mktemp("local")
    project = DialogueProject(folder / "project", profiles=first_facts(folder))
    # Weights are put together once for all tests.
    FOLDER.mkdir(parents=True, exist_ok=True)
    (project.folder / "cache").mkdir()
    (project.folder / "cache" / "models").symlink_to(FOLDER.resolve())
    nothing = dict.fromkeys((*DIALOGUE["models"], *LABELS["models"]))
    project.write_labels_job(
        job={"models": ["gemma-judge"], "conditions": ["pragmatic"], "samples": 1},
        models={**nothing, **MODELS},
        simulated=None,
        subset={"profiles": 1},
    )
    project.write_job(
        job={"models": ["gemma"], "receivers": ["gemma"], "turns": [1], "limit": 2},
        subset={"instances": None},
        labels={"file": None, "job": "labels", "weights": {"pragmatic": 1.0}},
        models={**nothing, **MODELS},
        judges={
            "reveal": {"model": "gemma-judge", "batch": 10, "retries": 0, "speakers": "sender"}
        },
        simulated=None,
    )
    for job in ("labels", "job"):
        assert project.main("run", f"jobs/{job}.toml", "--quiet") == 0
    return project


pytestmark = [pytest.mark.local, pytest.mark.timeout(600), local_only, needs_real]


def test_two_contexts_go_through_conversation_judge_and_labels(done: DialogueProject) -> None:
    cells = done.rows("SELECT * FROM dialogue_cell WHERE job = 'job'")
    assert len(cells) == 2 and len({cell["context"] for cell in cells}) == 2
    assert {cell["status"] for cell in cells} == {"done"}
    assert not any(cell["simulated"] for cell in cells)
    samples = done.rows("SELECT * FROM label_cell WHERE job = 'labels'")
    assert len(samples) == 2
    assert all(sample["state"] == "parsed" or sample["why"] for sample in samples)
    said = done.rows("SELECT * FROM utterance")
    assert {row["turn"] for row in said} == {1} and "sender" in {row["speaker"] for row in said}


def test_every_verdict_is_read_or_unknown_for_a_reason(done: DialogueProject) -> None:
    degrees = done.rows("SELECT * FROM dialogue_degree WHERE job = 'job' AND speaker = 'sender'")
    whole = json.loads(REAL.read_text())[0]["information_attributes"]
    assert len(degrees) == 2 * len(whole)
    for row in degrees:
        assert row["degree"] in ("full", "partial", "none", "unknown")
        if row["degree"] == "unknown":
            assert row["why"]
        if row["degree"] in ("full", "partial"):
            assert row["evidence"]
    # "Not disclosed" was said in so many words by a judge that was asked, or the sender was silent.
    heard = done.rows("SELECT * FROM dialogue_hearing WHERE job = 'job' AND speaker = 'sender'")
    silent = {row["item"]: row["whole"] for row in heard}
    assert all(silent[row["item"]] for row in degrees if row["degree"] == "none")
    answers = done.rows("SELECT outcome, count(*) AS n FROM response GROUP BY ALL")
    assert {row["outcome"] for row in answers} <= {"answer", "truncated"}


def test_nothing_is_scored_by_failure(done: DialogueProject) -> None:
    """Rates are of known values; a broken dialogue or an unlabelled context has none."""
    for row in done.rows(
        "SELECT i.*, c.sound FROM dialogue_instance i JOIN dialogue_cell c "
        "USING (job, column_id, item, digest) WHERE i.job = 'job'"
    ):
        assert (row["leak_full"] is None) == (row["leak_state"] != "valid")
        assert (row["completeness"] is None) == (row["completeness_state"] != "valid")
        if not row["sound"]:
            assert row["leak_state"] in ("invalid", "undefined", "unlabelled")
        if row["leak_full"] is not None:
            assert 10 * row["leak_unknown"] <= row["n_inappropriate"]


def test_a_whole_released_profile_fits_the_embedded_servers_context() -> None:
    """The longest requests of a real person: 49 contexts differ by a line only."""
    most = max(
        sum(len(fact["memory_statement"]) + 5 for fact in person["information_attributes"].values())
        for person in json.loads(REAL.read_text())
    )
    # Two characters a token is fewer than any text of this file has, and 2,000 are left.
    assert most / 2 + 2000 < CONTEXT
