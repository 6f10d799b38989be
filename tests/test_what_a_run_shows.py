"""What a run shows on its way, on a terminal and elsewhere, and how long its end may take."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leakgrid.jobs.progress import Progress, eta
from leakgrid.lanes.values import LaneStatistics
from leakgrid.providers.simulated.process import running
from tests.project import Project, stats, wait_until
from tests.test_kill_and_resume import attached, table_of

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


def lane(name: str, **changes: Any) -> LaneStatistics:
    usual: dict[str, Any] = {
        "sent": 0, "answered": 0, "outcomes": {}, "in_flight": 0, "waiting": 0, "limit": 32,
        "gated_s": 0.0, "input_tokens": 0, "output_tokens": 0, "usd": 0.0, "unpriced": 0,
        "latency_mean_s": 0.5, "latency_p95_s": 1.25, "tokens_per_byte": 0.25,
        "allowed_per_s": None, "stopped": "",
    }  # fmt: skip
    return LaneStatistics(name=name, **{**usual, **changes})


def a_run(*lanes: LaneStatistics, **changes: Any) -> Any:
    """What Progress looks at of a run."""
    specs = {
        "paid": SimpleNamespace(provider="openai"),
        "free": SimpleNamespace(provider="simulated"),
    }
    job = SimpleNamespace(name="demo", specs=specs)
    usual: dict[str, Any] = {"done": 1200, "open": 30, "skipped": 4, "todo": 2468}
    cells = {"paid": (400, 1234), "free": (834, 1234)}
    usual["cells_by_model"] = lambda: cells
    return SimpleNamespace(
        plan=SimpleNamespace(job=job), lanes=lambda: lanes, **{**usual, **changes}
    )


PAID = lane(
    "paid", sent=1500, answered=1400, in_flight=12, limit=40, waiting=88, usd=3.456,
    outcomes={"answer": 1390, "refusal": 10, "quota": 3, "transient": 7}, allowed_per_s=35.0,
)  # fmt: skip
FREE = lane("free", sent=600, answered=600, in_flight=5, outcomes={"answer": 600})


class Clock:
    """A monotonic clock that stands still."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 50.0
        monkeypatch.setattr("leakgrid.jobs.progress.time", self)

    def monotonic(self) -> float:
        return self.now


def after(seconds: float, run: Any, monkeypatch: pytest.MonkeyPatch) -> Progress:
    """The progress of a run that has gone on for so long."""
    clock = Clock(monkeypatch)
    progress = Progress(out=io.StringIO())
    progress.watch(run)
    clock.now += seconds
    return progress


def test_a_line_tells_cells_calls_money_time_and_every_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = a_run(PAID, FREE)
    line = after(100.0, run, monkeypatch).line(run)
    assert line == (
        "1,234/2,468 cells | 2,100 calls sent (21/s) | $3.46 | left 1 min 40 s | "
        "paid: 12 in flight (quota 3, transient 7) | free: 5 in flight"
    )


def test_calls_without_a_known_price_are_never_shown_as_costing_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unpriced = a_run(lane("paid", sent=5, unpriced=5))
    assert "$0.00 and calls without a known price" in after(1.0, unpriced, monkeypatch).line(
        unpriced
    )
    free = a_run(lane("free", sent=5, unpriced=5))
    assert "known price" not in after(1.0, free, monkeypatch).line(free)


@pytest.mark.parametrize(
    ("finished", "total", "seconds", "told"),
    [
        (0, 10, 60.0, "unknown"),
        (10, 10, 60.0, "0 s"),
        (5, 10, 59.0, "59 s"),
        (5, 10, 60.0, "1 min 0 s"),
        (1, 60, 61.0, "59 min 59 s"),
        (1, 121, 30.0, "1 h 0 min"),
        (1, 10_001, 9.0, "25 h 0 min"),
    ],
)
def test_time_left_is_told_in_words(finished: int, total: int, seconds: float, told: str) -> None:
    assert eta(finished, total, seconds) == told


def test_the_table_has_a_row_a_lane_with_its_share_of_the_quota_and_its_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rich.console import Console

    stopped = lane("free", sent=600, answered=600, stopped="lane free: the server is down")
    run = a_run(PAID, stopped)
    out = io.StringIO()
    progress = after(100.0, run, monkeypatch)
    Console(file=out, width=160).print(progress._table(run))
    text = out.getvalue()
    assert "demo: 1,234 of 2,468 cells, left 1 min 40 s" in text
    rows = {
        cells[0]: cells
        for cells in (re.findall(r"[^│┃]+", line) for line in text.splitlines())
        if len(cells) > 8
        for cells in [[cell.strip() for cell in cells]]
    }
    assert rows["lane"][:9] == [
        "lane", "answered", "in flight", "waiting", "per s", "quota", "p95", "$", "left"
    ]  # fmt: skip
    assert rows["paid"] == [
        "paid", "1,400", "12/40", "88", "14.0", "40%", "1.25 s", "3.456", "3 min 28 s",
        "quota 3, transient 7"
    ]  # fmt: skip
    assert rows["free"] == [
        "free", "600", "0/32", "0", "6.0", "", "1.25 s", "free", "47 s",
        "lane free: the server is down"
    ]  # fmt: skip


def start(project: Project, patch: str, *words: str, **options: Any) -> subprocess.Popen[str]:
    """The command line with one number of the engine changed, running."""
    module = patch.partition(" ")[0].rpartition(".")[0]
    code = f"import sys, {module}; {patch}; from leakgrid.cli import main; sys.exit(main())"
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=project.folder, text=True, **streams
    )


SLOW = {"latency": {"median_ms": 300, "p95_ms": 350}}


def test_without_a_terminal_there_is_one_plain_line_at_a_time(tmp_path: Path) -> None:
    project = Project(tmp_path, items=12, job={"cells_at_once": 8}, simulated=SLOW)
    patch = "leakgrid.jobs.progress.LINE_SECONDS = 0.2"
    process = start(project, patch, "run", "jobs/job.toml")
    _, told = process.communicate(timeout=55)
    assert process.returncode == 0, told
    assert CONTROL.search(told) is None
    shown = [line for line in told.splitlines() if " cells | " in line]
    assert len(shown) >= 3
    finished = []
    for line in shown:
        found = re.fullmatch(
            r"(\d+)/96 cells \| \d+ calls sent \(\d+/s\) \| \$0\.00 \| left (?:unknown|[\d a-z]+)"
            r" \| sim-a: \d+ in flight \| sim-b: \d+ in flight \| sim-judge: \d+ in flight",
            line,
        )
        assert found is not None, line
        finished.append(int(found.group(1)))
    assert finished == sorted(finished) and finished[0] < finished[-1]


def test_on_a_terminal_a_table_stands_while_the_run_goes_on_and_is_gone_after_it(
    tmp_path: Path,
) -> None:
    project = Project(tmp_path, items=12, job={"cells_at_once": 8}, simulated=SLOW)
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "150", "LINES": "40"}
    process = start(
        project, "leakgrid.jobs.progress.DISPLAY_SECONDS = 0.1", "run", "jobs/job.toml",
        stderr=theirs, env=env,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # Linux: nobody holds the other end any more
        pass
    finally:
        os.close(ours)
    assert process.stdout is not None
    assert "96 of 96 open cells done" in process.stdout.read()
    process.stdout.close()
    text = shown.decode()
    assert process.wait(timeout=30) == 0, text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    counts = [int(count) for count in re.findall(r"job: (\d+) of 96 cells, left", plain)]
    assert len(counts) >= 3 and counts == sorted(counts) and counts[0] < counts[-1]
    for name in ("sim-a", "sim-b", "sim-judge", "in flight", "quota", "p95"):
        assert name in plain
    # The last thing it does is to take its lines away and show the cursor again.
    assert text.rstrip().endswith("\x1b[2K") and "\x1b[?25h" in text


def test_quiet_shows_nothing_of_the_way(tmp_path: Path) -> None:
    project = Project(tmp_path)
    patch = "leakgrid.jobs.progress.LINE_SECONDS = 0.01"
    process = start(project, patch, "run", "jobs/job.toml", "--quiet")
    _, told = process.communicate(timeout=55)
    assert (process.returncode, told) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_calls_that_outlast_the_grace_are_left_after_one_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    forever = {"latency": {"median_ms": 600_000, "p95_ms": 600_000}}
    project = Project(tmp_path, simulated=forever)
    with running(table_of(project)) as server:
        project.write_job(**attached(server), simulated=forever)
        patch = "leakgrid.jobs.run.GRACE_SECONDS = 1.0"
        process = start(project, patch, "run", "jobs/job.toml", "--quiet")
        wait_until(lambda: stats(server.root_url)["received"] >= 4)
        process.send_signal(number)
        _, told = process.communicate(timeout=30)
        assert process.returncode == 130
        assert f"{number.name}: finishing the calls in flight (at most 1 s)" in told
        assert "run the same command again" in told and "Traceback" not in told
        # None of them was answered: it is the grace that ended the run.
        assert project.kept() == 0
        wait_until(lambda: stats(server.root_url)["in_flight"] == 0)
    # And nothing of it stands in the way of the next run.
    project.write_job()
    assert project.run_job().returncode == 0


def test_a_grace_that_is_not_needed_is_not_waited_for(tmp_path: Path) -> None:
    project = Project(tmp_path, items=12, job={"cells_at_once": 8}, simulated=SLOW)
    patch = "leakgrid.jobs.run.GRACE_SECONDS = 600.0"
    process = start(project, patch, "run", "jobs/job.toml", "--quiet")
    wait_until(lambda: project.kept() >= 8)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 130 and "at most 600 s" in told
    assert project.kept() >= 8
