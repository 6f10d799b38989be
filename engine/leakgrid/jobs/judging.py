"""``leakgrid judges evaluate``: a job's judges against labelled replies.

The judges are the very programs that cells run, and their calls take the same way: answered
from the cache where they were asked before, durable, within quotas and the job's budget. So the
same command again, or after an interruption, sends only what is not known yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from leakgrid.benchmarks.benchmark import JudgeUse
from leakgrid.benchmarks.judges.kinds import KINDS, Said
from leakgrid.benchmarks.judges.labelled import Labelled, load_labelled
from leakgrid.benchmarks.judges.panel import Panel, unknown
from leakgrid.cache.answers import AnswerCache
from leakgrid.jobs.gpu import IdentityChanged
from leakgrid.jobs.history import only_run
from leakgrid.jobs.jobfile import Job, load_job
from leakgrid.jobs.plan import Plan
from leakgrid.jobs.routes import Ways
from leakgrid.jobs.sending import new_run, open_asking, stop_lanes
from leakgrid.jobs.tables import unknown_name
from leakgrid.outcomes import (
    EXIT_OPEN_CELLS,
    KEPT,
    CacheError,
    Interrupted,
    JobError,
    LaneStopped,
)
from leakgrid.reports.judge_quality import Case, measure, told
from leakgrid.reports.judge_record import keep, record_of
from leakgrid.types import Answer, Ask, Call, Rating

LABELS = Path("datasets") / "muppet" / "labelled_replies.jsonl"
SHIPPED = Path(__file__).resolve().parents[3]
"""The checkout that this module stands in."""


@dataclass(slots=True)
class Session:
    """What happened on the way; ``open`` counts calls that failed and are asked again."""

    sent: int = 0
    without_sending: int = 0
    open: int = 0
    stopped: list[LaneStopped] = field(default_factory=list)
    fatal: list[CacheError] = field(default_factory=list)
    interrupted: bool = False
    notices: list[str] = field(default_factory=list)


def evaluate(
    path: Path,
    cache: Path,
    out: TextIO,
    *,
    judge: str | None = None,
    labels: Path | None = None,
    records: Path | None = None,
) -> int:
    """Measure the judges of a job (or the one named) and print their records; the exit code.

    ``records`` is the folder in which they are kept for the page, once every call has come
    through. Raises JobError or DatasetError for what is wrong in the files, StoreError where
    nothing can be kept, Interrupted after Ctrl-C.
    """
    job = load_job(path)
    columns = [column.id for column in Plan(job).columns] if records else []
    labels = labels or _labels(job)
    chosen = _for_labels(job, labels, judge)
    plan = Plan(chosen, cache=cache)
    replies = load_labelled(labels, {item.id: item for item in plan.benchmark.items})
    panel = Panel(job.prompts, plan.judges)
    session = Session()
    if any(use.model for use in plan.judges):
        said = _asked(plan, panel, replies, cache, session)
        while said is None:  # a server turned out to be another than was planned for
            plan = Plan(chosen, cache=cache)
            said = _asked(plan, panel, replies, cache, session)
    else:
        said = asyncio.run(_all(panel, _no_model, replies, session))
    if session.fatal:
        raise session.fatal[0]
    if session.interrupted:
        raise Interrupted("interrupted: run the same command again to go on")
    models = {use.model for use in plan.judges if use.model}
    fake = any(job.specs[name].provider == "simulated" for name in models)
    print(
        f"{job.name}{' (SIMULATED)' if fake else ''}: {len(replies)} labelled replies of {labels}; "
        f"{session.sent:,} calls sent, {session.without_sending:,} answered without sending",
        file=out,
    )
    for number, use in enumerate(plan.judges):
        tells = KINDS[use.kind].tells
        cases = (
            Case(reply.kind, reply.label(tells), _value(one[number]))
            for reply, one in zip(replies, said, strict=True)
        )
        quality = measure(cases)
        print(f"\n{told(use.name, use.kind, tells, quality)}", file=out)
        if records and not session.open and not session.stopped:
            made = record_of(
                quality,
                job=job.name,
                judge=use.name,
                kind=use.kind,
                tells=tells,
                simulated=bool(use.model) and job.specs[use.model].provider == "simulated",
                labels=labels,
                columns=columns,
            )
            print(f"  kept for the page: {keep(records, made)}", file=out)
    for line in dict.fromkeys([*session.notices, *map(str, session.stopped)]):
        print(f"leakgrid: {line}", file=out)
    if session.stopped:
        return session.stopped[0].exit_code
    return EXIT_OPEN_CELLS if session.open else 0


def _asked(
    plan: Plan, panel: Panel, replies: tuple[Labelled, ...], cache: Path, session: Session
) -> list[list[Said | None]] | None:
    """What every judge says of every reply; None where it must be planned anew."""
    said = None
    try:
        said = asyncio.run(_through_lanes(plan, panel, replies, cache, session))
    except* IdentityChanged:
        pass
    except* asyncio.CancelledError:
        raise Interrupted("interrupted: run the same command again to go on") from None
    if said is None and session.interrupted:
        raise Interrupted("interrupted: run the same command again to go on")
    return said


def _labels(job: Job) -> Path:
    """The labelled replies of the project that the job belongs to, or those shipped."""
    own = job.home / LABELS
    return own if own.exists() else SHIPPED / LABELS


def _for_labels(job: Job, labels: Path, judge: str | None) -> Job:
    """The job over the items that the labels belong to, with the judges that are wanted."""
    names = [spec.name for spec in job.judges]
    if judge is not None and judge not in names:
        raise JobError(f"{job.path}: job.judges: {unknown_name(judge, names)}")
    chosen = tuple(spec for spec in job.judges if judge in (None, spec.name))
    return replace(job, dataset=labels.with_name("items.jsonl"), limit=None, judges=chosen)


def _value(said: Said | None) -> bool | None:
    if said is None:
        return None
    return said.useful if isinstance(said, Rating) else said.leaked


async def _no_model(call: Call) -> Answer:
    raise AssertionError(f"{call.role} asks a model, and no judge here has one")


async def _through_lanes(
    plan: Plan, panel: Panel, replies: tuple[Labelled, ...], cache: Path, session: Session
) -> list[list[Said | None]]:
    """What every judge says of every reply, asked through lanes that are open meanwhile."""
    job = plan.job
    models = {use.model for use in plan.judges if use.model}
    opened: list[Ways] = []
    serving: list[bool] = []
    main = asyncio.current_task()
    assert main is not None

    def stop(why: str) -> None:
        for ways in opened:
            stop_lanes(ways, why)

    def full(error: CacheError) -> None:
        session.fatal.append(error)
        stop("the disk is full")

    def interrupt() -> None:
        # Calls in flight are paid for, so they may finish; whatever waits is given up.
        again, session.interrupted = session.interrupted, True
        stop("interrupted")
        if again or not serving:  # a server may take an hour to load, and nothing is in flight
            main.cancel()

    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as stack:
        # The lock of the job itself: a run beside this would spend the same budget twice.
        stack.enter_context(only_run(cache, job.name))
        answers = await stack.enter_async_context(AnswerCache(cache, on_full=full))
        session.notices += answers.notices
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupt)
            stack.callback(loop.remove_signal_handler, number)
        run = f"judges-{new_run()}"
        ways, asker = await stack.enter_async_context(
            open_asking(plan, models, cache, answers, run, batch=False)
        )
        opened.append(ways)
        gpu = ways.gpu
        if gpu is not None and len(gpu.order) > 1:
            raise JobError(
                f"{job.path}: the judges' models do not fit on one GPU together; measure one at a "
                "time with --judge NAME"
            )
        async with asyncio.TaskGroup() as group:
            helpers = ways.tend(group)
            await ways.begin(group, answers, run, load=True)
            serving.append(True)
            try:
                said = await _all(panel, asker.ask, replies, session)
            finally:
                await ways.rest()
                for helper in helpers:
                    helper.cancel()
        session.sent = asker.counts.sent
        session.without_sending = asker.counts.from_cache + asker.counts.joined
    return said


async def _all(
    panel: Panel, ask: Ask, replies: tuple[Labelled, ...], session: Session
) -> list[list[Said | None]]:
    async def noted(call: Call) -> Answer:
        answer = await ask(call)
        session.open += answer.outcome not in KEPT
        return answer

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_one(panel, noted, reply, session)) for reply in replies]
    return [task.result() for task in tasks]


async def _one(panel: Panel, ask: Ask, reply: Labelled, session: Session) -> list[Said | None]:
    """What every judge says of one reply; unknown where its lane sends no more."""
    return [await _or_unknown(panel, ask, use, reply, session) for use in panel.judges]


async def _or_unknown(
    panel: Panel, ask: Ask, use: JudgeUse, reply: Labelled, session: Session
) -> Said | None:
    try:
        return await panel.one(ask, use, reply.item, reply.reply(), 0)
    except LaneStopped as error:
        session.stopped.append(error)
        return unknown(use, reply.item, str(error))
