"""What a job of each benchmark may say beyond the common keys, and how its benchmark is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from leakgrid.benchmarks.benchmark import Benchmark, JudgeUse
from leakgrid.benchmarks.defences import registry
from leakgrid.benchmarks.dialogue.settings import (
    MESSAGE_CONDITIONS,
    PERSONAS,
    PROMPT_CONDITIONS,
    WESTIN_WEIGHTS,
    LabelRule,
    Settings,
    Subset,
)
from leakgrid.benchmarks.judges.kinds import KINDS
from leakgrid.benchmarks.muppet_generate.settings import CONDITIONS as GENERATE_CONDITIONS
from leakgrid.benchmarks.muppet_generate.settings import JUDGES as GENERATE_JUDGES
from leakgrid.benchmarks.muppet_generate.settings import Settings as GenerateSettings
from leakgrid.jobs.defences import read_defences
from leakgrid.jobs.tables import Table, unknown_name

if TYPE_CHECKING:
    from leakgrid.jobs.jobfile import Job

JudgeKinds: TypeAlias = Mapping[str, Any]
"""Name to something with ``needs_model`` and ``options`` (see ``benchmarks/judges/kinds.py``)."""

UNDEFENDED = ("none",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The parts of a job file that a form reads from."""

    root: Table
    job: Table
    home: Path
    models: Mapping[str, Any]
    judges: Mapping[str, Any]
    prompts: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One benchmark. ``settings`` reads its own keys, ``conditions`` may depend on them."""

    judges: Callable[[], JudgeKinds]
    settings: Callable[[Reading], Any]
    conditions: Callable[[Any], tuple[str, ...]]
    make: Callable[[Job, tuple[JudgeUse, ...]], Benchmark]
    defences: Callable[[Reading], tuple[str, ...]] = field(default=lambda reading: UNDEFENDED)
    judged: bool = True
    axes: Callable[[Any], tuple[tuple[str, ...], tuple[int, ...]]] = field(
        default=lambda settings: (("",), (0,))
    )
    """(receiver models, numbers of turns) of its columns."""
    simulated: Callable[[Any], Mapping[str, Any]] = field(default=lambda settings: {})
    """What a simulated server is told beside the job's own [simulated] table."""


# --- muppet -----------------------------------------------------------------------------------


def _muppet(job: Job, judges: tuple[JudgeUse, ...]) -> Benchmark:
    from leakgrid.benchmarks.muppet.program import Muppet

    attribution, options = job.settings
    return Muppet(job.dataset, job.prompts, job.defences, judges, attribution, options)


def _muppet_settings(reading: Reading) -> tuple[tuple[str, float] | None, Mapping[str, Any]]:
    """What Muppet takes last: [attribution] and the options of defences."""
    return _attribution(reading), read_defences(reading.root)


def _attribution(reading: Reading) -> tuple[str, float] | None:
    """[attribution]: which judge's leaks are probed, and the share of other replies that are."""
    table = reading.root.table("attribution")
    if not table.data:
        return None
    leaks = {
        name
        for name, spec in reading.judges.items()
        if spec.kind in KINDS and KINDS[spec.kind].tells == "leak"
    }
    judge = table.text("judge", choices=leaks)
    controls = table.number("controls", 1.0)
    if controls is not None and controls > 1:
        table.wrong("controls", f"{controls!r} does not fit; it is a share of at most 1")
    table.end()
    return (judge, float(controls)) if judge and controls is not None else None


def _defences(reading: Reading) -> tuple[str, ...]:
    prompts = reading.prompts
    known = registry.known(prompts)
    folders = f"{prompts / 'defences'} (NAME.md) or {registry.folder_of(prompts)} (NAME.py)"
    names = reading.job.texts("defences")
    for name in names or ():
        if name not in known:
            told = f" (your own is a file in {folders})"
            reading.job.wrong("defences", unknown_name(name, known) + told)
    return tuple(names or ())


# --- muppet-generate --------------------------------------------------------------------------


def _generate(job: Job, judges: tuple[JudgeUse, ...]) -> Benchmark:
    from leakgrid.benchmarks.muppet_generate.program import Generate

    return Generate(job.dataset, job.prompts, judges, job.settings)


def _generate_settings(reading: Reading) -> GenerateSettings:
    usual, table = GenerateSettings(), reading.root.table("generate")
    made = GenerateSettings(
        seed=table.whole("seed", usual.seed),
        sizes=tuple(table.wholes("sizes", list(usual.sizes), 4)),
        groups_per_size=table.whole("groups_per_size", usual.groups_per_size, 1),
        questions_per_group=table.whole("questions_per_group", usual.questions_per_group, 1),
    )
    table.end()
    return made


# --- dialogue and its labels ------------------------------------------------------------------


def _dialogue(job: Job, judges: tuple[JudgeUse, ...]) -> Benchmark:
    from leakgrid.benchmarks.dialogue.program import Dialogue

    return Dialogue(job.dataset, job.prompts, judges, job.settings)


def _labelling(job: Job, judges: tuple[JudgeUse, ...]) -> Benchmark:
    from leakgrid.benchmarks.dialogue.labelling import Labelling

    return Labelling(job.dataset, job.prompts, job.conditions, job.settings)


def _reveal_judges() -> JudgeKinds:
    from leakgrid.benchmarks.dialogue.reveal import JUDGES

    return JUDGES


def _dialogue_settings(reading: Reading) -> Settings:
    job = reading.job
    turns = job.wholes("turns", [6])
    single = 0 in (turns or ())
    if single and len(turns) > 1:
        job.wrong("turns", f"{turns!r}: 0 (a single message) stands alone, in a job of its own")
    receivers: tuple[str, ...] = ()
    if single:
        if "receivers" in job.data:
            job.wrong("receivers", "with turns = [0] nobody answers; leave this key out")
            job.texts("receivers", [])
    else:
        receivers = names(job, "receivers", reading.models, "[models.NAME] tables")
    return Settings(
        receivers=receivers or ("",),
        turns=tuple(turns or ()),
        early_end=job.flag("early_end", True),
        labels=_labels(reading),
        subset=_subset(reading),
    )


def _labels(reading: Reading) -> LabelRule:
    table = reading.root.table("labels")
    if not table.data:
        table.mistakes.add(
            (),
            "the table [labels] is missing: without labels nothing is inappropriate. Give it a "
            "file, or the job (benchmark ci-labels) that makes them",
        )
    file, job = table.text("file", ""), table.text("job", "")
    if table.data and bool(file) == bool(job):
        table.mistakes.add(table.keys, "needs either file or job")
    path = reading.home / file if file else None
    if path is not None and not path.exists():
        table.wrong("file", f"{path} does not exist; give a path below {reading.home}")
    inside = table.table("weights")
    weights = {name: inside.number(name, 0.0) for name in PERSONAS} if inside.data else None
    inside.end()
    if weights and abs(sum(weights.values()) - 1) > 1e-9:
        table.wrong("weights", f"their sum is {sum(weights.values()):g}; it must be 1")
    threshold = table.number("threshold", 1.0)
    if not 0 < threshold <= 1:
        table.wrong("threshold", f"{threshold!r} does not fit; it is above 0 and at most 1")
    rule = LabelRule(
        file=path,
        job=job,
        weights=weights or dict(WESTIN_WEIGHTS),
        threshold=float(threshold),
        basics=table.text("basics", "exact", choices=("exact", "compat")),
    )
    table.end()
    return rule


def _subset(reading: Reading) -> Subset:
    table = reading.root.table("subset")
    subset = Subset(
        profiles=table.whole("profiles", None, 1),
        contexts=table.whole("contexts", None, 1),
        instances=table.whole("instances", None, 1),
        seed=table.whole("seed", 0),
    )
    table.end()
    return subset


# --- all of them ------------------------------------------------------------------------------

FORMS: Mapping[str, Form] = {
    "muppet": Form(
        judges=lambda: KINDS,
        settings=_muppet_settings,
        conditions=lambda settings: ("group", "group-boundaries", "one-to-one"),
        defences=_defences,
        make=_muppet,
    ),
    "muppet-generate": Form(
        judges=lambda: GENERATE_JUDGES,
        settings=_generate_settings,
        conditions=lambda settings: GENERATE_CONDITIONS,
        make=_generate,
    ),
    "dialogue": Form(
        judges=_reveal_judges,
        settings=_dialogue_settings,
        conditions=lambda settings: (
            MESSAGE_CONDITIONS if settings.turns == (0,) else PROMPT_CONDITIONS
        ),
        axes=lambda settings: (settings.receivers, settings.turns),
        simulated=lambda settings: (
            {"labels": str(settings.labels.file)} if settings.labels.file else {}
        ),
        make=_dialogue,
    ),
    "ci-labels": Form(
        judges=dict,
        settings=_subset,
        conditions=lambda settings: PERSONAS,
        make=_labelling,
        judged=False,
    ),
}


def names(table: Table, key: str, known: Iterable[str], what: str) -> tuple[str, ...]:
    """A list of names, each of which must be known."""
    found = table.texts(key)
    for name in found or ():
        if not known:
            table.wrong(key, f"{name!r} is not known: the file has no {what}")
        elif name not in known:
            table.wrong(key, unknown_name(name, known))
    return tuple(found or ())
