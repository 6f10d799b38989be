"""From a job to its cells: columns with their fingerprints, and what is still to do.

A column is everything about a cell but its item: model, defence, condition, sample and judges,
with every text, parameter, identity and version that goes into them. Its fingerprint changes
when any of these does, and then its cells replay (from cached answers where the calls are the
same).
"""

from __future__ import annotations

import datetime
import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import orjson

from leakgrid.benchmarks.benchmark import Benchmark, Item, Point
from leakgrid.cache.cells import DoneCells, short
from leakgrid.jobs.forms import FORMS
from leakgrid.jobs.jobfile import Job
from leakgrid.jobs.models import ModelSpec
from leakgrid.jobs.prices import listed_price, vendor_of
from leakgrid.jobs.tables import Mistakes
from leakgrid.outcomes import DatasetError
from leakgrid.value import value

USUAL_SHAPE = {"api": "chat", "system": "send"}
"""Options of a model that shape its requests, with what holds where a job says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """All cells of one point of the grid; ``models`` are those that its cells ask."""

    id: str
    point: Point
    models: frozenset[str]
    simulated: bool


@value(frozen=True, slots=True)
class Todo:
    """One cell that is not done."""

    item: Item
    column: Column


class Plan:
    """A job, its items and its columns. Nothing is sent, started or written by making one."""

    def __init__(
        self, job: Job, benchmark: Benchmark | None = None, *, cache: Path | None = None
    ) -> None:
        """``cache`` is where servers that leakgrid starts have left what they are.

        Raises JobError or DatasetError for what is wrong in the job's files.
        """
        self.job = job
        self._cache = cache
        self.judges = job.judges
        self._form = FORMS[job.benchmark]
        self.benchmark: Benchmark = benchmark or self._form.make(job, self.judges)
        self.items = _items(job, self.benchmark)
        self.simulated = simulated_config(job, self.benchmark)
        self.identities = {name: self._identity(spec) for name, spec in job.specs.items()}
        self.columns = tuple(self._columns())

    @property
    def cells(self) -> int:
        """Planned cells."""
        return len(self.items) * len(self.columns)

    def todo(self, done: DoneCells, columns: Iterable[Column] | None = None) -> Iterator[Todo]:
        """Cells of ``columns`` (all, if not given) that are not done.

        Items are outermost: all that is asked of an item shares text.
        """
        sets = [(column, done.column(column.id)) for column in columns or self.columns]
        for item in self.items:
            digest = short(item.digest)
            for column, finished in sets:
                if digest not in finished:
                    yield Todo(item, column)

    def count_todo(self, done: DoneCells) -> dict[str, int]:
        """Cells that are not done, by column id; columns with none are left out."""
        digests = {short(item.digest) for item in self.items}
        counts = {
            column.id: len(digests) - len(digests & done.column(column.id))
            for column in self.columns
        }
        return {column_id: count for column_id, count in counts.items() if count}

    def described(self) -> dict[str, Any]:
        """The plan as the ``runs`` stream keeps it (see ``cache/tables.py``)."""
        job = self.job
        included = {item.id for item in self.items}
        judges = [asdict(judge) for judge in self.judges]
        body: dict[str, Any] = {
            "benchmark": job.benchmark,
            "dataset": os.path.relpath(job.dataset, job.home),
            "columns": [
                {
                    "id": column.id,
                    **asdict(column.point),
                    "simulated": column.simulated,
                    "note": job.specs[column.point.model].note,
                    "judges": judges,
                }
                for column in self.columns
            ],
            "items": [[item.id, item.digest.hex()] for item in self.items],
            "attributes": [row for row in self.benchmark.attributes() if row[0] in included],
            "prices": {name: told for name, spec in job.specs.items() if (told := _prices(spec))},
            "models": {
                name: {"family": spec.family, "size_b": spec.size_b}
                for name, spec in job.specs.items()
                if spec.family or spec.size_b is not None
            },
            **self.benchmark.facts(),
        }
        plan_id = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
        return {"plan_id": plan_id[:32], **body}

    def _identity(self, spec: ModelSpec) -> str:
        """What tells this model's server from another that uses the same names."""
        if spec.provider == "simulated":
            assert self.simulated is not None
            return str(self.simulated["identity"])
        if spec.provider == "local":
            from leakgrid.providers import local

            return local.identity(spec.model, None)
        if spec.managed:
            from leakgrid.jobs.gpu import identity_of

            return identity_of(spec, self._cache)
        identity = str(spec.options.get("identity") or spec.endpoint)
        if not spec.headers:
            return identity
        # A header may switch a model to something else (a beta); no secret stands in a job file.
        data = orjson.dumps(dict(spec.headers), option=orjson.OPT_SORT_KEYS)
        return f"{identity}#{hashlib.sha256(data).hexdigest()[:16]}"

    def _columns(self) -> Iterator[Column]:
        job = self.job
        judging = {judge.model for judge in self.judges if judge.model}
        judges = [
            [
                judge.name,
                judge.kind,
                self._print(judge.model),
                dict(judge.options),
                *([] if judge.temperature is None else [judge.temperature]),
            ]
            for judge in self.judges
        ]
        receivers, turns = self._form.axes(job.settings)
        axes = product(
            job.conditions, range(job.samples), job.models, receivers, turns, job.defences
        )
        for condition, sample, model, receiver, rounds, defence in axes:
            point = Point(
                model=model,
                defence=defence,
                condition=condition,
                sample=sample,
                receiver=receiver,
                turns=rounds,
            )
            parts = [
                self.benchmark.version,
                self.benchmark.texts(defence, condition),
                asdict(point),
                self._print(model),
                self._print(receiver),
                judges,
            ]
            data = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)
            models = frozenset({model, *judging} | ({receiver} if receiver else set()))
            yield Column(
                id=hashlib.sha256(data).hexdigest()[:32],
                point=point,
                models=models,
                simulated=any(job.specs[name].provider == "simulated" for name in models),
            )

    def _print(self, name: str) -> list[Any]:
        """All of a model that may change its answers, and its name, since tables show that."""
        if not name:
            return []
        spec = self.job.specs[name]
        shape = {
            key: spec.options[key]
            for key, usual in USUAL_SHAPE.items()
            if spec.options.get(key, usual) != usual
        }
        found = [name, spec.provider, spec.model, self.identities[name], dict(spec.params)]
        return [*found, shape] if shape else found


def _prices(spec: ModelSpec) -> dict[str, Any]:
    """The price of a model that is charged for, and its batch rate where it sends batches."""
    prices = {"online": spec.price, "batch": spec.batch_price if spec.tier == "batch" else None}
    told: dict[str, dict[str, Any]] = {}
    for tier, price in prices.items():
        if price is None:
            continue
        told[tier] = asdict(price)
        vendor = vendor_of(spec.provider, spec.base_url, spec.params)
        if spec.price_told and (listed := listed_price(vendor, spec.model, tier)):
            told[tier]["source"] = listed.told
            if listed.first > datetime.date.min:
                told[tier]["valid_from"] = listed.first.isoformat()
    online = told.pop("online", {})
    return {**online, **told}


def _items(job: Job, benchmark: Benchmark) -> tuple[Item, ...]:
    items = tuple(benchmark.items)
    if job.limit is not None:
        items = items[: job.limit]
    if not items:
        raise DatasetError(f"{job.dataset}: there is no item in this file")
    if len({short(item.digest) for item in items}) < len(items):
        raise DatasetError(f"{job.dataset}: two items have the same content; remove one of them")
    return items


def simulated_config(job: Job, benchmark: Benchmark) -> dict[str, Any] | None:
    """What the simulated server is started with, and its identity; None if no model needs it.

    The cues by which it recognises condition and defence are pieces of the prompt files, so it
    answers from the request alone. Raises JobError for a wrong [simulated] table.
    """
    if not any(spec.provider == "simulated" for spec in job.specs.values()):
        return None
    from leakgrid.providers.simulated import config

    table = {
        "items": str(job.dataset),
        "cues": benchmark.cues(),
        **FORMS[job.benchmark].simulated(job.settings),
        **job.simulated,
    }
    if table.get("labels"):
        table["labels"] = str(job.home / str(table["labels"]))
    try:
        identity = config.parse(table).identity()
    except ValueError as error:
        mistakes = Mistakes(job.path, job.path.read_text("utf-8"))
        for line in str(error).splitlines():
            key, _, told = line.partition(": ")
            mistakes.add(tuple(key.split(".")), told)
        mistakes.stop()
        raise
    return {"table": table, "identity": identity}
