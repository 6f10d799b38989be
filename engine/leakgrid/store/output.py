"""Result rows as a text table, CSV, or JSON lines. Model output in them is untrusted."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any, TextIO

WIDEST = 60
"""Characters of the widest column of a text table; a longer cell ends in an ellipsis."""

FETCH = 1000


def write_table(names: list[str], cursor: Any, out: TextIO) -> None:
    """Aligned columns; control characters are shown, never sent to the terminal."""
    rows = [[_cell(value) for value in row] for row in _rows(cursor)]
    right = [True] * len(names)
    widths = [len(name) for name in names]
    for row in rows:
        for index, (text, number) in enumerate(row):
            widths[index] = max(widths[index], len(text))
            right[index] = right[index] and number

    def line(cells: Iterable[str]) -> str:
        put = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(cells, widths, right, strict=True)
        )
        return "  ".join(put).rstrip() + "\n"

    out.write(line(names))
    out.write(line("-" * width for width in widths))
    out.writelines(line(text for text, _ in row) for row in rows)
    out.write(f"{len(rows)} {'row' if len(rows) == 1 else 'rows'}\n")


def write_csv(names: list[str], cursor: Any, out: TextIO) -> None:
    """RFC 4180 CSV with a header; NULL is an empty field."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in _rows(cursor):
        writer.writerow([_plain(value) for value in row])


def write_json(names: list[str], cursor: Any, out: TextIO) -> None:
    """One JSON object a line."""
    import orjson

    for row in _rows(cursor):
        line = orjson.dumps(dict(zip(names, row, strict=True)), default=_jsonable)
        out.write(line.decode() + "\n")


FORMATS: dict[str, Callable[[list[str], Any, TextIO], None]] = {
    "table": write_table,
    "csv": write_csv,
    "json": write_json,
}


def _plain(value: Any) -> Any:
    """A CSV field: NULL is empty, truth in lower case as DuckDB writes and reads it."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else value


def _jsonable(value: Any) -> Any:
    """What orjson does not know: DECIMAL becomes a number, everything else its text."""
    return float(value) if isinstance(value, Decimal) else str(value)


def _rows(cursor: Any) -> Iterator[tuple[Any, ...]]:
    """Rows of a cursor, a thousand at a time."""
    while rows := cursor.fetchmany(FETCH):
        yield from rows


def _cell(value: Any) -> tuple[str, bool]:
    """(text, is it a number or empty) of one value."""
    if value is None:
        return "-", True
    if isinstance(value, bool):
        return str(value).lower(), False
    if isinstance(value, float | Decimal):
        value = float(value)
        return f"{value:.4g}" if abs(value) < 1e5 else f"{value:.0f}", True
    if isinstance(value, int):
        return str(value), True
    text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in str(value))
    return (text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"), False
