"""A job file: what is asked, of whom, and judged by whom. README.md in ``jobs/`` explains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakgrid.benchmarks.benchmark import JudgeUse
from leakgrid.jobs.forms import FORMS, JudgeKinds, Reading, names
from leakgrid.jobs.judge_temperature import read_temperature
from leakgrid.jobs.models import ModelSpec, read_model
from leakgrid.jobs.names import NAME, check_name
from leakgrid.jobs.tables import Table, read_toml

_PROMPTS = {"ci-labels": "dialogue"}
"""Folders of prompts that are not named as their benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A whole job file. Paths are absolute; ``home`` is the project the job belongs to.

    ``limit`` is None where all items are meant. ``settings`` are what its benchmark alone knows
    of (see ``forms.py``).
    """

    path: Path
    home: Path
    name: str
    benchmark: str
    dataset: Path
    limit: int | None
    samples: int
    models: tuple[str, ...]
    defences: tuple[str, ...]
    conditions: tuple[str, ...]
    judges: tuple[JudgeUse, ...]
    specs: Mapping[str, ModelSpec]
    prompts: Path
    budget_usd: float | None
    cells_at_once: int
    patience: float
    settings: Any = None
    simulated: Mapping[str, Any] = field(default_factory=dict)


def load_job(path: Path) -> Job:
    """Read and check a job file. Raises JobError that tells every mistake with its line."""
    root, mistakes = read_toml(path)
    table = root.table("job")
    if not table.data:
        mistakes.add((), "the table [job] is missing; see jobs/README.md for a small example")
        mistakes.stop()
    home = _home(path)
    benchmark = table.text("benchmark", choices=FORMS)
    # One that is not known is a mistake already; the other keys are then held against MuPPET's.
    form = FORMS.get(benchmark or "", FORMS["muppet"])
    specs = {name: read_model(name, inside) for name, inside in root.tables("models").items()}
    known_judges = {
        name: _judge(name, inside, form.judges(), specs)
        for name, inside in root.tables("judges").items()
    }
    prompts = home / table.text("prompts", f"jobs/prompts/{_PROMPTS.get(benchmark, benchmark)}")
    reading = Reading(
        root=root, job=table, home=home, models=specs, judges=known_judges, prompts=prompts
    )
    settings = form.settings(reading)
    job = Job(
        path=path,
        home=home,
        name=_name(table, path),
        benchmark=benchmark,
        dataset=_existing(table, "dataset", home),
        limit=table.whole("limit", None, 1),
        samples=table.whole("samples", 1, 1),
        models=names(table, "models", specs, "[models.NAME] tables"),
        defences=form.defences(reading),
        conditions=names(table, "conditions", form.conditions(settings), "conditions"),
        judges=tuple(
            known_judges[name]
            for name in (
                names(table, "judges", known_judges, "[judges.NAME] tables") if form.judged else ()
            )
            if name in known_judges
        ),
        specs=specs,
        prompts=prompts,
        budget_usd=table.number("budget_usd", None),
        cells_at_once=table.whole("cells_at_once", 512, 1),
        patience=table.number("patience", 1.0),
        settings=settings,
        simulated=root.mapping("simulated", {}),
    )
    table.end()
    root.end()
    mistakes.stop()
    return job


def _home(path: Path) -> Path:
    """The project folder of a job: the nearest one above it that has a ``jobs`` folder."""
    absolute = path.resolve()
    for folder in absolute.parents:
        if (folder / "jobs").is_dir():
            return folder
    return absolute.parent


def _name(table: Table, path: Path) -> str:
    """The key ``name``, else the file's own without its ending."""
    name: str = table.text("name", path.stem)
    if not NAME.fullmatch(name):
        what = "" if "name" in table.data else ", the file's own name,"
        told = "at most 80 letters (A to Z), digits, spaces, dots, - and _, the first a letter"
        table.wrong("name", f"{name!r}{what} does not fit; it must be {told} or a digit")
    return name


def _existing(table: Table, key: str, home: Path) -> Path:
    text = table.text(key)
    path = home / (text or ".")
    if text and not path.exists():
        table.wrong(key, f"{path} does not exist; give a path below {home}")
    return path


def _judge(name: str, table: Table, kinds: JudgeKinds, specs: Mapping[str, ModelSpec]) -> JudgeUse:
    """One [judges.*] table, with every option that its kind takes and the defaults filled in."""
    if not kinds:
        table.mistakes.add(table.keys, "a job of this benchmark has no judges")
        return JudgeUse(name, name, "")
    check_name(table, told="; which kind it is of is the key 'kind'")
    kind = table.text("kind", name, choices=kinds)
    if "kind" not in table.data and name not in kinds:
        table.mistakes.add(table.keys, f"needs a kind; allowed: {', '.join(kinds)}")
    model, options, temperature = "", {}, None
    if kind in kinds:
        if kinds[kind].needs_model:
            model = table.text("model", choices=specs) or ""
        for option in kinds[kind].options:
            if option.choices:
                value = table.text(option.name, option.default, choices=option.choices)
            else:
                value = table.whole(option.name, option.default, option.least)
            options[option.name] = value
        if kinds[kind].needs_model:
            temperature = read_temperature(table, specs.get(model), options.get("votes") or 1)
        # Which keys are allowed depends on the kind: without one there is nothing to hold against.
        table.end()
    return JudgeUse(name, kind or name, model, options, temperature)
