"""Size: memory, growth, planning and resuming a million cells, replay, ingest, loop lag."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from leakgrid.cache.answers import load_keys
from leakgrid.cache.journal import Journal
from leakgrid.cache.journal_file import JournalFile, new_stem
from leakgrid.cache.sealing import seal_apart
from leakgrid.cache.segments import GROUP_ROWS, seal_journal
from leakgrid.cache.tables import ANSWERS
from leakgrid.jobs.jobfile import load_job
from leakgrid.jobs.plan import Column, Plan
from leakgrid.store.ingest import ingest
from tests.bench.children import ROOT, NotMeasuredError, client, folder, say, told
from tests.bench.standin import Standin, standin
from tests.bench.table import Row, missing, row

AT_ONCE = 512
SEGMENT_ROWS = 45_000
MEMORY_ITEMS = 1_000
REPEATS = 3


@dataclass(frozen=True, slots=True)
class Size:
    """How much is sent, replayed and planned; ``calls`` in steps of 1,000."""

    calls: int
    small: int
    replayed: int
    columns: int
    items: int = 1_000


FULL = Size(1_000_000, 10_000, 40_000, 1_000)
USUAL = Size(100_000, 10_000, 40_000, 1_000)
QUICK = Size(20_000, 5_000, 10_000, 100)


def measure(size: Size) -> Iterator[Row]:
    """Every row of this part."""
    steps: tuple[tuple[tuple[str, ...], Callable[[], Iterator[Row]]], ...] = (
        (("first", "nothing"), lambda: planned(size)),
        (("replay", "ingest"), lambda: replayed(size)),
        (("lag",), lambda: lag(size)),
        (("memory", "growth"), lambda: grown(size)),
    )
    for names, step in steps:
        try:
            yield from step()
        except Exception as error:  # one broken measure is no reason to lose the others
            for name in names:
                yield missing(name, told(error))


# --- many calls -------------------------------------------------------------------------------


def grown(size: Size) -> Iterator[Row]:
    """Peak memory of a large run, and its pace against a small one."""
    say(f"scale: {size.calls:,} calls against {size.small:,}")
    whole = size.calls >= 1_000_000
    with standin() as server:
        rates: list[float] = []
        for calls in (size.small, size.small, size.calls, size.small, size.small):
            with folder() as home:
                samples = calls // MEMORY_ITEMS
                result = client(
                    "client_leakgrid", server.base_url, calls, AT_ONCE, home,
                    "--samples", samples, timeout=120 + calls / 500,
                )  # fmt: skip
            # To the last row in DuckDB: a long run's are taken in while it goes on.
            rates.append(calls / result["wall_s"])
            if calls == size.calls:
                large = result
    result, rate = large, rates.pop(2)
    peak, small = result["peak_mb"], statistics.median(rates)
    words = f"{peak:.0f} MB at {size.calls:,} calls"
    if "run_peak_mb" in result:
        words += f" (run {result['run_peak_mb']:.0f} MB, its ingest in a process apart)"
    yield row("memory", peak, words, whole=whole)
    words = f"{100 * rate / small:.0f} % ({rate:,.0f} of {small:,.0f} calls/s"
    words += f" at {size.calls:,} calls)"
    yield row("growth", 100 * rate / small, words, whole=whole)


def lag(size: Size) -> Iterator[Row]:
    """How late a task of the engine's own loop wakes up while calls are sent."""
    say("scale: event loop lag")
    with standin() as server, folder() as home:
        result = client(
            "client_leakgrid", server.base_url, size.replayed, AT_ONCE, home, "--lag",
            "--no-ingest", timeout=120,
        )  # fmt: skip
    p99, most = result["lag_p99_ms"], result["lag_max_ms"]
    yield row("lag", p99, f"{p99:.1f} ms (at most {most:.0f} ms)")


# --- replay and ingest ------------------------------------------------------------------------


def replayed(size: Size) -> Iterator[Row]:
    """Cells done again from kept answers, from a journal and from a segment; then the ingest."""
    say(f"scale: replay of {size.replayed:,} calls")
    with standin() as server, folder() as home:
        run = ("client_leakgrid", server.base_url, size.replayed, AT_ONCE, home, "--no-ingest")
        client(*run, timeout=180)
        rates = {"a journal": _replay(home, run, server)}
        for path in (home / "cache" / "answers").glob("*.jsonl"):
            journal = JournalFile(path)
            journal.read()
            load_keys(seal_journal("answers", journal))
        rates["segments"] = _replay(home, run, server)
        words = ", ".join(f"{rate:,.0f} calls/s from {where}" for where, rate in rates.items())
        yield row("replay", min(rates.values()), words)

        say("scale: ingest")
        began = time.perf_counter()
        landed = ingest(home / "cache", home / "bench.duckdb")
        seconds = time.perf_counter() - began
        rows = sum(landed.rows.values())
        words = f"{rows / seconds:,.0f} rows/s ({rows:,} rows of all tables in {seconds:.1f} s)"
        yield row("ingest", rows / seconds, words)


def _replay(home: Path, run: tuple[object, ...], server: Standin) -> float:
    """Forget the records, run again, and see that nothing was sent."""
    shutil.rmtree(home / "cache" / "records")
    server.set()
    name, *arguments = run
    result = client(str(name), *arguments, timeout=180)
    if server.stats()["received"]:
        raise NotMeasuredError("the replay sent calls")
    return float(result["calls"] / result["wall_s"])


# --- a million cells --------------------------------------------------------------------------


def planned(size: Size) -> Iterator[Row]:
    """The real command over cells that are 90 % and then wholly done."""
    cells = size.items * size.columns
    whole = cells >= 1_000_000
    say(f"scale: {cells:,} cells, 90 % done (writing them takes a while)")
    with folder() as home, socket.create_server(("127.0.0.1", 0)) as door:
        job = _project(home, size, door.getsockname()[1])
        plan = Plan(load_job(job))
        asyncio.run(_write_cells(home / "cache", plan, 0, size.items * 9 // 10))
        _write_answers(home / "cache", cells * 9 // 10)
        _first_call(home, job, door)  # writes the plan down, as the run that did the 90 % had
        times = [_first_call(home, job, door) for _ in range(REPEATS)]
        first = statistics.median(times)
        words = f"{first:.2f} s at {cells:,} cells (median of {REPEATS}, imports included)"
        yield row("first", first, words, whole=whole)

        asyncio.run(_write_cells(home / "cache", plan, size.items * 9 // 10, size.items))
        _write_answers(home / "cache", cells - cells * 9 // 10)
        _nothing(home, job, patience=600)  # lands them, as the run that made them had
        times = [_nothing(home, job) for _ in range(REPEATS)]
        words = f"{statistics.median(times):.2f} s at {cells:,} cells (median of {REPEATS})"
        yield row("nothing", statistics.median(times), words, whole=whole)


def _project(home: Path, size: Size, port: int) -> Path:
    """A job over ``items`` items in ``columns`` columns; returns its path."""
    shutil.copytree(ROOT / "jobs" / "prompts", home / "jobs" / "prompts")
    lines = (ROOT / "datasets" / "muppet" / "items.jsonl").read_text("utf-8").splitlines()
    with open(home / "items.jsonl", "w", encoding="utf-8") as file:
        for number in range(size.items):
            item = json.loads(lines[number % len(lines)])
            item["id"] = f"bench-{number:05d}"
            file.write(json.dumps(item, ensure_ascii=False) + "\n")
    job = home / "jobs" / "bench.toml"
    job.write_text(
        f"""
[job]
benchmark = "muppet"
dataset = "items.jsonl"
models = ["m"]
defences = ["none", "privacy-prompt"]
conditions = ["group", "one-to-one"]
judges = ["exact"]
samples = {size.columns // 4}

[models.m]
provider = "openai"
base_url = "http://127.0.0.1:{port}/v1"
params = {{ max_tokens = 300 }}

[judges.exact]
""",
        "utf-8",
    )
    return job


async def _write_cells(cache: Path, plan: Plan, first: int, end: int) -> None:
    """Settled records of the items from ``first`` to ``end``, by the journal's own writer."""
    ends = {column.id: _row_end(column) for column in plan.columns}
    async with Journal(cache / "records", on_sealed=partial(seal_apart, "records")) as journal:
        for item in plan.items[first:end]:
            start = orjson.dumps({"digest": item.digest.hex(), "item": item.id})[:-1] + b","
            for column in plan.columns:
                journal.append_soon(start + ends[column.id])
            await journal.flush()


def _row_end(column: Column) -> bytes:
    """A record's JSON behind its item, in the columns of ``cache/tables.py``."""
    point = column.point
    verdict = {"judge": "exact", "attribute": "a", "category": "health", "leaked": False}
    return orjson.dumps(
        {
            "column_id": column.id,
            "run": "bench",
            "benchmark": "muppet",
            "model": point.model,
            "defence": point.defence,
            "condition": point.condition,
            "sample": point.sample,
            "settled": True,
            "simulated": False,
            "reply": "The rota for next week is fine with me, and I can swap a shift if it helps.",
            "reply_outcome": "answer",
            "reasoning": "",
            "verdicts": [{**verdict, "why": "", "evidence": "", "parser": "exact-1", "key": ""}],
            "calls": [{"role": "assistant", "key": "0" * 64}],
            "extra": "{}",
            "ts": 1.7e9,
        }
    )[1:]


def _write_answers(cache: Path, count: int) -> None:
    """Segments of ``count`` kept answers with random keys, as full journals leave them."""
    home = cache / "answers"
    home.mkdir(parents=True, exist_ok=True)
    constant = {"kind": "answer", "run": "bench", "job": "bench", "outcome": "answer"}
    constant |= {"family": "chat", "body": '{"choices": []}' * 30, "finish": "stop"}
    for begin in range(0, count, SEGMENT_ROWS):
        rows = min(SEGMENT_ROWS, count - begin)
        random = os.urandom(32 * rows).hex()
        columns = [
            pa.array([random[64 * number : 64 * number + 64] for number in range(rows)])
            if field.name == "key"
            else pa.array([constant.get(field.name)] * rows, field.type)
            for field in ANSWERS
        ]
        path = home / (new_stem() + ".parquet")
        table = pa.table(columns, schema=ANSWERS)
        pq.write_table(table, path, compression="zstd", row_group_size=GROUP_ROWS)
        load_keys(path)


def _command(home: Path, job: Path) -> subprocess.Popen[bytes]:
    places = ["--cache", home / "cache", "--database", home / "bench.duckdb"]
    arguments = ["run", job, *places, "--quiet"]
    return subprocess.Popen(
        [sys.executable, "-m", "leakgrid", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "OPENAI_API_KEY": ""},
    )


def _first_call(home: Path, job: Path, door: socket.socket) -> float:
    """Seconds from the start of the command to its first request; the command is then killed."""
    door.settimeout(60)
    began = time.perf_counter()
    process = _command(home, job)
    try:
        visitor, _ = door.accept()
        with visitor:
            visitor.settimeout(10)
            visitor.recv(1)
            seconds = time.perf_counter() - began
    except TimeoutError:
        raise NotMeasuredError("no call within 60 s") from None
    finally:
        process.send_signal(signal.SIGKILL)
        words = process.communicate()[0]
        _hang_up(door)
    if process.returncode != -signal.SIGKILL:
        raise NotMeasuredError(f"the command ended: {words.decode()[-160:]}")
    return seconds


def _hang_up(door: socket.socket) -> None:
    """Take the connections that nobody answered out of the queue."""
    door.settimeout(0.05)
    with contextlib.suppress(TimeoutError):
        while True:
            door.accept()[0].close()


def _nothing(home: Path, job: Path, *, patience: float = 60) -> float:
    """Seconds of the whole command when every cell is done."""
    began = time.perf_counter()
    process = _command(home, job)
    try:
        words = process.communicate(timeout=patience)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise NotMeasuredError(f"the command took more than {patience} s") from None
    if process.returncode or b"0 calls sent" not in words:
        raise NotMeasuredError(f"the command did something: {words.decode()[-160:]}")
    return time.perf_counter() - began
