"""A database file that the disk refuses: full, not writable, or left half made."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from leakgrid.outcomes import StoreError

HEADER_BYTES = 12288
"""DuckDB writes these first; a file that is shorter holds nothing yet."""


@contextlib.contextmanager
def refusals_told(database: Path) -> Iterator[None]:
    """StoreError instead of what the disk or DuckDB says when ``database`` cannot be written."""
    import duckdb

    try:
        yield
    except OSError as error:
        if not error.strerror:
            raise
        raise StoreError(
            f"{error.filename or database}: {error.strerror}; "
            "make room, or choose another file with --database"
        ) from error
    except (StoreError, duckdb.IOException, duckdb.TransactionException) as error:
        if re.search("no space left|quota exceeded", str(error), re.IGNORECASE):
            raise StoreError(
                f"{database}: there is no room for it on the disk; make room, or choose another "
                "file with --database. It is derived: the cache has everything"
            ) from error
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{database} cannot be written ({str(error).splitlines()[0]})") from error


def half_made(database: Path) -> bool:
    """Whether this is the beginning of a DuckDB file that never held anything."""
    with contextlib.suppress(OSError):
        start = database.read_bytes() if database.stat().st_size < HEADER_BYTES else None
        return start is not None and (not start.strip(b"\0") or start[8:12] == b"DUCK")
    return False
