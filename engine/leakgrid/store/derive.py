"""From scanned rows to table rows: the SELECTs of derive.sql and the function they call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from leakgrid.outcomes import StoreError
from leakgrid.store.migrations import read_sql

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

STREAMS = ("runs", "batches", "records", "answers")
"""In the order of taking them in."""

LISTS: Mapping[str, str] = {
    "verdict": "verdicts", "rating": "ratings", "probe": "probes", "utterance": "utterances",
    "hearing": "hearings", "reveal": "reveals", "vote": "votes", "call": "calls",
}  # fmt: skip
"""Tables that come from a list in the records: most benchmarks fill a few of these only."""

PLAN_LISTS: Mapping[str, tuple[str, ...]] = {
    "profiles": ("profile", "attribute", "domain", "event", "basic", "statement"),
    "contexts": ("profile", "context", "recipient", "task"),
    "instances": ("item", "sender", "receiver", "context"),
    "item_payloads": ("item", "context_id", "payload"),
    "labels": ("profile", "context", "attribute", "persona", "necessary", "inappropriate"),
}
"""The lists of rows that a plan may have, and the names of their fields in order."""

Scan: TypeAlias = Callable[[Path, str, Mapping[str, int]], "Iterator[pa.RecordBatch]"]
Forgotten: TypeAlias = Callable[[Path], set[tuple[str, str, int]]]
TextOf: TypeAlias = Callable[[str, str], tuple[str, str]]


@cache
def selects() -> dict[str, dict[str, str]]:
    """stream -> table -> the SELECT that makes its rows from a relation named as the stream."""
    found: dict[str, dict[str, str]] = {stream: {} for stream in STREAMS}
    parts = re.split(r"^--> (\w+) < (\w+)\n", read_sql("derive.sql"), flags=re.MULTILINE)
    for table, stream, sql in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        found[stream][table] = sql.strip()
    return found


def connect(database: str, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection that never fetches an extension from the network."""
    import duckdb

    return duckdb.connect(
        database,
        read_only=read_only,
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )


def add_said(connection: duckdb.DuckDBPyConnection, text_of: TextOf) -> None:
    """Give SQL the function said(family, body) -> STRUCT(text, reasoning)."""
    import pyarrow as pa
    from duckdb.func import ARROW

    def said(families: Any, bodies: Any) -> Any:
        texts, thoughts = [], []
        for family, body in zip(families.to_pylist(), bodies.to_pylist(), strict=True):
            try:
                text, thought = text_of(family, body)
            except Exception:  # one odd body must not bar a million good rows for ever
                text, thought = "", ""
            texts.append(text)
            thoughts.append(thought)
        return pa.StructArray.from_arrays(
            [pa.array(texts, pa.string()), pa.array(thoughts, pa.string())],
            ["text", "reasoning"],
        )

    connection.create_function(
        "said",
        said,
        ["VARCHAR", "VARCHAR"],
        "STRUCT(text VARCHAR, reasoning VARCHAR)",
        type=ARROW,
    )


def load(
    connection: duckdb.DuckDBPyConnection, stream: str, rows: pa.Table, counts: dict[str, int]
) -> None:
    """Insert one table's worth of scanned rows into every table made from its stream.

    Adds the inserted rows to ``counts`` by table.
    """
    rows = _complete(stream, rows)
    relations = {stream: rows}
    if stream == "runs":
        relations |= _plan_lists(rows)
    for name, relation in relations.items():
        connection.register(name, relation)
    for table, select in selects()[stream].items():
        listed = LISTS.get(table)
        if listed and rows.column(listed).null_count == rows.num_rows:
            continue
        done = connection.execute(f"INSERT INTO {table} BY NAME {select}").fetchone()
        if done and done[0]:
            counts[table] = counts.get(table, 0) + int(done[0])
    # Not after an error: a connection whose transaction is aborted would hide it with another.
    for name in relations:
        connection.unregister(name)


def _plan_lists(rows: pa.Table) -> dict[str, pa.Table]:
    """Rows of ``runs`` without the long lists of their plans, and these as plan_<list>.

    Each listed row has its plan's place. DuckDB would need many times a list's size to read it.
    """
    import orjson
    import pyarrow as pa

    kinds = {"basic": pa.bool_(), "necessary": pa.float64(), "inappropriate": pa.float64()}
    schemas = {
        key: pa.schema(
            [
                *(("stem", pa.string()), ("ordinal", pa.int64())),
                *((name, kinds.get(name, pa.string())) for name in names),
            ]
        )
        for key, names in PLAN_LISTS.items()
    }
    parts = {key: [schema.empty_table()] for key, schema in schemas.items()}
    events = rows.column("event").to_pylist()
    payloads = rows.column("payload").to_pylist()
    for number, event in enumerate(events):
        try:
            plan = orjson.loads(payloads[number] or "") if event == "plan" else {}
        except orjson.JSONDecodeError:
            continue
        if not PLAN_LISTS.keys() & plan:
            continue
        stem, ordinal = rows.column("stem")[number].as_py(), rows.column("ordinal")[number].as_py()
        for key, names in PLAN_LISTS.items():
            listed = plan.pop(key, None) or []
            columns: list[list[Any]] = [[stem] * len(listed), [ordinal] * len(listed)]
            columns += [[row[place] for row in listed] for place in range(len(names))]
            parts[key].append(
                pa.table(dict(zip(schemas[key].names, columns, strict=True)), schema=schemas[key])
            )
        payloads[number] = orjson.dumps(plan).decode()
    light = rows.set_column(
        rows.column_names.index("payload"), "payload", pa.array(payloads, pa.string())
    )
    return {"runs": light, **{f"plan_{key}": pa.concat_tables(held) for key, held in parts.items()}}


def _complete(stream: str, rows: pa.Table) -> pa.Table:
    """Rows with every column of their stream: segments of an older leakgrid lack the newer ones."""
    import pyarrow as pa

    from leakgrid.cache.tables import SCHEMAS

    for column in SCHEMAS[stream]:
        if column.name not in rows.column_names:
            rows = rows.append_column(column, pa.nulls(rows.num_rows, column.type))
    return rows


def default_scan() -> Scan:
    """The cache's own ``scan``."""
    from leakgrid.cache.segments import scan

    return scan


def default_forgotten() -> Forgotten:
    """The cache's own ``forgotten``."""
    from leakgrid.cache.segments import forgotten

    return forgotten


def default_text_of() -> TextOf:
    """The providers' reader of verbatim bodies."""
    from leakgrid.providers.wire import text_of

    return text_of


def locked(error: BaseException) -> bool:
    """Whether DuckDB refused because another process holds the file."""
    return re.search(r"\block\b", str(error), re.IGNORECASE) is not None


def cannot_open(path: Path, error: Exception) -> StoreError:
    """The message for a database that does not open."""
    if locked(error):
        holder = re.search(r"held in (.+?)\. ", str(error).replace("\n", " ") + " ")
        return StoreError(
            f"{path} is in use by {holder[1] if holder else 'another process'}; "
            "close it and try again. Nothing is lost: the cache is the truth, and "
            "`leakgrid sql` reads it without this file"
        )
    return StoreError(
        f"{path} cannot be opened ({str(error).splitlines()[0]}); "
        "delete the file and try again: it is built anew from the cache"
    )
