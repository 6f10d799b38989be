"""What jobs, models and judges may be called, and how such a name becomes part of a file's."""

from __future__ import annotations

import hashlib
import re

from leakgrid.jobs.tables import Table

LONGEST = 80
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9 ._-]{{0,{LONGEST - 1}}}")
"""What is no path: locks, logs and pages have such a name in theirs."""

MODEL = re.compile(rf"[A-Za-z0-9][A-Za-z0-9 ._:/-]{{0,{LONGEST - 1}}}")
"""Hubs and servers call models like this. In the name of a file it is ``as_file`` of it."""

_TOLD = "a letter or a digit, then letters (A to Z), digits, spaces, dots, - and _"


def misfit(name: str, pattern: re.Pattern[str] = NAME) -> str:
    """What a user is told of a name that does not fit; empty for one that does."""
    if pattern.fullmatch(name):
        return ""
    more = " (also : and /)" if pattern is MODEL else ""
    return f"the name {name!r} does not fit; it must be {_TOLD}{more}, {LONGEST} at most"


def check_name(table: Table, pattern: re.Pattern[str] = NAME, told: str = "") -> None:
    """Note a mistake at a table whose own name does not fit; ``told`` is what to do instead."""
    wrong = misfit(table.keys[-1], pattern)
    if wrong:
        table.mistakes.add(table.keys, wrong + told)


def as_file(name: str) -> str:
    """A model's name as part of a file's: no two are alike, and none leads out of its folder."""
    if NAME.fullmatch(name):
        return name
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip("-._")[: LONGEST - 13]
    return f"{safe or 'model'}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
