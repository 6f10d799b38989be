"""The schema of the database file, step by step; views are no part of it.

Applied steps stand in the table ``migration``. Raises StoreError when the file is newer than
this program.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from leakgrid.outcomes import StoreError

if TYPE_CHECKING:
    import duckdb

STEPS = (
    "schema.sql", "ratings.sql", "probes.sql", "dialogue.sql", "models.sql", "details.sql",
)  # fmt: skip
"""Append here; never change a step that was released."""

DIALOGUE_VIEWS = ("dialogue_views.sql", "dialogue_rates.sql")


@cache
def read_sql(name: str) -> str:
    """The text of one SQL file of this package."""
    return files("leakgrid.store").joinpath(name).read_text(encoding="utf-8")


def steps() -> list[tuple[int, str]]:
    """All (version, SQL) in order."""
    return [(version, read_sql(name)) for version, name in enumerate(STEPS, 1)]


def views_digest() -> str:
    """What the views are made of: their own text and the tables they are on."""
    texts = [read_sql(name) for name in ("views.sql", *DIALOGUE_VIEWS)]
    return hashlib.sha256("".join([*(sql for _, sql in steps()), *texts]).encode()).hexdigest()


def _views_fit(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the views of this very leakgrid are in the file; else notes that they will be."""
    connection.execute("CREATE TABLE IF NOT EXISTS views_made (digest VARCHAR)")
    digest = views_digest()
    if connection.execute("FROM views_made").fetchall() == [(digest,)]:
        return True
    connection.execute("DELETE FROM views_made")
    connection.execute("INSERT INTO views_made VALUES (?)", [digest])
    return False


def make_views(connection: duckdb.DuckDBPyConnection) -> None:
    """All views anew; those of dialogues only where some plan has any, for they take their time."""
    connection.execute(read_sql("views.sql"))
    if connection.execute("SELECT 1 FROM instance LIMIT 1").fetchone():
        make_dialogue_views(connection)


def make_dialogue_views(connection: duckdb.DuckDBPyConnection) -> None:
    """The views of dialogues and labels anew; they build on the others."""
    for name in DIALOGUE_VIEWS:
        connection.execute(read_sql(name))


def migrate(connection: duckdb.DuckDBPyConnection, where: str, *, views: bool = True) -> None:
    """Bring a database up to the newest schema and its views, unless told not to make any.

    Views are made anew only where their text changed: it takes longer than most runs' rows.
    ``where`` names the file in messages. Runs inside the caller's transaction.
    """
    connection.execute(
        "CREATE TABLE IF NOT EXISTS migration (version INTEGER, applied TIMESTAMPTZ)"
    )
    row = connection.execute("SELECT coalesce(max(version), 0) FROM migration").fetchone()
    found = int(row[0]) if row else 0
    newest = steps()[-1][0]
    if found > newest:
        raise StoreError(
            f"{where} has schema version {found}, this leakgrid knows up to {newest}; "
            "update leakgrid, or delete the file: it is built anew from the cache"
        )
    for version, sql in steps():
        if version > found:
            connection.execute(sql)
            connection.execute("INSERT INTO migration VALUES (?, now())", [version])
    if views and not _views_fit(connection):
        make_views(connection)
