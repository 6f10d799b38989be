"""A job file: what is asked, of whom, and judged by whom. README.md in ``jobs/`` explains it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakgrid.benchmarks.defences import registry
from leakgrid.benchmarks.judges.kinds import KINDS
from leakgrid.jobs.tables import Table, read_toml, unknown_name
from leakgrid.lanes.values import Quota
from leakgrid.outcomes import JobError
from leakgrid.types import Price

PROVIDERS = ("openai", "local", "simulated")
BENCHMARKS = ("muppet",)
CONDITIONS: Mapping[str, tuple[str, ...]] = {"muppet": ("group", "group-boundaries", "one-to-one")}
JUDGES: Mapping[str, tuple[str, ...]] = {"muppet": tuple(KINDS)}

FREE = frozenset({"simulated", "local"})
"""Providers that nobody pays for by the token."""

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
    """A whole job file. Paths are absolute; ``home`` is the project the job belongs to."""

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
    attribution: tuple[str, float] | None = None
    simulated: Mapping[str, Any] = field(default_factory=dict)


def load_job(path: Path) -> Job:
    """Read and check a job file. Raises JobError that tells every mistake with its line."""
    root, mistakes = read_toml(path)
    table = root.table("job")
    if not table.data:
        mistakes.add((), "the table [job] is missing; see jobs/README.md for a small example")
        mistakes.stop()
    home = _home(path)
    benchmark = table.text("benchmark", choices=BENCHMARKS)
    specs = {name: _model(name, inside) for name, inside in root.tables("models").items()}
    known_judges = {
        name: _judge(name, inside, benchmark, specs)
        for name, inside in root.tables("judges").items()
    }
    prompts = home / table.text("prompts", f"jobs/prompts/{benchmark}")
    job = Job(
        path=path,
        home=home,
        name=table.text("name", path.stem),
        benchmark=benchmark,
        dataset=_existing(table, "dataset", home),
        limit=table.whole("limit", 0),
        samples=table.whole("samples", 1, 1),
        models=_names(table, "models", specs, "[models.NAME] tables"),
        defences=_defences(table, prompts),
        conditions=_names(table, "conditions", CONDITIONS.get(benchmark, ()), "conditions"),
        judges=tuple(
            known_judges[name]
            for name in _names(table, "judges", known_judges, "[judges.NAME] tables")
            if name in known_judges
        ),
        specs=specs,
        prompts=prompts,
        budget_usd=table.number("budget_usd", None),
        cells_at_once=table.whole("cells_at_once", 512, 1),
        patience=table.number("patience", 1.0),
        attribution=_attribution(root, known_judges),
        simulated=root.mapping("simulated", {}),
    )
    table.end()
    root.end()
    mistakes.stop()
    return job


def _attribution(root: Table, judges: Mapping[str, JudgeSpec]) -> tuple[str, float] | None:
    """[attribution]: which judge's leaks are probed, and the share of other replies that are."""
    table = root.table("attribution")
    if not table.data:
        return None
    leaks = {name for name, spec in judges.items() if KINDS[spec.kind].tells == "leak"}
    judge = table.text("judge", choices=leaks)
    controls = table.number("controls", 1.0)
    if controls is not None and controls > 1:
        table.wrong("controls", f"{controls!r} does not fit; it is a share of at most 1")
    table.end()
    return (judge, float(controls)) if judge and controls is not None else None


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


def _names(table: Table, key: str, known: Any, what: str) -> tuple[str, ...]:
    names = table.texts(key)
    for name in names or ():
        if not known:
            table.wrong(key, f"{name!r} is not known: the file has no {what}")
        elif name not in known:
            table.wrong(key, unknown_name(name, known))
    return tuple(names or ())


def _defences(table: Table, prompts: Path) -> tuple[str, ...]:
    known = registry.known(prompts)
    folders = f"{prompts / 'defences'} (NAME.md) or {registry.folder_of(prompts)} (NAME.py)"
    names = table.texts("defences")
    for name in names or ():
        if name not in known:
            told = f" (your own is a file in {folders})"
            table.wrong("defences", unknown_name(name, known) + told)
    return tuple(names or ())


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
    )
    table.end()
    return spec


def _judge(
    name: str, table: Table, benchmark: str | None, specs: Mapping[str, ModelSpec]
) -> JudgeSpec:
    kinds = JUDGES.get(benchmark or "", ())
    kind = table.text("kind", name, choices=kinds)
    if "kind" not in table.data and kinds and name not in kinds:
        table.mistakes.add(table.keys, f"needs a kind; allowed: {', '.join(kinds)}")
    model, options = "", {}
    if kind in KINDS:
        if KINDS[kind].needs_model:
            model = table.text("model", choices=specs) or ""
        for option in KINDS[kind].options:
            if option.choices:
                value = table.text(option.name, option.default, choices=option.choices)
            else:
                value = table.whole(option.name, option.default, 1)
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
