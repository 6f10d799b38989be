"""SQL over the cache as it is now, in memory: no file is locked, a run may go on meanwhile.

The tables and views are those of the database file. Answers in segments are read where they
lie; answers in journals, records and runs are taken into memory. Raises StoreError for wrong SQL.
"""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from leakgrid.outcomes import StoreError
from leakgrid.store import derive
from leakgrid.store.ingest import chunks
from leakgrid.store.migrations import make_dialogue_views, make_views, migrate
from leakgrid.store.output import FORMATS

if TYPE_CHECKING:
    import duckdb

NAME = re.compile(r"[\w-]{1,80}")
"""What is taken for the name of a shipped query; no SQL query is a single word."""

OF_DIALOGUES = re.compile(r"\b(dialogue|label|message|reveal|vote)_|\b(label|first_disclosure)\b")
"""What a query names when it reads the views of dialogues and labels."""


def open_live(
    cache: Path,
    *,
    scan: derive.Scan | None = None,
    forgotten: derive.Forgotten | None = None,
    text_of: derive.TextOf | None = None,
) -> duckdb.DuckDBPyConnection:
    """An in-memory database with the tables and views of the file, as of this moment."""
    scan = scan or derive.default_scan()
    forgotten = forgotten or derive.default_forgotten()
    connection = derive.connect(":memory:")
    derive.add_said(connection, text_of or derive.default_text_of())
    migrate(connection, "memory", views=False)
    counts: dict[str, int] = {}
    for stream in derive.STREAMS:
        if stream == "answers":
            continue
        for table in chunks(scan(cache, stream, {}), {}):
            derive.load(connection, stream, table, counts)
    _view_answers(connection, cache, scan, forgotten(cache))
    return connection


def resolve_query(text: str, reports_dir: Path) -> str:
    """SQL text from what a user typed: SQL, a path of a .sql file, or a shipped query's name.

    Raises StoreError for a name that nothing has.
    """
    word = text.strip()
    is_path = word.endswith(".sql") and len(word.split()) == 1
    if not is_path and not NAME.fullmatch(word):
        return text
    shipped = reports_dir / (Path(word).name.removesuffix(".sql") + ".sql")
    for path in (Path(word), shipped) if is_path else (shipped,):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    known = ", ".join(sorted(path.stem for path in reports_dir.glob("*.sql"))) or "none"
    raise StoreError(
        f"no query named {word!r}; those in {reports_dir}: {known}. "
        "Anything with a space in it is taken as SQL"
    )


def run_sql(
    cache: Path,
    query: str,
    out: TextIO,
    fmt: str = "table",
    *,
    scan: derive.Scan | None = None,
    forgotten: derive.Forgotten | None = None,
    text_of: derive.TextOf | None = None,
) -> None:
    """Answer one SQL text from the cache and write it as "table", "csv" or "json" lines.

    Raises StoreError with DuckDB's own words and candidate names when the SQL is wrong.
    """
    import duckdb

    if fmt not in FORMATS:
        raise StoreError(f"no output format {fmt!r}; there are {', '.join(FORMATS)}")
    connection = open_live(cache, scan=scan, forgotten=forgotten, text_of=text_of)
    try:
        if OF_DIALOGUES.search(query):
            # Without any dialogue they are left out, and a question about them has no answer yet.
            make_dialogue_views(connection)
        cursor = connection.execute(query)
        if cursor.description is None:
            return
        names = [column[0] for column in cursor.description]
        FORMATS[fmt](names, cursor, out)
    except duckdb.Error as error:
        raise StoreError(f"{error}\n\nTables and views: {', '.join(_names(connection))}") from error
    finally:
        connection.close()


def _view_answers(
    connection: duckdb.DuckDBPyConnection,
    cache: Path,
    scan: derive.Scan,
    gone: set[tuple[str, str, int]],
) -> None:
    """Replace the tables response and attempt by views over segments and journal rows.

    Segments are listed before the scan: one that is sealed in between comes from the scan.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from leakgrid.cache.tables import PLACE, SCHEMAS

    segments = sorted((cache / "answers").glob("*.parquet"))
    skip = {path.stem: int(pq.read_metadata(path).num_rows) for path in segments}
    schema = pa.schema([*SCHEMAS["answers"], *PLACE])
    batches = [batch.select(schema.names) for batch in scan(cache, "answers", skip)]
    connection.register("journal_rows", pa.Table.from_batches(batches, schema=schema))
    connection.execute("CREATE TABLE answers_in_journals AS FROM journal_rows")
    connection.unregister("journal_rows")
    sources = ["FROM answers_in_journals"]
    if segments:
        lost = [(stem, place) for stream, stem, place in gone if stream == "answers"]
        connection.execute("CREATE TABLE answers_forgotten (stem VARCHAR, ordinal BIGINT)")
        if lost:
            connection.executemany("INSERT INTO answers_forgotten VALUES (?, ?)", lost)
        paths = ", ".join(_literal(path) for path in segments)
        sources.append(
            "SELECT * EXCLUDE (filename, file_row_number), file_row_number AS ordinal,"
            " parse_filename(filename, true) AS stem"
            f" FROM read_parquet([{paths}], filename = true, file_row_number = true,"
            " union_by_name = true)"
            " WHERE kind IS NOT NULL"  # a row of nulls holds the place of a damaged one
            " AND (stem, ordinal) NOT IN (SELECT (stem, ordinal) FROM answers_forgotten)"
        )
    connection.execute("CREATE VIEW answers AS " + " UNION ALL BY NAME ".join(sources))
    for table, select in derive.selects()["answers"].items():
        connection.execute(f"DROP TABLE {table}")
        connection.execute(f"CREATE VIEW {table} AS {select}")
    make_views(connection)


def _literal(path: Path) -> str:
    """A path as an SQL string that read_parquet takes for one file, not for a pattern."""
    return "'" + glob.escape(str(path.absolute())).replace("'", "''") + "'"


def _names(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """All tables and views, for a message."""
    rows = connection.execute(
        "SELECT table_name FROM information_schema.tables ORDER BY table_name"
    ).fetchall()
    return [str(row[0]) for row in rows]
