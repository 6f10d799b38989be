"""Names are names and never paths; a limit of nothing is a mistake and never everything."""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from leakgrid.jobs.jobfile import Job, load_job
from leakgrid.jobs.names import NAME, as_file
from leakgrid.outcomes import JobError
from tests.project import ROOT, Project, toml

SAFE = string.ascii_letters + string.digits
NOT_NAMES = (
    "../../x", "a/b", "a\\b", "/x", ".", "..", ".hidden", "-x", "_x", " x", "x\n", "x\ty", "x\0",
    "ü", "a:b", "a*", "a" * 81, "ü" * 200,
)  # fmt: skip


def load(project: Project, file: str = "job.toml") -> Job:
    return load_job(project.folder / "jobs" / file)


@pytest.mark.parametrize("name", NOT_NAMES)
def test_a_name_that_could_be_a_path_is_a_mistake(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path, job={"name": name})
    told = rf"job\.toml:\d+: job\.name: {re.escape(repr(name))} does not fit; it must be at most 80"
    with pytest.raises(JobError, match=told):
        load(project)


def test_an_empty_name_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"job\.name: '' does not fit; it must be a string"):
        load(Project(tmp_path, job={"name": ""}))


@pytest.mark.parametrize("stem", ["ü", ".x", "a" * 81])
def test_a_files_own_name_is_held_to_the_same_and_a_name_in_it_helps(
    tmp_path: Path, stem: str
) -> None:
    project = Project(tmp_path)
    text = (project.folder / "jobs" / "job.toml").read_text()
    file = project.folder / "jobs" / f"{stem}.toml"
    file.write_text(text)
    with pytest.raises(JobError, match=r"toml:1: job\.name: '.+', the file's own name, does not"):
        load_job(file)
    file.write_text(text.replace("[job]", '[job]\nname = "fine"', 1))
    assert load_job(file).name == "fine"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1, max_size=90))
def test_a_name_that_passes_names_one_file_in_its_folder(tmp_path: Path, name: str) -> None:
    if not (tmp_path / "jobs").exists():
        Project(tmp_path)
    usual = tmp_path / "jobs" / "usual.toml"
    if not usual.exists():
        usual.write_bytes((tmp_path / "jobs" / "job.toml").read_bytes())
    named = tmp_path / "jobs" / "job.toml"
    named.write_text(usual.read_text().replace("[job]", f"[job]\nname = {toml(name)}", 1))
    fits = name[0] in SAFE and len(name) <= 80 and set(name) <= set(SAFE + " ._-")
    try:
        assert load_job(named).name == name
    except JobError:
        assert not fits
    else:
        assert fits
        locked = tmp_path / "locks" / f"{name}.lock"
        assert locked.resolve().parent == (tmp_path / "locks").resolve()


def test_a_job_with_a_name_that_is_no_name_writes_nothing_anywhere(tmp_path: Path) -> None:
    project = Project(tmp_path / "deep" / "p", items=1, job={"name": "../../x"})
    before = sorted(tmp_path.rglob("*"))
    done = project.run_job()
    assert done.returncode == 2 and "job.name" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", [*NOT_NAMES, ""])
@pytest.mark.parametrize("table", ["models", "judges"])
def test_a_model_or_judge_whose_name_could_be_a_path_is_a_mistake(
    tmp_path: Path, table: str, name: str
) -> None:
    usual = {"models": {"provider": "simulated"}, "judges": {"kind": "exact"}}
    changes: dict[str, Any] = {table: {name: usual[table]}}
    project = Project(tmp_path, **changes)
    if table == "models" and name in ("a/b", "a:b"):  # hubs and servers call models like this
        assert load(project).specs[name].name == name
        return
    told = (
        rf"job\.toml:(\d+): {table}\.{re.escape(name)}: the name {re.escape(repr(name))} does not"
    )
    with pytest.raises(JobError, match=told) as refused:
        load(project)
    line = int(re.findall(told, str(refused.value))[0])
    text = (project.folder / "jobs" / "job.toml").read_text().split("\n")
    assert text[line - 1] == f"[{table}.{toml(name)}]"
    assert "the key 'model'" in str(refused.value) or "the key 'kind'" in str(refused.value)


@given(st.text(min_size=1), st.text(min_size=1))
@example("a/b", "a:b")
@example("../../x", "..")
@example("a/b", "a-b")
@example("", "model")
@example("/", ".")
@example("x" * 400, "x" * 401)
def test_a_model_of_any_name_has_a_file_of_its_own_in_the_folder(one: str, other: str) -> None:
    for name in (one, other):
        assert NAME.fullmatch(as_file(name)), "a name of a file, and as it is where it is one"
    assert (as_file(one) == as_file(other)) == (one == other)
    assert as_file("gpt-4.1 mini") == "gpt-4.1 mini"


def test_a_limit_of_nothing_is_a_mistake_and_sends_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path, job={"limit": 0})
    done = project.run_job()
    assert done.returncode == 2
    assert "job.limit: 0 does not fit; it must be a whole number of at least 1" in done.stderr
    assert not (project.folder / "cache").exists()


@pytest.mark.parametrize(("limit", "items"), [(None, 6), (1, 1), (4, 4), (99, 6)])
def test_a_limit_is_at_most_so_many_items_and_none_is_all(
    tmp_path: Path, limit: int | None, items: int
) -> None:
    from leakgrid.jobs.plan import Plan

    job = load(Project(tmp_path, job={"limit": limit}))
    assert job.limit == limit
    assert len(Plan(job).items) == items


def test_every_shipped_job_is_named_as_its_file() -> None:
    named = 0
    for path in sorted((ROOT / "jobs").glob("*.toml")):
        try:
            assert load_job(path).name == path.stem
        except JobError as error:  # one that needs a released file that is not shipped
            assert "does not exist" in str(error) and "job.name" not in str(error)
        else:
            named += 1
    assert named >= 6
