"""``leakgrid forget``: tombstones for kept answers and for the cells that rest on them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import orjson

from leakgrid.cache.journal import Journal
from leakgrid.outcomes import InputError, StoreError
from leakgrid.store.live import open_live


def forget(cache: Path, where: str, *, do: bool) -> str:
    """Put answers that match ``where`` (SQL over ``response``) out of use; says what happened.

    Nothing is deleted: the rows stay in their files, but no run and no table sees them. Cells
    that used such an answer are open again. Raises StoreError for wrong SQL.
    """
    import duckdb

    with open_live(cache) as connection:
        try:
            answers = connection.execute(
                f"SELECT stem, ordinal, key FROM response WHERE {where}"
            ).fetchall()
        except duckdb.Error as error:
            raise StoreError(f"--where {where!r}: {error}") from None
        keys = sorted({key for _, _, key in answers})
        records = connection.execute(
            "SELECT DISTINCT stem, ordinal FROM call WHERE key IN "
            "(SELECT unnest(CAST(? AS VARCHAR[])))",
            [keys],
        ).fetchall()
    if not answers:
        raise InputError(f"no kept answer matches {where!r}; see them with: leakgrid sql response")
    found = f"{len(answers):,} answers and the {len(records):,} records of cells that used them"
    if not do:
        return f"{found} would be forgotten; add --yes to do it"
    rows = [
        {
            "stream": stream,
            "rows": [[stem, ordinal] for stem, ordinal, *_ in places],
            "where": where,
            "ts": time.time(),
        }
        for stream, places in (("answers", answers), ("records", records))
    ]
    asyncio.run(_write(cache, [orjson.dumps(row) for row in rows]))
    return f"{found} are forgotten; the next run asks for them again"


async def _write(cache: Path, payloads: list[bytes]) -> None:
    async with Journal(cache / "forgotten") as journal:
        for payload in payloads:
            journal.append_soon(payload)
        await journal.flush()
