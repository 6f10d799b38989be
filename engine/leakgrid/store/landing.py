"""``python -m leakgrid.store.landing CACHE DATABASE``: take the cache in, in a process apart.

DuckDB and Arrow want 150 MB for a million rows, and a process that has just made a million
calls should not hold both. The child prints one JSON line: rows taken in by table, peak memory.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from leakgrid.outcomes import StoreError

MODULE = "leakgrid.store.landing"
APART_CALLS = 50_000


@dataclass(frozen=True, slots=True)
class Landed:
    """Rows taken in by table, and the child's peak memory in MB (0 where the system tells none)."""

    rows: Mapping[str, int]
    peak_mb: float


def land(cache: Path, database: Path, *, calls: int) -> Landed:
    """Take in what a run of so many calls left, here or, after many, in a process apart.

    Starting one and its imports cost half a second. Raises StoreError.
    """
    if calls > APART_CALLS:
        return land_apart(cache, database)
    from leakgrid.store.ingest import ingest

    return Landed(dict(ingest(cache, database).rows), peak_mb())


def land_apart(cache: Path, database: Path) -> Landed:
    """Run ``ingest`` in a child process and wait for it.

    Ctrl-C in the terminal does not reach the child. Raises StoreError with its message.
    """
    done = subprocess.run(
        [sys.executable, "-m", MODULE, str(cache), str(database)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        check=False,
    )
    if done.returncode:
        told = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
        raise StoreError(told.splitlines()[-1] if done.returncode != StoreError.exit_code else told)
    return Landed(**orjson.loads(done.stdout))


def main(cache: Path, database: Path) -> int:
    """Take everything in; the exit code."""
    from leakgrid.store.ingest import ingest

    try:
        report = ingest(cache, database)
    except StoreError as error:
        print(error, file=sys.stderr)
        return StoreError.exit_code
    line = {"rows": dict(report.rows), "peak_mb": peak_mb()}
    sys.stdout.buffer.write(orjson.dumps(line) + b"\n")
    return 0


def peak_mb() -> float:
    """Peak memory of this process alone, where Linux tells it; else 0.

    ``getrusage`` counts what the process that started this one had before.
    """
    with contextlib.suppress(OSError, IndexError, ValueError):
        status = Path("/proc/self/status").read_text("utf-8")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024
    return 0.0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
