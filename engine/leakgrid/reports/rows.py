"""Rows of one job out of the store, as dicts, and the plan's own order for them."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

Row = dict[str, Any]


class Reader:
    """Asks one connection about one job; rows come back as dicts."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, job: str) -> None:
        self.connection = connection
        self.job = job

    def rows(self, sql: str) -> list[Row]:
        """Answer one SELECT whose only parameter is $job."""
        cursor = self.connection.execute(sql, {"job": self.job})
        names = [column[0] for column in cursor.description or []]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def one(self, sql: str) -> Row:
        """The first row, or an empty one."""
        return (self.rows(sql) or [{}])[0]


def ordered(rows: list[Row], order: dict[str, list[str]]) -> list[Row]:
    """Rows in the plan's order: judge, model, defence, condition; the rest stays as it was."""

    def place(row: Row) -> list[tuple[int, str]]:
        key = []
        for name in ("judge", "model", "defence", "condition"):
            value = str(row.get(name) or "")
            known = order.get(name, [])
            key.append((known.index(value) if value in known else len(known), value))
        return key

    return sorted(rows, key=place)


def file_stem(job: str) -> str:
    """A file name for a job or judge: safe characters only, and no two names alike."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", job).strip("-") or "job"
    if safe == job:
        return safe
    return f"{safe}-{hashlib.sha256(job.encode()).hexdigest()[:6]}"
