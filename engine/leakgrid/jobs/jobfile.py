"""A job file: what is asked, of whom, and judged by whom. README.md in ``jobs/`` explains it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakgrid.jobs.forms import FORMS, JudgeKinds, Reading, names
from leakgrid.jobs.tables import Table, read_toml
from leakgrid.lanes.values import Quota
from leakgrid.outcomes import JobError
from leakgrid.types import Price

PROVIDERS = ("openai", "local", "simulated")

FREE = frozenset({"simulated", "local"})
"""Providers that nobody pays for by the token."""

_PROMPTS = {"ci-labels": "dialogue"}
"""Folders of prompts that are not named as their benchmark."""

_OWNED = frozenset({"model", "messages", "response_format", "stream", "n"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """One [models.*] table."""

    name: str
    provider: str
    model: str
    base_url: str
    key_env: str
    params: Mapping[str, Any]
    headers: Mapping[str, str]
    price: Price | None
    quota: Quota
    timeout_s: float
    note: str
    family: str = ""
    size_b: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSpec:
    """One [judges.*] table; ``model`` is empty for a judge that asks no model.

    ``options`` holds every option that its kind takes, with defaults filled in.
    """

    name: str
    kind: str
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A whole job file. Paths are absolute; ``home`` is the project the job belongs to.

    ``settings`` are what its benchmark alone knows of (see ``forms.py``).
    """

    path: Path
    home: Path
    name: str
    benchmark: str
    dataset: Path
    limit: int
    samples: int
    models: tuple[str, ...]
    defences: tuple[str, ...]
    conditions: tuple[str, ...]
    judges: tuple[JudgeSpec, ...]
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
    specs = {name: _model(name, inside) for name, inside in root.tables("models").items()}
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
        name=table.text("name", path.stem),
        benchmark=benchmark,
        dataset=_existing(table, "dataset", home),
        limit=table.whole("limit", 0),
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


def _existing(table: Table, key: str, home: Path) -> Path:
    text = table.text(key)
    path = home / (text or ".")
    if text and not path.exists():
        table.wrong(key, f"{path} does not exist; give a path below {home}")
    return path


def _model(name: str, table: Table) -> ModelSpec:
    provider = table.text("provider", choices=PROVIDERS)
    params = table.mapping("params", {})
    for key in sorted(_OWNED.intersection(params)):
        table.wrong("params", f"{key!r} is set by leakgrid and cannot be a parameter")
    headers = table.mapping("headers", {})
    price = table.table("price")
    quoted = None
    if price.data:
        quoted = Price(price.number("input"), price.number("output"), price.number("cached", None))
        price.end()
    base_url = table.text("base_url", "")
    if provider == "openai":
        base_url = base_url or "https://api.openai.com/v1"
    if base_url and not base_url.startswith(("http://", "https://")):
        table.wrong(
            "base_url", f"{base_url!r} does not fit; it must begin with http:// or https://"
        )
    if base_url and provider == "local":
        table.wrong("base_url", "a local model is served by leakgrid itself and has no base_url")
    concurrency = table.whole("concurrency", None, 1)
    spec = ModelSpec(
        name=name,
        provider=provider or "",
        model=table.text("model", name),
        base_url=base_url,
        key_env=table.text("key_env", "OPENAI_API_KEY" if provider == "openai" else ""),
        params=params,
        headers={key: str(value) for key, value in headers.items()},
        price=quoted,
        quota=Quota(
            rpm=table.number("rpm", None, 1),
            tpm=table.number("tpm", None, 1),
            concurrency=2 if concurrency is None and provider == "local" else concurrency,
        ),
        timeout_s=table.number("timeout_s", 600.0, 0.001),
        note=table.text("note", ""),
        family=table.text("family", ""),
        size_b=table.number("size_b", None),
    )
    table.end()
    return spec


def _judge(name: str, table: Table, kinds: JudgeKinds, specs: Mapping[str, ModelSpec]) -> JudgeSpec:
    if not kinds:
        table.mistakes.add(table.keys, "a job of this benchmark has no judges")
        return JudgeSpec(name=name, kind=name, model="")
    kind = table.text("kind", name, choices=kinds)
    if "kind" not in table.data and name not in kinds:
        table.mistakes.add(table.keys, f"needs a kind; allowed: {', '.join(kinds)}")
    model, options = "", {}
    if kind in kinds:
        if kinds[kind].needs_model:
            model = table.text("model", choices=specs) or ""
        for option in kinds[kind].options:
            if option.choices:
                value = table.text(option.name, option.default, choices=option.choices)
            else:
                value = table.whole(option.name, option.default, option.least)
            options[option.name] = value
        # Which keys are allowed depends on the kind: without one there is nothing to hold against.
        table.end()
    return JudgeSpec(name=name, kind=kind or name, model=model, options=options)


def secret_of(spec: ModelSpec) -> str:
    """The key of a model from the environment; empty where none is needed.

    Raises JobError when the variable that the job names is not set. A host that is not OpenAI's
    may need no key, so there the default variable may be unset.
    """
    if not spec.key_env:
        return ""
    key = os.environ.get(spec.key_env, "").strip()
    if not key and (spec.base_url.startswith("https://") or spec.key_env != "OPENAI_API_KEY"):
        raise JobError(
            f"models.{spec.name}: the environment variable {spec.key_env} is not set; export it, "
            "or name another one with key_env"
        )
    return key
