"""A byte that flips on the disk: told with what follows, and nothing false is ever shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from leakgrid.cache.framing import unseal
from leakgrid.cache.segments import seal_orphans
from tests.project import Project
from tests.test_kill_and_resume import CALLS, contents

VERDICTS = "SELECT model, defence, condition, item, judge, leaked FROM verdict_now ORDER BY ALL"


def journal(project: Project, stream: str) -> Path:
    (path,) = (project.folder / "cache" / stream).glob("*.jsonl")
    return path


def lines(path: Path) -> list[Any]:
    """The rows of a journal in order; None for a damaged one."""
    payloads = map(unseal, path.read_bytes().splitlines(keepends=True))
    return [None if payload is None else orjson.loads(payload) for payload in payloads]


def flip(path: Path, line: int) -> None:
    """Flip a bit in the middle of a line (from 0)."""
    data = bytearray(path.read_bytes())
    parts = bytes(data).splitlines(keepends=True)
    data[sum(map(len, parts[:line])) + len(parts[line]) // 2] ^= 4
    path.write_bytes(data)


def seal(project: Project) -> None:
    """Make segments of all answers and records, as a run does of full journals."""
    cache = project.folder / "cache"
    for stream in ("answers", "records"):
        seal_orphans(cache, stream, 1)
        assert not [*(cache / stream).glob("*.jsonl")]


def agree(project: Project) -> None:
    """The database as it has grown, one built anew and ``leakgrid sql`` have the same rows."""
    grown = contents(project)
    for table in ("response", "reply", "verdict", "call"):
        assert project.sql(f"SELECT count(*) AS n FROM {table}") == [{"n": len(grown[table])}]
    assert project.run("rebuild").returncode == 0
    assert contents(project) == grown


def first_reply_of(project: Project, record: int) -> int:
    """Which line of the answers holds the assistant's answer of a record (lines from 0)."""
    calls = lines(journal(project, "records"))[record]["calls"]
    (key,) = (call["key"] for call in calls if call["role"] == "assistant")
    (number,) = (
        number for number, row in enumerate(lines(journal(project, "answers"))) if row["key"] == key
    )
    return number


def test_a_flipped_answer_is_asked_again_when_its_cell_runs_again_and_not_before(
    tmp_path: Path,
) -> None:
    project = Project(tmp_path, items=4)
    assert project.run_job().returncode == 0
    answers, records = journal(project, "answers"), journal(project, "records")
    whole, verdicts = contents(project), project.sql(VERDICTS)
    calls = project.sql(CALLS)[0]["n"]
    line = first_reply_of(project, 2)
    flip(answers, line)
    assert lines(answers)[line] is None

    # Its cell is done: a run has nothing to do, and looks at no answer.
    idle = project.run_job()
    assert idle.returncode == 0
    assert "all 32 cells are done; 0 calls sent" in idle.stdout
    # Tables leave the row out, whoever makes them; the verdicts on it stand.
    assert project.sql(CALLS) == [{"n": calls - 1, "different": calls - 1}]
    assert project.sql(VERDICTS) == verdicts

    flip(records, 2)
    again = project.run_job()
    assert again.returncode == 0, again.stderr
    assert f"{records.name}, line 3 (byte " in again.stderr
    assert "counts as never written: its cell runs again, if it has not yet" in again.stderr
    assert f"{answers.name}, line {line + 1} (byte " in again.stderr
    assert "counts as never written: its call is asked again when its cell runs again" in (
        again.stderr
    )
    # That one cell, and of its calls the one that was lost.
    assert "1 of 1 open cells done, 1 calls sent" in again.stdout
    assert project.sql(CALLS) == [{"n": calls, "different": calls}]
    assert project.sql(VERDICTS) == verdicts
    assert contents(project) == whole
    agree(project)
    kept = {path.name for path in (project.folder / "cache" / "quarantine").iterdir()}
    assert kept == {f"{answers.stem}.line-{line + 1}.bad", f"{records.stem}.line-3.bad"}

    rest = project.run_job()
    assert rest.returncode == 0 and "0 calls sent" in rest.stdout


def test_a_flipped_record_costs_no_call(tmp_path: Path) -> None:
    project = Project(tmp_path, items=4)
    assert project.run_job().returncode == 0
    whole = contents(project)
    flip(journal(project, "records"), 5)
    done = project.run_job()
    assert done.returncode == 0, done.stderr
    assert "1 of 1 open cells done, 0 calls sent" in done.stdout
    assert contents(project) == whole
    agree(project)


@pytest.mark.parametrize("seal_first", [False, True])
def test_what_is_forgotten_behind_a_flipped_row_stays_the_row_that_was_meant(
    tmp_path: Path, seal_first: bool
) -> None:
    project = Project(tmp_path, items=4)
    assert project.run_job().returncode == 0
    answers, records = journal(project, "answers"), journal(project, "records")
    calls = project.sql(CALLS)[0]["n"]
    line = first_reply_of(project, 2)
    last = lines(answers)[-1]["key"]
    assert lines(answers)[line]["key"] != last
    before = project.run("forget", "--where", f"key = '{last}'", "--yes")
    assert before.returncode == 0, before.stderr
    flip(answers, line)
    flip(records, 2)
    if seal_first:
        seal(project)
    assert project.sql(f"SELECT key FROM response WHERE key = '{last}'") == []
    assert project.sql(CALLS) == [{"n": calls - 2, "different": calls - 2}]

    again = project.run_job()
    assert again.returncode == 0, again.stderr
    assert project.sql(CALLS) == [{"n": calls, "different": calls}]
    agree(project)
    # And one that is forgotten when the damage is there already.
    key = lines(journal(project, "answers"))[-1]["key"]
    after = project.run("forget", "--where", f"key = '{key}'", "--yes")
    assert after.returncode == 0, after.stderr
    assert project.sql(f"SELECT key FROM response WHERE key = '{key}'") == []
    assert project.run_job().returncode == 0
    assert project.sql(CALLS) == [{"n": calls, "different": calls}]
    agree(project)
    seal(project)
    assert project.sql(CALLS) == [{"n": calls, "different": calls}]
    agree(project)
    idle = project.run_job()
    assert idle.returncode == 0 and "0 calls sent" in idle.stdout


def test_rows_that_flip_after_they_are_landed_and_are_then_sealed_leave_the_database(
    tmp_path: Path,
) -> None:
    project = Project(tmp_path, items=4)
    assert project.run_job().returncode == 0
    whole, calls = contents(project), project.sql(CALLS)[0]["n"]
    flip(journal(project, "answers"), 0)
    flip(journal(project, "answers"), 7)
    flip(journal(project, "records"), 0)
    seal(project)
    assert project.sql(CALLS) == [{"n": calls - 2, "different": calls - 2}]
    assert project.run_job().returncode == 0
    agree(project)
    assert project.sql("SELECT count(*) AS n FROM reply") == [{"n": len(whole["reply"])}]
