"""What a job may say of `redact`: its engine, and where it blanks; Presidio is an extra."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from leakgrid.benchmarks.defences import presidio
from leakgrid.benchmarks.defences.redact import Redaction
from leakgrid.benchmarks.muppet.program import Muppet
from leakgrid.jobs.jobfile import load_job
from leakgrid.outcomes import JobError
from leakgrid.types import Answer, Call
from tests.defence_world import PROMPTS, SECRET, answered, digest, muppet, run
from tests.project import Project

MAIL = "ana@corp.example.com"


def world(folder: Path, **how: Any) -> Muppet:
    """One item, with `redact` as a job's table sets it."""
    plain = muppet(folder)
    path = folder / "one-item.jsonl"
    return Muppet(path, PROMPTS, ("none", "redact"), plain.panel.judges, None, options(**how))


def options(**how: Any) -> dict[str, Redaction]:
    return {"redact": Redaction(**how)}


def with_mail(call: Call) -> Answer:
    return answered(call, text=f"Bo, mail {MAIL}.")


def load(folder: Path, **table: Any) -> Any:
    """The options that a job file with this table gives. Raises JobError."""
    made = Project(folder, job={"defences": ["none", "redact"]}, defences={"redact": table})
    return load_job(made.folder / "jobs" / "job.toml").settings[1]


def test_the_usual_engine_is_the_own_patterns_and_a_table_that_says_so_changes_nothing(
    tmp_path: Path,
) -> None:
    assert load(tmp_path / "a") == options()
    assert load(tmp_path / "b", engine="patterns", on=["reply", "notes"]) == options()
    plain, told = muppet(tmp_path, "redact"), world(tmp_path)
    assert plain.texts("redact", "group") == told.texts("redact", "group")
    # The version of an undisturbed job: another would ask for all its cells anew.
    assert told.defences["redact"].version == ["program", "redact", 1]
    assert digest(run(plain, "redact")[1]) == digest(run(told, "redact")[1])


def test_the_reply_alone_is_redacted_after_the_call_of_none(tmp_path: Path) -> None:
    made = world(tmp_path, on=("reply",))
    record, calls = run(made, "redact", answer=with_mail)
    assert record.reply == "Bo, mail <EMAIL>." and MAIL in record.extra["before"]
    assert digest(calls) == digest(run(made, "none")[1])


def test_the_notes_alone_are_redacted_and_the_reply_stays(tmp_path: Path) -> None:
    record, (call,) = run(world(tmp_path, on=("notes",)), "redact", answer=with_mail)
    assert "Ana told <PERSON>" in call.messages[0].text and SECRET in call.messages[0].text
    assert record.reply == f"Bo, mail {MAIL}." and "before" not in record.extra


def test_where_it_blanks_is_part_of_the_fingerprint_of_its_cells_alone(tmp_path: Path) -> None:
    made = [world(tmp_path, on=on) for on in (("notes", "reply"), ("notes",), ("reply",))]
    assert len({str(one.texts("redact", "group")) for one in made}) == 3
    assert len({str(one.texts("none", "group")) for one in made}) == 1


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"engine": "regex"}, r"defences\.redact\.engine: 'regex' is not known here; .*presidio"),
        ({"on": ["note"]}, r"defences\.redact\.on: 'note' does not fit; .*notes, reply, or both"),
        ({"on": []}, r"defences\.redact\.on: "),
        ({"spacy_model": "en_core_web_lg"}, "only the engine 'presidio' uses a spaCy model"),
        ({"spacy": "en_core_web_lg"}, r"defences\.redact\.spacy: .*did you mean 'spacy_model'"),
    ],
)
def test_a_wrong_table_is_told_with_its_line(
    tmp_path: Path, table: dict[str, Any], told: str
) -> None:
    with pytest.raises(JobError, match=rf"job\.toml:\d+: .*{told}"):
        load(tmp_path, **table)


def test_other_defences_and_other_benchmarks_take_no_table(tmp_path: Path) -> None:
    made = Project(tmp_path, defences={"minimiser": {"engine": "patterns"}})
    with pytest.raises(JobError, match=r"defences\.minimiser: no defence but redact takes options"):
        load_job(made.folder / "jobs" / "job.toml")
    made.write_job(job={"benchmark": "muppet-generate"}, defences={"redact": {}})
    with pytest.raises(JobError, match="'defences' is not known here"):
        load_job(made.folder / "jobs" / "job.toml")


def test_without_the_extra_the_job_file_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presidio, "PACKAGES", ("no-such-analyzer", *presidio.PACKAGES[1:]))
    with pytest.raises(JobError) as caught:
        load(tmp_path / "job", engine="presidio")
    assert "job.toml:" in str(caught.value)
    assert "defences.redact.engine: 'presidio' needs the package no-such-analyzer; " in str(
        caught.value
    )
    assert "pip install 'leakgrid[redact]'" in str(caught.value)
    # And where a benchmark is made without a job file.
    with pytest.raises(JobError, match=r"pip install 'leakgrid\[redact\]'"):
        world(tmp_path, engine="presidio")
    # The own patterns need none of it.
    assert load(tmp_path / "own", engine="patterns") == options()


def test_every_version_that_decides_what_is_blanked_is_part_of_the_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply is redacted after its call, so no request would tell of another Presidio."""
    installed = dict.fromkeys(presidio.PACKAGES, "1.0")
    monkeypatch.setattr(metadata, "version", installed.__getitem__)

    def texts() -> str:
        return str(world(tmp_path, engine="presidio", on=("reply",)).texts("redact", "group"))

    before = texts()
    assert before != str(world(tmp_path, on=("reply",)).texts("redact", "group"))
    assert texts() == before
    for package in presidio.PACKAGES:
        installed[package] = "1.1"
        assert texts() != before, package
        installed[package] = "1.0"
    monkeypatch.setattr(presidio, "VERSION", 2)
    assert texts() != before
