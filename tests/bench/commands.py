"""What a newcomer waits for: everything from nothing, the same again, and the help."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.children import ROOT, NotMeasuredError, folder, say, told
from tests.bench.table import Row, missing, row

REPEATS = 5
JUST = Path(sys.executable).with_name("just")


def measure() -> Iterator[Row]:
    """Every row of this part."""
    try:
        yield from run_all()
    except Exception as error:  # one broken measure is no reason to lose the others
        for name in ("all", "again"):
            yield missing(name, told(error))
    try:
        seconds = statistics.median(timed("leakgrid", "--help")[0] for _ in range(REPEATS))
        yield row("help", seconds, f"{seconds:.2f} s (median of {REPEATS})")
    except Exception as error:
        yield missing("help", told(error))


def run_all() -> Iterator[Row]:
    """``just run-all`` into an empty place, and again."""
    say("commands: just run-all from nothing, and again")
    with folder() as home:
        places = ("--cache", home / "cache", "--database", home / "reports" / "all.duckdb")
        command = (JUST, "run-all", *places, "--out", home / "out", "--quiet")
        first, words = timed(*command)
        pages = len(list((home / "out").glob("*.html")))
        calls = sum(sent(words))
        yield row("all", first, f"{first:.1f} s ({calls:,} calls sent, {pages} pages)")
        again, told_again = zip(*(timed(*command) for _ in range(REPEATS)), strict=True)
        if any(sum(sent(text)) for text in told_again):
            raise NotMeasuredError("the second run-all sent calls")
        seconds = statistics.median(again)
        yield row("again", seconds, f"{seconds:.2f} s (median of {REPEATS}; 0 calls sent)")


def sent(words: str) -> list[int]:
    """How many calls each job says that it sent."""
    parts = words.replace(";", ",\n").replace(", ", ",\n").splitlines()
    return [int(part.split()[0].replace(",", "")) for part in parts if "calls sent" in part]


def timed(*command: object) -> tuple[float, str]:
    """Seconds of a command and what it printed. Raises NotMeasuredError when it fails."""
    began = time.perf_counter()
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{JUST.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NotMeasuredError(f"{command[0]}: exit code {done.returncode}: {done.stderr[-160:]}")
    return time.perf_counter() - began, done.stdout
