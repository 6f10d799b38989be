"""Judges send temperature 0 unless the job says otherwise or their model refuses one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from leakgrid.benchmarks.benchmark import JudgeUse, Point
from leakgrid.benchmarks.defences.reply import Reply
from leakgrid.benchmarks.dialogue.program import Dialogue
from leakgrid.benchmarks.dialogue.settings import LabelRule, Settings
from leakgrid.benchmarks.judges.kinds import KINDS
from leakgrid.benchmarks.judges.panel import Panel
from leakgrid.benchmarks.muppet.program import Muppet
from leakgrid.benchmarks.muppet_generate.drafts import QUALITY_SCHEMA
from leakgrid.benchmarks.muppet_generate.program import Generate
from leakgrid.benchmarks.muppet_generate.settings import Settings as GenerateSettings
from leakgrid.cache.key import canonical
from leakgrid.datasets.items import load_items
from leakgrid.datasets.muppet_seeds import MATERIAL
from leakgrid.jobs.jobfile import Job, load_job
from leakgrid.jobs.plan import Plan
from leakgrid.jobs.speakers import provider_of
from leakgrid.outcomes import JobError, Outcome
from leakgrid.types import Answer, Call
from tests import written_items
from tests.dialogue_cells import ScriptedAsk, point, profiles_file, tiny_prompts
from tests.project import ROOT, Project

PROMPTS = ROOT / "jobs" / "prompts" / "muppet"
ZERO = {"temperature": 0.0}


def job_with(folder: Path, model: dict[str, Any], **judge: Any) -> Job:
    """A job whose judge ``leak`` asks the model ``m``, which is also an assistant."""
    project = Project(
        folder,
        job={"models": ["sim-a", "m"], "judges": ["leak"]},
        models={"m": model},
        judges={"leak": {"model": "m", **judge}},
    )
    return load_job(project.folder / "jobs" / "job.toml")


def body(job: Job, call: Call) -> dict[str, Any]:
    """What the model of a call is sent."""
    spec = job.specs[call.model]
    url = spec.base_url or "http://127.0.0.1:9/v1"
    provider = provider_of(spec, url, "id", cast("Any", None), "", cast("Any", None), {})
    return dict(provider.body(call))


def judged(job: Job) -> dict[str, Any]:
    """The body of a call of the job's judge."""
    (use,) = job.judges
    return body(job, use.call("Judge.", "A reply.", QUALITY_SCHEMA, 0))


OPENAI = {"provider": "openai"}
AZURE = {"provider": "azure", "base_url": "https://r.openai.azure.com"}
GATEWAY = {"provider": "openai", "base_url": "http://127.0.0.1:9/v1"}
VLLM = {"provider": "vllm", "base_url": "http://127.0.0.1:9/v1"}

# The model's table, the judge's table, and the temperature in the request (None: no such field).
SENT: dict[str, tuple[dict[str, Any], dict[str, Any], float | None]] = {
    "nothing said": ({**OPENAI, "model": "gpt-4.1-mini"}, {}, 0.0),
    "Responses": ({**OPENAI, "model": "gpt-4.1-mini", "api": "responses"}, {}, 0.0),
    "the model's params": ({**OPENAI, "model": "gpt-4.1", "params": {"temperature": 0.3}}, {}, 0.3),
    "the judge's own": ({**OPENAI, "model": "gpt-4.1"}, {"temperature": 0.7}, 0.7),
    "the judge's own before the model's": (
        {**OPENAI, "model": "gpt-4.1", "params": {"temperature": 0.3}},
        {"temperature": 0},
        0.0,
    ),
    "GPT-5": ({**OPENAI, "model": "gpt-5-mini"}, {}, None),
    "GPT-5 by Responses": ({**OPENAI, "model": "gpt-5-mini", "api": "responses"}, {}, None),
    "GPT-5 with the one it takes": ({**OPENAI, "model": "gpt-5"}, {"temperature": 1}, 1.0),
    "o-series": ({**OPENAI, "model": "o4-mini"}, {}, None),
    "GPT-5.1 does not reason": ({**OPENAI, "model": "gpt-5.1"}, {}, 0.0),
    "GPT-5.1 reasons": (
        {**OPENAI, "model": "gpt-5.1", "params": {"reasoning_effort": "low"}},
        {},
        None,
    ),
    "GPT-5 behind a gateway": ({**GATEWAY, "model": "azure/gpt-5"}, {}, None),
    "a gateway may take it": ({**GATEWAY, "model": "gpt-5"}, {"temperature": 0.2}, 0.2),
    "an open model": ({**GATEWAY, "model": "openai/gpt-oss-20b"}, {}, 0.0),
    "Azure": ({**AZURE, "model": "gpt-4o"}, {}, 0.0),
    "Azure, GPT-5": ({**AZURE, "model": "gpt-5-mini"}, {}, None),
    "Azure, a name that tells nothing": ({**AZURE, "model": "judge"}, {}, 0.0),
    "Azure, a name that tells nothing, reasoning": (
        {**AZURE, "model": "judge", "params": {"reasoning_effort": "low"}},
        {},
        None,
    ),
    "vLLM": ({**VLLM, "model": "Qwen/Qwen3-8B"}, {}, 0.0),
    "local": ({"provider": "local", "model": "gemma-3-270m"}, {}, 0.0),
    "simulated": ({"provider": "simulated"}, {}, 0.0),
}


@pytest.mark.parametrize("case", SENT)
def test_what_a_judge_sends(tmp_path: Path, case: str) -> None:
    model, judge, wanted = SENT[case]
    sent = judged(job_with(tmp_path, model, **judge))
    assert sent.get("temperature", None) == wanted
    assert ("temperature" in sent) is (wanted is not None)
    if model["provider"] == "vllm":
        assert "seed" not in sent  # draws at temperature 0 are one


@pytest.mark.parametrize(
    ("params", "judge", "wanted"),
    [
        ({}, {}, 0.0),
        ({"generation_config": {"temperature": 0.4}}, {}, 0.4),
        ({"generation_config": {"temperature": 0.4}}, {"temperature": 0.9}, 0.9),
        ({"temperature": 0.4, "max_output_tokens": 50}, {}, 0.4),
    ],
)
def test_what_a_judge_sends_to_gemini(
    tmp_path: Path, params: dict[str, Any], judge: dict[str, Any], wanted: float
) -> None:
    model = {"provider": "gemini", "model": "gemini-2.5-flash", "params": params}
    sent = judged(job_with(tmp_path, model, **judge))
    assert sent["generationConfig"]["temperature"] == wanted
    assert sent["generationConfig"].get("maxOutputTokens") == params.get("max_output_tokens")


def test_zero_by_default_and_zero_in_the_params_are_one_request(tmp_path: Path) -> None:
    model = {"provider": "openai", "model": "gpt-4.1"}
    written = judged(job_with(tmp_path / "a", {**model, "params": {"temperature": 0.0}}))
    assert canonical(judged(job_with(tmp_path / "b", model))) == canonical(written)


# --- every kind of judge -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind].needs_model])
def test_every_judge_of_replies_sends_its_temperature(tmp_path: Path, kind: str) -> None:
    calls: list[Call] = []

    async def ask(call: Call) -> Answer:
        calls.append(call)
        return Answer(key="", outcome=Outcome.ANSWER, text='{"facts": ["Ana is free."]}')

    item = load_items(Project(tmp_path).folder / "items.jsonl")[0]
    options = {"votes": 2, "facts": "judge"} if kind == "utility" else {"votes": 2}
    panel = Panel(PROMPTS, (JudgeUse("j", kind, "m", options, 0.6),))
    reply = Reply(text="Hi.", outcome=Outcome.ANSWER, reasoning="Hm.")
    asyncio.run(panel.hear(ask, item, reply, 0))
    roles = {"judge:j", "judge:j:facts"} if kind == "utility" else {"judge:j"}
    assert {call.role for call in calls} == roles and len(calls) >= 2
    assert all(call.params == {"temperature": 0.6} for call in calls)


def test_only_the_calls_of_the_judge_change_where_an_assistant_is_its_own_judge(
    tmp_path: Path,
) -> None:
    calls: list[Call] = []

    async def ask(call: Call) -> Answer:
        calls.append(call)
        return Answer(key="", outcome=Outcome.ANSWER, text='{"rationale": "x", "leak": "YES"}')

    job = job_with(tmp_path, {"provider": "openai", "model": "gpt-4.1-mini"})
    world = Muppet(job.dataset, job.prompts, ("none",), job.judges, ("leak", 1.0))
    where = Point(model="m", defence="none", condition="group", sample=0)
    asyncio.run(world.cell(ask, world.items[0], where))
    by_role = {call.role: body(job, call).get("temperature") for call in calls}
    # The probes ask the assistant as it replied: they are no judge.
    assert by_role == {
        "assistant": None, "judge:leak": 0.0, "defence:probe-user": None,
        "defence:probe-group": None,
    }  # fmt: skip


def test_the_judge_of_reveals_sends_it_and_the_speakers_do_not(tmp_path: Path) -> None:
    def script(call: Call, number: int) -> str:
        return "{}" if call.model == "J" else "Hello."

    settings = Settings(receivers=("R",), turns=(1,), labels=LabelRule(job="labels"))
    judges = (JudgeUse("j", "reveal", "J", {}, 0.0),)
    dataset = profiles_file(tmp_path / "profiles.json")
    world = Dialogue(dataset, tiny_prompts(tmp_path / "prompts"), judges, settings)
    ask = ScriptedAsk(script)
    asyncio.run(world.cell(ask, world.items[0], point(turns=1)))
    sent = {(call.model, tuple(call.params.items())) for call in ask.sent}
    assert sent == {("S", ()), ("R", ()), ("J", (("temperature", 0.0),))}


def test_the_judge_of_written_items_sends_it_and_the_writer_does_not() -> None:
    judge = JudgeUse("quality", "quality", "judge", {}, 0.0)
    small = GenerateSettings(sizes=(5,), groups_per_size=1, questions_per_group=1)
    world = Generate(MATERIAL, written_items.PROMPTS, (judge,), small)
    model = written_items.Model()
    assert model.cell(world, world.items[0]).reply
    sent = {written_items.stage(call): dict(call.params) for call in model.sent}
    assert sent == {"notes": {}, "conversation": {}, "quality": ZERO}


# --- jobs ----------------------------------------------------------------------------------------

PLAIN = {"provider": "openai", "model": "gpt-4.1"}


@pytest.mark.parametrize(
    ("model", "judge", "told"),
    [
        (PLAIN, {"temperature": -0.1}, "temperature: -0.1 does not fit; it must be a number from"),
        (PLAIN, {"temperature": 2.5}, "temperature: 2.5 does not fit; it must be a number from 0"),
        (PLAIN, {"temperature": "low"}, "temperature: 'low' does not fit; it must be a number"),
        (PLAIN, {"temperature": True}, "temperature: True does not fit; it must be a number"),
        (
            {"provider": "openai", "model": "gpt-5"},
            {"temperature": 0.0},
            "temperature: gpt-5 takes no 'temperature' but 1 while it reasons",
        ),
        (
            {**AZURE, "model": "o3"},
            {"temperature": 0.5},
            "temperature: o3 takes no 'temperature' but 1 while it reasons",
        ),
        (PLAIN, {"votes": 3}, "votes: 3 votes at temperature 0 are one vote, paid 3 times; write"),
        (PLAIN, {"votes": 2, "temperature": 0.0}, "votes: 2 votes at temperature 0 are one vote"),
        (
            {**PLAIN, "params": {"temperature": 0}},
            {"votes": 3},
            "votes: 3 votes at temperature 0 are one vote",
        ),
    ],
)
def test_mistakes_are_told_with_line_and_key(
    tmp_path: Path, model: dict[str, Any], judge: dict[str, Any], told: str
) -> None:
    with pytest.raises(JobError) as error:
        job_with(tmp_path, model, **judge)
    (line,) = str(error.value).splitlines()
    number = int(line.split("job.toml:")[1].split(":")[0])
    key = told.split(":")[0]
    text = (tmp_path / "jobs" / "job.toml").read_text().splitlines()[number - 1]
    assert f"judges.leak.{told}" in line and text.startswith(f"{key} =")


def test_a_judge_without_a_model_has_no_temperature(tmp_path: Path) -> None:
    project = Project(tmp_path, judges={"exact": {"temperature": 0.0}})
    with pytest.raises(JobError, match=r"judges\.exact\.temperature: 'temperature' is not known"):
        load_job(project.folder / "jobs" / "job.toml")


@pytest.mark.parametrize(
    ("model", "judge"),
    [
        (PLAIN, {"votes": 3, "temperature": 0.7}),
        ({**PLAIN, "params": {"temperature": 0.7}}, {"votes": 3}),
        ({"provider": "openai", "model": "gpt-5-mini"}, {"votes": 3}),
    ],
)
def test_votes_that_may_differ_are_taken(
    tmp_path: Path, model: dict[str, Any], judge: dict[str, Any]
) -> None:
    assert job_with(tmp_path, model, **judge).judges[0].options["votes"] == 3


def test_another_temperature_is_another_column(tmp_path: Path) -> None:
    def columns(name: str, **judge: Any) -> set[str]:
        job = job_with(tmp_path / name, {"provider": "simulated"}, **judge)
        return {column.id for column in Plan(job).columns}

    assert columns("usual") == columns("zero", temperature=0)
    assert columns("none").isdisjoint(columns("some", temperature=0.3))


def test_plan_tells_the_temperature_of_every_judge(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        job={"judges": ["leak", "own", "model", "none", "exact"]},
        models={
            "warm": {"provider": "simulated", "params": {"temperature": 0.4}},
            "gpt-5-mini": {"provider": "openai"},
        },
        judges={
            "own": {"kind": "leak", "model": "sim-judge", "temperature": 0.7},
            "model": {"kind": "leak", "model": "warm"},
            "none": {"kind": "leak", "model": "gpt-5-mini"},
        },
    )
    done = project.run("plan", "jobs/job.toml")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("judge ")] == [
        "judge leak: sim-judge at temperature 0",
        "judge own: sim-judge at temperature 0.7",
        "judge model: warm at temperature 0.4 (from its params)",
        "judge none: gpt-5-mini without a temperature, which it refuses",
    ]
