"""The tables [defences.NAME] of a job file: what a built-in defence can be told."""

from __future__ import annotations

from collections.abc import Mapping

from leakgrid.benchmarks.defences.redact import ENGINES, PARTS, USUAL, Redaction
from leakgrid.jobs.tables import Table, one_of, unknown_name


def read_defences(root: Table) -> Mapping[str, Redaction]:
    """The options of each defence that has a table. ``redact`` is the only one that takes any."""
    found = {}
    for name, table in root.tables("defences").items():
        if name == "redact":
            found[name] = _redaction(table)
        else:
            told = f"no defence but redact takes options: {unknown_name(name, ('redact',))}"
            table.mistakes.add(table.keys, told)
    return found


def _redaction(table: Table) -> Redaction:
    engine = table.text("engine", USUAL.engine, choices=ENGINES)
    parts = table.texts("on", list(USUAL.on)) or []
    for part in parts:
        if part not in PARTS:
            table.wrong("on", f"{part!r} does not fit; it must be {one_of(PARTS)}, or both")
    model = table.text("spacy_model", "")
    table.end()
    if engine == "presidio":
        from leakgrid.benchmarks.defences import presidio

        option, told = presidio.lacking(model)
        if told:
            table.wrong(option, told)
    elif model:
        table.wrong("spacy_model", "only the engine 'presidio' uses a spaCy model")
    on = tuple(part for part in PARTS if part in parts)
    return Redaction(engine=engine, on=on, spacy_model=model)
