"""Labels go out as files and come in again, and a file counts as the job that it was made of."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leakgrid.datasets.cimemories import load_profiles
from leakgrid.datasets.cimemories_labels import LabelLine, load_labels
from leakgrid.jobs import dataexport
from leakgrid.outcomes import DatasetError
from leakgrid.store.ingest import ingest, open_file
from tests.dialogue_cells import SAMPLE
from tests.dialogue_project import DialogueProject
from tests.dialogue_world import PERSONAS, LabelWorld

SETS = (
    "SELECT profile, context, attribute, label_set, label_set_unfiltered, labelled, "
    "round(value_necessary, 9) AS necessary, round(value_inappropriate, 9) AS inappropriate "
    "FROM label WHERE job = 'job' ORDER BY ALL"
)


def noisy(samples: int = 3, **changes: Any) -> dict[str, Any]:
    """A labelling job some of whose answers are wrong, and some no samples at all."""
    labeller = {"sim-labeller": {"noise": 0.05, "unparsable": 0.1, "both": 0.05}}
    return {
        "job": {"samples": samples},
        "simulated": {"labellers": labeller},
        "subset": {"contexts": 3},
        **changes,
    }


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> DialogueProject:
    """A project with labels of a job, and a dialogue job over them."""
    project = DialogueProject(
        tmp_path_factory.mktemp("labelled") / "project",
        subset={"contexts": 3, "instances": None},
        job={"limit": 12},
        labels={"file": None, "job": "labels-demo", "threshold": 0.6},
        simulated={"labels": "labels.jsonl"},
        judges={"reveal": {"speakers": "sender", "batch": 50}},
    )
    project.write_labels_job("labels-demo", **noisy())
    for job in ("labels-demo", "job"):
        assert project.main("run", f"jobs/{job}.toml", "--quiet") == 0
    return project


def lines(path: Path) -> dict[tuple[str, str, str], LabelLine]:
    """A label file by identity."""
    found = load_labels(path, load_profiles(SAMPLE / "profiles.json"))
    return {(line.profile, line.context, line.attribute): line for line in found.lines}


def test_an_exported_file_gives_the_label_sets_of_its_job(
    labelled: DialogueProject, capsys: pytest.CaptureFixture[str]
) -> None:
    of_job = labelled.rows(SETS)
    # Ingrid's and her contexts: limit = 12 keeps one sender's first dialogues.
    assert {row["label_set"] for row in of_job} >= {"necessary", "inappropriate", "ambiguous"}
    assert any(0 < row["inappropriate"] < 1 for row in of_job)
    assert labelled.main("data", "export", "labels", "labels-demo", "--out", "out.jsonl") == 0
    told = capsys.readouterr().out
    assert "12 contexts, " in told and "written to out.jsonl" in told
    labelled.write_job(
        "job",
        subset={"contexts": 3, "instances": None},
        job={"limit": 12},
        labels={"file": "out.jsonl", "threshold": 0.6},
        simulated={"labels": "labels.jsonl"},
        judges={"reveal": {"speakers": "sender", "batch": 50}},
    )
    assert labelled.main("run", "jobs/job.toml", "--quiet") == 0
    assert "0 calls sent" in capsys.readouterr().out
    assert labelled.rows(SETS) == of_job


def test_every_share_is_of_the_samples_that_could_be_read(labelled: DialogueProject) -> None:
    assert labelled.main("data", "export", "labels", "labels-demo", "--out", "again.jsonl") == 0
    found = lines(labelled.folder / "again.jsonl")
    votes = labelled.rows(
        "SELECT profile, context, attribute, persona, share_necessary, share_inappropriate "
        "FROM vote_share WHERE job = 'labels-demo'"
    )
    unparsed = labelled.rows(
        "SELECT sum(unparsed) AS n, min(parsed) AS least FROM label_sample "
        "WHERE job = 'labels-demo'"
    )[0]
    assert unparsed["n"] > 0 and unparsed["least"] > 0
    assert len(votes) > 500
    for vote in votes:
        shares = found[vote["profile"], vote["context"], vote["attribute"]].shares
        pair = (vote["share_necessary"], vote["share_inappropriate"])
        assert shares[vote["persona"]] == pytest.approx(pair)
    # A line for all that any sample listed, and no other.
    listed = {(vote["profile"], vote["context"], vote["attribute"]) for vote in votes}
    assert {key for key in found if key[2]} == listed


def test_released_labels_go_out_and_come_in_again(
    labelled: DialogueProject, capsys: pytest.CaptureFixture[str]
) -> None:
    export = ("data", "export", "released-labels", "labels-demo", "--out", "released.json")
    assert labelled.main(*export, "--profiles", "profiles.json") == 0
    assert "12 contexts written to released.json" in capsys.readouterr().out
    document = json.loads((labelled.folder / "released.json").read_text())
    assert len(document) == 4 and all(len(profile["contexts"]) == 3 for profile in document)
    assert all("labels_combined" in context for context in document[0]["contexts"])
    back = ("data", "import", "cimemories-labels", "released.json", "--out", "back.jsonl")
    assert labelled.main(*back, "--profiles", "profiles.json") == 0
    assert "written to back.jsonl" in capsys.readouterr().out
    assert labelled.main("data", "export", "labels", "labels-demo", "--out", "ours.jsonl") == 0
    ours, theirs = (lines(labelled.folder / name) for name in ("ours.jsonl", "back.jsonl"))
    assert theirs.keys() == ours.keys()
    for key, line in ours.items():
        for persona, (necessary, inappropriate) in line.shares.items():
            # The released form has no room for both: what is necessary is not private.
            expected = (necessary, min(inappropriate, 1 - necessary))
            assert theirs[key].shares[persona] == pytest.approx(expected, abs=1e-9)


def test_labels_of_one_persona_alone_are_no_label_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A label file needs all three: what was never asked must not read as never listed."""
    project = DialogueProject(tmp_path)
    project.write_labels_job(job={"conditions": ["pragmatic"]}, subset={"contexts": 1})
    assert project.main("run", "jobs/labels.toml", "--quiet") == 0
    code = project.main("data", "export", "labels", "labels", "--out", "out.jsonl")
    said = capsys.readouterr()
    assert code == 2, said.out
    assert "fundamentalist, unconcerned" in said.err
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize("some", [True, False])
def test_an_unfinished_job_leaves_contexts_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, some: bool
) -> None:
    """Labels of the samples that are there would be harder than those of all."""
    made = LabelWorld({"ann": ("a", "b"), "bob": ("a",)}, ["c00"], samples=2)
    made.plan_labels()
    for name in ("ann", "bob") if some else ("ann",):
        for persona in PERSONAS:
            for number in range(2):
                if (name, persona, number) != ("ann", "pragmatic", 1):
                    made.sample(name, "c00", persona, number, "a")
    ingest(tmp_path, tmp_path / "x.duckdb", **made.tools)

    @contextlib.contextmanager
    def live(cache: Path) -> Iterator[Any]:
        with open_file(cache / "x.duckdb", 5, read_only=True) as connection:
            yield connection

    monkeypatch.setattr(dataexport, "_live", live)
    target, out = tmp_path / "out.jsonl", io.StringIO()
    if not some:
        with pytest.raises(DatasetError, match="samples of every context are missing"):
            dataexport.export("labels", "labels", tmp_path, target, None, out)
        assert not target.exists()
        return
    dataexport.export("labels", "labels", tmp_path, target, None, out)
    assert [json.loads(line)["profile"] for line in target.read_text().splitlines()] == ["bob"]
    assert "1 contexts, 3 shares written" in out.getvalue()
    assert "1 contexts left out: samples of them are missing" in out.getvalue()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("labels", "labels-dmeo"), "job labels-dmeo: no labels; name a job of the benchmark"),
        (("labels", "job"), "job job: no labels; name a job of the benchmark ci-labels"),
        (("released-labels", "labels-dmeo", "--profiles", "profiles.json"), "no labels"),
        (("released-labels", "labels-demo"), "give --profiles FILE"),
        (("released-labels", "labels-demo", "--profiles", "gone.json"), "gone.json"),
        (("items", "nothing"), "job nothing: no finished cell; run the job first"),
        (("labels", "labels-demo", "--out", "nowhere/out.jsonl"), "nowhere/out.jsonl"),
    ],
)
def test_what_cannot_be_exported_is_one_message_and_2(
    labelled: DialogueProject, capsys: pytest.CaptureFixture[str], words: Any, told: str
) -> None:
    capsys.readouterr()
    out = () if "--out" in words else ("--out", "wrong.out")
    assert labelled.main("data", "export", *words, *out) == 2
    said = capsys.readouterr()
    assert said.err.startswith("leakgrid: ") and told in said.err
    assert "Traceback" not in said.err and said.out == ""
    assert not (labelled.folder / "wrong.out").exists()


def test_data_check_tells_what_the_sample_holds(capsys: pytest.CaptureFixture[str]) -> None:
    from leakgrid.cli import main

    assert main(["data", "check", str(SAMPLE / "profiles.json")]) == 0
    told = capsys.readouterr().out
    assert "4" in told and "8" in told and "oddit" in told
    profiles = load_profiles(SAMPLE / "profiles.json")
    for oddity in profiles.oddities:
        assert oddity in told


def test_labels_come_in_for_the_right_profiles_only(
    labelled: DialogueProject, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plain profiles hold no labels, and a source that is not there is named."""
    shutil.copy(SAMPLE / "profiles.json", tmp_path / "plain.json")
    back = ("--profiles", "profiles.json", "--out", "imported.jsonl")
    for source, told in (
        (str(tmp_path / "plain.json"), "found no labels for these profiles"),
        ("gone.json", "gone.json"),
    ):
        assert labelled.main("data", "import", "cimemories-labels", source, *back) == 2
        assert told in capsys.readouterr().err
    assert labelled.main("data", "import", "cimemories-labels", "x", "--out", "y") == 2
    assert "give their file with --profiles" in capsys.readouterr().err
    assert not (labelled.folder / "imported.jsonl").exists()
