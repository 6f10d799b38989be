"""Money already spent, from the durable rows: it survives any interruption."""

from __future__ import annotations

from pathlib import Path

import orjson

from leakgrid.cache.journal_file import SUFFIX, JournalFile
from leakgrid.cache.segments import files


def spent_usd(folder: Path, job: str) -> float:
    """US dollars of all priced attempts that ``job`` ever sent, failed and forgotten ones too."""
    total = 0.0

    def take(_: int, payload: bytes) -> None:
        nonlocal total
        row = orjson.loads(payload)
        if row["job"] == job:
            total += row["usd"] or 0.0

    for path in files(folder, "answers"):
        if path.suffix == SUFFIX:
            JournalFile(path).read(take)
        else:
            import pyarrow.parquet as pq

            table = pq.read_table(path, columns=["job", "usd"], filters=[("job", "=", job)])
            total += sum(usd or 0.0 for usd in table.column("usd").to_pylist())
    return total
