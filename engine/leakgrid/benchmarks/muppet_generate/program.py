"""The cell that writes one item: notes, chat, checks in code, a judge; kept or dropped.

Every draft is one call through ``ask``, so each is cached by what it was asked with: a changed
prompt asks its own call again and those that are made from its answer. Both items of a pair
make the same calls. A draft that is unreadable, cut off or at fault is asked for once more with
another sample number; then the item is dropped with the reason. Nothing is mended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import orjson

from leakgrid.benchmarks.benchmark import JudgeUse, Point
from leakgrid.benchmarks.muppet_generate import assemble, checks, drafts, prompts, stand_in
from leakgrid.benchmarks.muppet_generate.drafts import Notes, Quality, Unreadable
from leakgrid.benchmarks.muppet_generate.settings import Settings
from leakgrid.benchmarks.noted import Noted
from leakgrid.datasets.muppet_groups import Planned, plan_items
from leakgrid.datasets.muppet_seeds import load_seeds
from leakgrid.outcomes import KEPT, JobError, Outcome
from leakgrid.types import Answer, Ask, Call, Json, Record

Draft = TypeVar("Draft")

ATTEMPTS = 2
"""Draws of one draft: the second only where the first is no use."""

NOTES, CONVERSATION = "generate:notes", "generate:conversation"

EXAMPLE = 240
"""Characters of a fault's example that the record keeps."""


class Dropped(Exception):
    """The item ends at a stage: why, and one example for each fault."""

    def __init__(self, stage: str, reason: str, faults: Mapping[str, str]) -> None:
        super().__init__(f"{stage}: {reason}")
        self.stage = stage
        self.reason = reason
        self.faults = faults


class Generate:
    """The benchmark whose cells write items; the model of a cell is the writer."""

    version = "muppet-generate-1"
    """Part of every cell's fingerprint: raise it when checks, readers or the plan change."""

    def __init__(
        self, material: Path, folder: Path, judges: tuple[JudgeUse, ...], settings: Settings
    ) -> None:
        """``material`` holds seeds/, ``folder`` the prompts; exactly one judge of kind quality.

        Raises DatasetError for wrong seeds or numbers, JobError for a wrong prompt or judge.
        """
        if len(judges) != 1:
            raise JobError(
                f"found {len(judges)} judges; allowed: one, of kind quality, that reads every "
                "finished chat; correct judges in the job file"
            )
        self.judge = judges[0]
        self.settings = settings
        self.prompts = prompts.Prompts(folder)
        self.echo = {
            name: checks.template_grams((self.prompts.system[name], self.prompts.user[name]))
            for name in ("notes", "conversation")
        }
        self.items = plan_items(
            load_seeds(material),
            seed=settings.seed,
            sizes=settings.sizes,
            groups_per_size=settings.groups_per_size,
            questions_per_group=settings.questions_per_group,
        )

    def texts(self, defence: str, condition: str) -> Any:
        """Every prompt; the plan is in the items' digests."""
        return [prompt.text for prompt in self.prompts.all]

    def attributes(self) -> list[tuple[str, str, str]]:
        """None: what may leak is only written here."""
        return []

    def facts(self) -> Mapping[str, Json]:
        """Nothing: records hold all."""
        return {}

    def cues(self) -> Mapping[str, Mapping[str, str]]:
        """None: there is one condition and no defence."""
        return {}

    def example(self, call: Call) -> str | None:
        """A draft that passes every check, so that a forecast sees all three calls of an item."""
        if call.role.startswith("judge:"):
            return orjson.dumps(stand_in.QUALITY).decode()
        text = "\n".join(message.text for message in call.messages)
        plan = next((plan for plan in self.items if _is_about(text, plan)), None)
        if plan is None:
            return None
        draft = stand_in.notes(plan) if call.role == NOTES else stand_in.chat(plan)
        return orjson.dumps(draft).decode()

    async def cell(self, ask: Ask, item: Planned, point: Point) -> Record:
        """Write one item: the record's reply is its JSON line, or empty where it was dropped."""
        making = _Making(self, ask, item, point)
        reply, extra = "", {}
        try:
            whole = await making.whole()
        except Dropped as dropped:
            extra = {"dropped": dropped.reason, "stage": dropped.stage, "faults": dropped.faults}
        else:
            reply = orjson.dumps(whole).decode()
            statistics = {
                **whole["statistics"],
                "notes": len(whole["notes"]),
                "turns": len(whole["transcript"]),
                "voices": len({turn["sender"] for turn in whole["transcript"]}),
            }
            extra = {"dropped": "", "stage": "done", "statistics": statistics}
        noted = making.ask
        return Record(
            item=item.id,
            reply=reply,
            reply_outcome=noted.answers[-1].outcome,
            settled=noted.settled,
            simulated=noted.simulated,
            calls=tuple(noted.calls),
            extra={
                "kept": bool(reply),
                **extra,
                "simulated": noted.simulated,
                "attempts": dict(making.attempts),
                "quality": making.quality,
                "pair": item.pair,
                "size": len(item.group.people),
                "topic": item.question.topic,
                "category": item.category.label,
                "question": item.question.id,
                "asker_informed": item.asker_informed,
                "made": {
                    "version": self.version,
                    "writer": point.model,
                    "judge": self.judge.model,
                    "prompts": self.prompts.digest,
                    "seed": self.settings.seed,
                },
            },
        )

    def notes_call(self, plan: Planned, point: Point, sample: int) -> Call:
        """The first call."""
        return self.prompts.call(
            "notes",
            prompts.of_plan(plan),
            model=point.model,
            sample=sample,
            role=NOTES,
        )

    def chat_call(self, plan: Planned, notes: Notes, point: Point, sample: int) -> Call:
        """The second call: of the notes it shows the shared ones alone."""
        return self.prompts.call(
            "conversation",
            {**prompts.of_plan(plan), **prompts.of_notes(notes)},
            model=point.model,
            sample=sample,
            role=CONVERSATION,
        )

    def quality_call(
        self, plan: Planned, notes: Notes, item: Mapping[str, Any], point: Point, sample: int
    ) -> Call:
        """The third call, of the judge's model."""
        values = {**prompts.of_plan(plan), **prompts.of_notes(notes), **prompts.of_chat(item)}
        system, user = self.prompts.filled("quality", values)
        return self.judge.call(system, user, drafts.QUALITY_SCHEMA, sample)


class _Making:
    """One item on its way: what was asked, how often, and what the judge said."""

    def __init__(self, benchmark: Generate, ask: Ask, plan: Planned, point: Point) -> None:
        self.benchmark = benchmark
        self.ask = Noted(ask)
        self.plan = plan
        self.point = point
        self.attempts: dict[str, int] = {}
        self.quality: Quality | None = None

    async def whole(self) -> dict[str, Any]:
        """The item. Raises Dropped."""
        made, plan, point = self.benchmark, self.plan, self.point

        def fit_notes(text: str) -> tuple[Notes, dict[str, Any]]:
            notes = drafts.read_notes(text, len(plan.knows), len(plan.informed))
            item = assemble.noted(plan, notes)
            self.hold("notes", checks.of_notes(plan, notes, item, made.echo["notes"]))
            return notes, item

        notes, item = await self.draft(
            "notes", lambda sample: made.notes_call(plan, point, sample), fit_notes
        )

        def fit_chat(text: str) -> dict[str, Any]:
            chat = drafts.read_chat(text)
            whole = assemble.finished(plan, item, chat, point.sample)
            self.hold("conversation", checks.of_chat(plan, chat, whole, made.echo["conversation"]))
            return whole

        whole = await self.draft(
            "conversation", lambda sample: made.chat_call(plan, notes, point, sample), fit_chat
        )
        quality = await self.draft(
            "quality",
            lambda sample: made.quality_call(plan, notes, whole, point, sample),
            drafts.read_quality,
        )
        self.quality = quality
        if quality.fault:
            raise Dropped("quality", quality.fault, {quality.fault: quality.rationale[:EXAMPLE]})
        return whole

    async def draft(
        self, stage: str, call: Callable[[int], Call], read: Callable[[str], Draft]
    ) -> Draft:
        """A draft that is fit, from the first or the second draw. Raises Dropped."""
        attempt = 0
        while True:
            # Samples of a job must stay distinct from second draws.
            answer = await self.ask(call(self.point.sample * ATTEMPTS + attempt))
            attempt += 1
            self.attempts[stage] = attempt
            # A call that failed is open and asked again; the same request stays invalid.
            if answer.outcome not in KEPT or answer.outcome is Outcome.INVALID:
                raise Dropped(stage, f"call ended as {answer.outcome}", {})
            try:
                return self.read(stage, answer, read)
            except Dropped:
                if attempt == ATTEMPTS:
                    raise

    def read(self, stage: str, answer: Answer, read: Callable[[str], Draft]) -> Draft:
        """The draft in an answer. Raises Dropped."""
        if answer.outcome is not Outcome.ANSWER:
            raise Dropped(stage, str(answer.outcome), {})
        try:
            return read(answer.text)
        except Unreadable as wrong:
            raise Dropped(stage, "unreadable", {"unreadable": str(wrong)[:EXAMPLE]}) from None

    def hold(self, stage: str, faults: checks.Faults) -> None:
        """Go on only without faults. Raises Dropped with the first as the reason."""
        if faults:
            examples = {name: texts[0][:EXAMPLE] for name, texts in faults.items()}
            raise Dropped(stage, next(iter(faults)), examples)


def _is_about(text: str, plan: Planned) -> bool:
    """Whether a call speaks of this plan's group and question; no group has a question twice."""
    return plan.plain in text and all(person.name in text for person in plan.group.people)
