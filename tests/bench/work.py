"""The work that every client of the benchmark does: the same prompts, and how it is measured."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

SYSTEM = (
    "You are the assistant of one person in a group chat. You know what follows and answer the "
    "newest message for that person, in one message, with what is needed and nothing else. "
) * 11


def messages(number: int) -> list[dict[str, str]]:
    """The prompt of call ``number``: 2 kB that all calls share, then what only this one has."""
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": f"Message {number}: can you take shift {number % 97}?"},
    ]


@contextmanager
def measured(calls: int) -> Iterator[dict[str, float]]:
    """Print one JSON line at the end: calls, wall and CPU seconds, peak memory in MB.

    What the block puts into the dictionary is printed too.
    """
    more: dict[str, float] = {}
    wall, cpu = time.perf_counter(), time.process_time()
    yield more
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1024 * 1024 if sys.platform == "darwin" else 1024
    )
    cpu += more.pop("children_cpu_s", 0.0)
    result = {"calls": calls, "wall_s": wall, "cpu_s": cpu, "peak_mb": peak, **more}
    os.write(1, json.dumps(result).encode() + b"\n")
