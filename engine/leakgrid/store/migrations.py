"""The schema of the database file, step by step; views are no part of it.

Applied steps stand in the table ``migration``. Raises StoreError when the file is newer than
this program.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from leakgrid.outcomes import StoreError

if TYPE_CHECKING:
    import duckdb


@cache
def read_sql(name: str) -> str:
    """The text of one SQL file of this package."""
    return files("leakgrid.store").joinpath(name).read_text(encoding="utf-8")


def steps() -> list[tuple[int, str]]:
    """All (version, SQL) in order. Append here; never change a step that was released."""
    names = ("schema.sql", "ratings.sql", "probes.sql", "dialogue.sql", "models.sql")
    return [(version, read_sql(name)) for version, name in enumerate(names, 1)]


def make_views(connection: duckdb.DuckDBPyConnection) -> None:
    """All views anew; those of dialogues only where some plan has any, for they take their time."""
    connection.execute(read_sql("views.sql"))
    if connection.execute("SELECT 1 FROM instance LIMIT 1").fetchone():
        make_dialogue_views(connection)


def make_dialogue_views(connection: duckdb.DuckDBPyConnection) -> None:
    """The views of dialogues and labels anew; they build on the others."""
    connection.execute(read_sql("dialogue_views.sql"))
    connection.execute(read_sql("dialogue_rates.sql"))


def migrate(connection: duckdb.DuckDBPyConnection, where: str, *, views: bool = True) -> None:
    """Bring a database up to the newest schema and make its views anew, unless told not to.

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
    if views:
        make_views(connection)
