"""``leakgrid data export``: files from what the cells of a job left behind.

``items`` are those of a job that generates them (a dataset file, and its card beside it);
``labels`` the label file of a ``ci-labels`` job; ``released-labels`` the same as CIMemories'
scripts read them. Raises DatasetError where the job has nothing of the kind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import orjson

from leakgrid.datasets.cimemories import load_profiles
from leakgrid.datasets.cimemories_labels import (
    PERSONAS,
    LabelLine,
    LabelRow,
    write_labels,
    write_whole,
)
from leakgrid.jobs.names import as_file
from leakgrid.outcomes import DatasetError

if TYPE_CHECKING:
    import duckdb


def export(
    form: str, job: str, cache: Path, target: Path, profiles: Path | None, out: TextIO
) -> None:
    """Write ``target`` and tell what is in it. ``profiles`` is needed for released labels."""
    with _live(cache) as database:
        if form == "items":
            _items(database, job, target, out)
            return
        rows, labelled, unfinished = _votes(database, job)
    if form == "labels":
        write_labels(target, _lines(rows, labelled))
        told = [f"{len(labelled)} contexts, {len(rows)} shares written to {target}"]
    else:
        if profiles is None:
            raise DatasetError("released labels stand beside their profiles: give --profiles FILE")
        from leakgrid.datasets.cimemories_released import export_labels

        told = export_labels(rows, load_profiles(profiles), target, labelled=labelled)
    if unfinished:
        told.append(
            f"{unfinished} contexts left out: samples of them are missing; run job {job} to its end"
        )
    print("\n".join(told), file=out)


@contextlib.contextmanager
def _live(cache: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    from leakgrid.store.live import open_live

    database = open_live(cache)
    try:
        yield database
    finally:
        database.close()


def _items(database: duckdb.DuckDBPyConnection, job: str, target: Path, out: TextIO) -> None:
    from leakgrid.datasets.muppet_export import export_items

    rows = database.execute(
        "SELECT model, item, reply, extra FROM cell WHERE job = ? AND status = 'done' "
        "ORDER BY item",
        [job],
    ).fetchall()
    writers = sorted({row[0] for row in rows})
    if not rows:
        raise DatasetError(f"job {job}: no finished cell; run the job first")
    for writer in writers:
        # One file a writer: items of two models for one plan are no dataset together.
        own = target.with_stem(f"{target.stem}.{as_file(writer)}")
        path = target if len(writers) == 1 else own
        mine = [
            (item, reply, orjson.loads(extra)) for by, item, reply, extra in rows if by == writer
        ]
        lines, card = export_items(mine)
        write_whole(path, lines.decode())
        write_whole(path.with_name(path.name + ".md"), card)
        count = lines.count(b"\n")
        print(f"{count} of {len(mine)} items written to {path}, their card beside it", file=out)


def _votes(
    database: duckdb.DuckDBPyConnection, job: str
) -> tuple[list[LabelRow], list[tuple[str, str]], int]:
    """Shares over all parsed samples of a job's models, the contexts that are labelled, and how
    many are not because samples are missing: few samples make labels hard too easily.
    """
    samples = database.execute(
        "SELECT profile, context, persona, sum(parsed), sum(missing) FROM label_sample "
        "WHERE job = ? GROUP BY ALL",
        [job],
    ).fetchall()
    parsed = {(profile, context, persona): int(n) for profile, context, persona, n, _ in samples
              if n}  # fmt: skip
    unfinished = {(profile, context) for profile, context, _, _, missing in samples if missing}
    if not parsed:
        raise DatasetError(f"job {job}: no labels; name a job of the benchmark ci-labels")
    found = database.execute(
        "SELECT profile, context, attribute, persona, sum(necessary), sum(inappropriate) "
        "FROM vote_share WHERE job = ? GROUP BY ALL ORDER BY ALL",
        [job],
    ).fetchall()
    rows: list[LabelRow] = [
        (
            profile,
            context,
            attribute,
            persona,
            necessary / parsed[profile, context, persona],
            inappropriate / parsed[profile, context, persona],
        )
        for profile, context, attribute, persona, necessary, inappropriate in found
    ]
    personas = {persona for _, _, persona in parsed}
    if missing := [persona for persona in PERSONAS if persona not in personas]:
        # Left out, they would read as "never listed".
        raise DatasetError(
            f"job {job}: no readable sample of {', '.join(missing)}, and a label file needs "
            "every persona; add them to the job's conditions and run it"
        )
    # A context counts as labelled when every persona has a sample, and none is still to come.
    heard: dict[tuple[str, str], set[str]] = {}
    for profile, context, persona in parsed:
        heard.setdefault((profile, context), set()).add(persona)
    labelled = sorted(
        pair for pair, have in heard.items() if have == personas and pair not in unfinished
    )
    if not labelled and unfinished:
        raise DatasetError(
            f"job {job}: samples of every context are missing; run the job to its end"
        )
    kept = set(labelled)
    return [row for row in rows if (row[0], row[1]) in kept], labelled, len(unfinished)


def _lines(rows: Iterable[LabelRow], labelled: list[tuple[str, str]]) -> Iterator[LabelLine]:
    """Label lines: all personas of an attribute on one, 0 where a persona never listed it."""
    shares: dict[tuple[str, str, str], dict[str, tuple[float, float]]] = {}
    for profile, context, attribute, persona, necessary, inappropriate in rows:
        shares.setdefault((profile, context, attribute), {})[persona] = (necessary, inappropriate)
    listed = {(profile, context) for profile, context, _ in shares}
    for (profile, context, attribute), said in sorted(shares.items()):
        full: dict[str, Any] = {name: said.get(name, (0.0, 0.0)) for name in PERSONAS}
        yield LabelLine(profile=profile, context=context, attribute=attribute, shares=full)
    for profile, context in labelled:
        if (profile, context) not in listed:
            yield LabelLine(profile=profile, context=context)
