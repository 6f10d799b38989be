"""What a run keeps goes into the database: behind the run while it goes on, the rest at its end.

A long run has a follower, ``python -m leakgrid.store.landing CACHE DATABASE``: a process apart,
because DuckDB and Arrow want 150 MB and a core of their own. It takes in what is new whenever a
line comes on its standard input, holds the database only meanwhile, and once more at the end of
the input, also when the run was killed; then it prints one JSON line: rows by table, peak memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson

from leakgrid.collector import calm_collector
from leakgrid.outcomes import LeakgridError, StoreError

MODULE = "leakgrid.store.landing"
FOLLOW_CALLS = 20_000
FOLLOW_SHARE = 5
LOOK_SECONDS = 0.25
NICE = 10
"""The follower takes what the run leaves of the processor."""


@dataclass(frozen=True, slots=True)
class Landed:
    """Rows taken in by table, and the peak memory in MB of who did it (0 where none is told)."""

    rows: Mapping[str, int]
    peak_mb: float


class Landing:
    """The way of one run's results into ``database``. Use as a context manager around the run.

    ``step``: calls after which a run has a follower, and is followed up again.
    """

    def __init__(self, cache: Path, database: Path, *, step: int = FOLLOW_CALLS) -> None:
        self._cache = cache
        self._database = database
        self._step = step
        self._follower: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Landing:
        return self

    def __exit__(self, *error: object) -> None:
        if self._follower is not None:  # the run failed, and its error is the one to tell
            with contextlib.suppress(StoreError):
                self.finish()

    @property
    def followed(self) -> bool:
        """Whether a follower is at work."""
        return self._follower is not None

    async def follow(self, calls: Callable[[], int]) -> None:
        """Have taken in what is kept so far, each ``step`` of ``calls()``; until cancelled.

        Of a long run it is each fifth more than before: DuckDB compresses the end of a table anew
        with every time.
        """
        told = 0
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if calls() - told < max(self._step, told // FOLLOW_SHARE):
                continue
            told = calls()
            if self._follower is None:
                await asyncio.to_thread(self._start)
            # A follower that died says so when its end is waited for.
            with contextlib.suppress(OSError):
                os.write(self._input, b"\n")

    def finish(self) -> Landed:
        """Take in all the rest, and wait for it. Raises StoreError."""
        if self._follower is None:
            from leakgrid.store.landed import land

            return Landed(dict(land(self._cache, self._database).rows), peak_mb())
        follower, self._follower = self._follower, None
        try:
            out, told = follower.communicate()
        except BaseException:  # interrupted: it must not hold the database against the next run
            follower.kill()
            follower.wait()
            raise
        if follower.returncode:
            words = told.decode(errors="replace").strip()
            if follower.returncode != StoreError.exit_code:
                words = (words or f"exit code {follower.returncode}").splitlines()[-1]
            raise StoreError(words)
        return Landed(**orjson.loads(out))

    def _start(self) -> None:
        # Ctrl-C in the terminal must not reach it.
        self._follower = subprocess.Popen(
            [sys.executable, "-m", MODULE, str(self._cache), str(self._database)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def _input(self) -> int:
        assert self._follower is not None and self._follower.stdin is not None
        return self._follower.stdin.fileno()


def main(cache: Path, database: Path) -> int:
    """Follow a run to its end; the exit code."""
    from leakgrid.cache.journal_file import Place
    from leakgrid.cache.segments import scan
    from leakgrid.store.ingest import ingest
    from leakgrid.store.landed import land

    with contextlib.suppress(OSError):
        os.nice(NICE)
    calm_collector()
    places: dict[str, Place] = {}
    on = partial(scan, places=places)
    rows: Counter[str] = Counter()
    while os.read(sys.stdin.fileno(), 4096):
        # Whatever is wrong, locked or unreadable: the last time tells it.
        with contextlib.suppress(LeakgridError):
            rows.update(ingest(cache, database, scan=on, patience_s=0).rows)
    try:
        rows.update(land(cache, database, scan=on).rows)
    except LeakgridError as error:
        print(error, file=sys.stderr)
        return StoreError.exit_code
    sys.stdout.buffer.write(orjson.dumps({"rows": dict(rows), "peak_mb": peak_mb()}) + b"\n")
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
