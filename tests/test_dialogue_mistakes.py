"""What a user of dialogues can get wrong: one message that names file, line and key, and code 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.dialogue_cells import SAMPLE
from tests.dialogue_project import DialogueProject

MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "0 among rounds": (
        {"job": {"turns": [0, 1]}},
        "job.turns: [0, 1]: 0 (a single message) stands alone, in a job of its own",
    ),
    "receivers of a single message": (
        {"job": {"turns": [0], "conditions": ["base"]}},
        "job.receivers: with turns = [0] nobody answers; leave this key out",
    ),
    "no receivers": (
        {"job": {"receivers": None}},
        "job: the key 'receivers' is missing; it must be a list of names",
    ),
    "no such receiver": (
        {"job": {"receivers": ["sim-shy"]}},
        "job.receivers: 'sim-shy' is not known here",
    ),
    "turns": (
        {"job": {"turns": [-1]}},
        "job.turns: [-1] does not fit; it must be a list of whole numbers of at least 0",
    ),
    "turns twice": ({"job": {"turns": [6, 6]}}, "job.turns: [6, 6] names something twice"),
    "condition": (
        {"job": {"conditions": ["pc3"]}},
        "job.conditions: 'pc3' is not known here; did you mean 'pc",
    ),
    "condition of single messages": (
        {"job": {"conditions": ["base"]}},
        "job.conditions: 'base' is not known here; allowed: pc0, pc1, pc2",
    ),
    "file and job": (
        {"labels": {"job": "labels"}},
        "labels: needs either file or job",
    ),
    "neither file nor job": (
        {"labels": {"file": None, "threshold": 1.0}},
        "labels: needs either file or job",
    ),
    "no labels": ({"labels": None}, "the table [labels] is missing"),
    "label file that is not there": (
        {"labels": {"file": "gone.jsonl"}},
        "labels.file: ",
    ),
    "threshold": (
        {"labels": {"threshold": 2}},
        "labels.threshold: 2 does not fit; it is above 0 and at most 1",
    ),
    "weights": (
        {"labels": {"weights": {"pragmatc": 1}}},
        "labels.weights.pragmatc: 'pragmatc' is not known here; did you mean 'pragmatic'?",
    ),
    "no weight": ({"labels": {"weights": {"pragmatic": 0}}}, "their sum is 0; it must be 1"),
    "weights in per cent": (
        {"labels": {"weights": {"fundamentalist": 26, "pragmatic": 64, "unconcerned": 10}}},
        "their sum is 100; it must be 1",
    ),
    "basics": ({"labels": {"basics": "none"}}, "labels.basics: 'none' is not known here"),
    **{
        f"subset of {number} {key}": (
            {"subset": {key: number}},
            f"subset.{key}: {number} does not fit; it must be a whole number of at least 1",
        )
        for key in ("profiles", "contexts", "instances")
        for number in (-3, 0)
    },
    "judge of another benchmark": (
        {"job": {"judges": ["leak"]}, "judges": {"leak": {"model": "sim-judge"}}},
        "judges.leak: needs a kind; allowed: reveal",
    ),
    "judge option": (
        {"judges": {"reveal": {"level": "turns"}}},
        "judges.reveal.level: 'turns' is not known here; did you mean 'turn'?",
    ),
    "batch": (
        {"judges": {"reveal": {"batch": 0}}},
        "judges.reveal.batch: 0 does not fit; it must be a whole number of at least 1",
    ),
    "agent": (
        {"simulated": {"agents": {"sim-open": {"necessary": 2}}}},
        "simulated.agents.sim-open.necessary",
    ),
    "no data": ({"job": {"dataset": "gone.json"}}, "gone.json does not exist"),
}


def refused(project: DialogueProject, capsys: pytest.CaptureFixture[str]) -> str:
    """What both plan and run say, which must do nothing else."""
    told = ""
    for command in ("plan", "run"):
        capsys.readouterr()
        assert project.main(command, "jobs/job.toml") == 2
        said = capsys.readouterr()
        assert "Traceback" not in said.err and not said.out
        told = said.err
    assert not (project.folder / "cache").exists()
    return told


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_in_a_job_names_file_line_and_key(
    tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    changes, told = MISTAKES[case]
    said = refused(DialogueProject(tmp_path, **changes), capsys)
    assert told in said
    assert "jobs/job.toml" in said


def test_all_mistakes_of_a_job_are_told_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = DialogueProject(
        tmp_path,
        job={"turns": [0, 1], "conditions": ["pc9"]},
        labels={"threshold": 2, "job": "labels"},
    )
    said = refused(project, capsys)
    for key in ("job.turns", "job.conditions", "labels.threshold", "labels: needs either"):
        assert key in said


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("information_attributes",), {}, "information_attributes"),
        (("information_attributes", "FIRST", "memory_statement"), 7, "memory_statement"),
        (("bio", "name"), "", "bio.name"),
        (("contexts",), "none", "contexts"),
    ],
)
def test_a_broken_profile_is_named_with_its_key(
    tmp_path: Path,
    path: tuple[str, ...],
    value: Any,
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    project = DialogueProject(tmp_path)
    document = json.loads((SAMPLE / "profiles.json").read_text())
    inside = document[1]
    for key in path[:-1]:
        inside = inside[next(iter(inside)) if key == "FIRST" else key]
    inside[path[-1]] = value
    (tmp_path / "profiles.json").unlink()
    (tmp_path / "profiles.json").write_text(json.dumps(document))
    said = refused(project, capsys)
    assert "profiles.json: profile 2" in said and told in said
    assert project.main("data", "check", "profiles.json") == 2
    assert told in capsys.readouterr().err


def test_labels_of_other_profiles_are_refused_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = DialogueProject(tmp_path)
    labels = tmp_path / "labels.jsonl"
    labels.write_text(labels.read_text() + '{"profile": "nobody", "context": "c00"}\n')
    number = len(labels.read_text().splitlines())
    said = refused(project, capsys)
    assert f"labels.jsonl:{number}" in said and "nobody" in said


def test_one_profile_has_nobody_to_talk_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(DialogueProject(tmp_path, subset={"profiles": 1}), capsys)
    assert "one profile alone has nobody to talk to" in said


def test_a_prompt_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(DialogueProject(tmp_path, job={"prompts": "nowhere"}), capsys)
    assert "nowhere/" in said and "cannot be read" in said


def test_labels_of_a_job_that_never_ran_leave_everything_unlabelled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No labels is no zero: every rate is empty, and the counts say why."""
    project = DialogueProject(
        tmp_path,
        subset={"instances": 2},
        labels={"file": None, "job": "never-ran"},
        judges={"reveal": {"batch": 50, "speakers": "sender"}},
        simulated={"labels": "labels.jsonl"},
    )
    assert project.main("run", "jobs/job.toml", "--quiet") == 0
    found = project.rows(
        "SELECT leak_state, completeness_state, leak_full, completeness, n_necessary, "
        "n_inappropriate FROM dialogue_instance WHERE job = 'job'"
    )
    nothing = dict.fromkeys(("leak_full", "completeness", "n_necessary", "n_inappropriate"))
    state = {"leak_state": "unlabelled", "completeness_state": "unlabelled"}
    assert found == [{**state, **nothing}] * 2
