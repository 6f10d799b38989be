"""Simulated writers: fit drafts from the request alone, spoilt and judged at planted rates."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from leakgrid.benchmarks.benchmark import Point
from leakgrid.benchmarks.muppet_generate.drafts import (
    CHAT_SCHEMA,
    NOTES_SCHEMA,
    QUALITY_SCHEMA,
    read_notes,
)
from leakgrid.benchmarks.muppet_generate.program import ATTEMPTS, Generate
from leakgrid.datasets.muppet_groups import Planned
from leakgrid.datasets.muppet_seeds import MATERIAL, load_seeds
from leakgrid.outcomes import Outcome
from leakgrid.providers.simulated import judges, settings, wire
from leakgrid.providers.simulated.config import parse
from leakgrid.providers.simulated.items import Index
from leakgrid.providers.simulated.planted import Coins, digest
from leakgrid.providers.simulated.process import running
from leakgrid.providers.simulated.settings import (
    DRAFT_FAULTS,
    ITEM_FAULTS,
    Judge,
    Simulated,
    Writer,
)
from leakgrid.providers.simulated.writers import Drafts, load
from leakgrid.types import Answer, Call, Message
from tests import simulated_world
from tests.simulated_world import ask, fetch, plausible
from tests.written_items import PROMPTS, Model, benchmark, stage

POINT = Point(model="writer", defence="none", condition="generate", sample=0)
FIT = Writer()


def table(**more: Any) -> dict[str, Any]:
    return {
        "seed": 3,
        "items": str(MATERIAL),
        "latency": {"median_ms": 0, "p95_ms": 0},
        "writers": {"writer": {}},
        "judges": {"judge": {}},
    } | more


def body_of(call: Call) -> dict[str, Any]:
    """The request that a call becomes."""
    assert call.schema is not None
    wrapper = {"name": call.schema.name, "strict": True, "schema": call.schema.definition}
    return {
        "model": call.model,
        "messages": [{"role": m.role, "content": m.text} for m in call.messages],
        "response_format": {"type": "json_schema", "json_schema": wrapper},
    } | ({"sample": call.sample} if call.sample else {})


class Simulation:
    """Answers calls as a server would, without one."""

    def __init__(self, drafts: Drafts, writer: Writer = FIT, judge: Judge | None = None) -> None:
        self.drafts, self.writer, self.judge = drafts, writer, judge or Judge()
        self.seed = 3

    def reply(self, call: Call) -> wire.Reply:
        body = body_of(call)
        coins = Coins(self.seed, digest(orjson.dumps(body)))
        prompt = wire.read_prompt(body)
        if call.model == "judge":
            return judges.reply(self.judge, Index(), body, prompt, coins)
        return self.drafts.reply(self.writer, body, prompt, coins)

    def __call__(self, plan: Planned, call: Call) -> Answer:
        said = self.reply(call)
        outcome = Outcome.ANSWER
        if said.refusal:
            outcome = Outcome.REFUSAL
        elif said.finish == "length":
            outcome = Outcome.TRUNCATED
        return Answer(key="", outcome=outcome, text=said.content or "")


@pytest.fixture(scope="module")
def drafts() -> Drafts:
    return load(parse(table()))


@pytest.fixture(scope="module")
def world() -> Generate:
    """Every question in a group of ten, so that both facts and many listeners occur."""
    return benchmark(sizes=(10,), groups_per_size=1, questions_per_group=53)


# --- the table --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        *(
            ({"writers": {"w": {key: 2}}}, f"simulated.writers.w.{key}: found 2; allowed: a number")
            for key in ("secret_in_notes", "stranger", "asked_early")
        ),
        ({"writers": {"w": {"refusal": "x"}}}, 'simulated.writers.w.refusal: found "x"; allowed'),
        (
            {"writers": {"w": {"secret_in_chats": 0.1}}},
            "wrong_useful_fact (did you mean secret_in_chat?)",
        ),
        ({"writers": 1}, "simulated.writers: found 1; allowed: a table"),
        (
            {"writers": {"j": {}}, "judges": {"j": {}}},
            "simulated.writers.j: found the name of a judge; allowed: a name that no judge has",
        ),
        *(
            (
                {"writers": {"w": {}}, kind: {"a": needed}},
                "simulated.writers: found writers beside assistants, agents or labellers; allowed:",
            )
            for kind, needed in (
                ("assistants", {"leak": 0.5}),
                ("agents", {"necessary": 0.5, "inappropriate": 0.5}),
                ("labellers", {}),
            )
        ),
        (
            {"writers": {"w": {"secret_in_notes": 0.6, "wrong_person": 0.6}}},
            "simulated.writers.w: found rates of a notes draft (refusal, truncated, unreadable, "
            "secret_in_notes, wrong_person, wrong_useful_fact) that add up to 1.2; allowed: a sum",
        ),
        (
            {"judges": {"j": {"leaks": 0.7, "off_topic": 0.7}}},
            "simulated.judges.j: found rates (leaks, not_coherent, off_topic, not_consistent) that "
            "add up to 1.4; allowed: a sum of at most 1",
        ),
    ],
)
def test_mistakes_are_named(wrong: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse({"items": "datasets/muppet"} | wrong)
    lines = str(caught.value).split("\n")
    assert len(lines) == 1 and expected in lines[0]


def test_rates_of_two_drafts_may_add_up_to_more_than_one() -> None:
    made = parse(table(writers={"w": {"secret_in_notes": 0.9, "secret_in_chat": 0.9}}))
    assert made.writers["w"].secret_in_chat == 0.9


def identity(**more: Any) -> str:
    return parse(table(**more)).identity()


def test_identity_follows_what_changes_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [key for keys in DRAFT_FAULTS.values() for key in keys]
    found = [identity(writers={"writer": {key: 0.1}}) for key in dict.fromkeys(keys)]
    found += [identity(judges={"judge": {key: 0.1}}) for key in ITEM_FAULTS]
    found += [identity(writers={"other": {}}), identity(seed=4), identity(writers={}), identity()]
    monkeypatch.setattr(settings, "WRITING_VERSION", 0)
    found.append(identity())
    assert len(set(found)) == len(found)
    monkeypatch.undo()
    same: list[dict[str, Any]] = [
        {"latency": {"median_ms": 9, "p95_ms": 99}}, {"port": 8123}, {"faults": {"torn": 0.1}},
        {"quota": {"writer": {"rpm": 10}}}, {"writers": {"writer": {"refusal": 0.0}}},
    ]  # fmt: skip
    assert {identity(**one) for one in same} == {identity()}


def test_identity_follows_the_seeds_that_drafts_depend_on(tmp_path: Path) -> None:
    copy = tmp_path / "material"
    shutil.copytree(MATERIAL / "seeds", copy / "seeds")
    config = parse(table(items=str(copy)))
    base = config.identity()
    assert base == identity()
    for name in ("people.toml", "departments-1.toml", "phrases-chat.toml"):
        with (copy / "seeds" / name).open("a") as file:
            file.write("\n")
    assert config.identity() == base
    found = {base}
    for name in ("questions-1.toml", "questions-2.toml", "categories-2.toml"):
        with (copy / "seeds" / name).open("a") as file:
            file.write("\n")
        found.add(config.identity())
    assert len(found) == 4


def test_what_judges_say_of_items_leaves_other_judges_as_they_were(tmp_path: Path) -> None:
    """Answers that were kept before there were writers stay valid."""
    plain = simulated_world.table(tmp_path)
    told = {"sim-judge": {**plain["judges"]["sim-judge"], **dict.fromkeys(ITEM_FAULTS, 0.0)}}
    kept = "6cbe89c78ac8bcb49332cb1d7c34b83905b080e83aa0597abba69d55c4cdef6a"
    assert parse(plain).identity() == parse({**plain, "judges": told}).identity() == kept


# --- drafts -----------------------------------------------------------------------------------


def test_every_planned_item_gets_drafts_that_pass_every_check(drafts: Drafts) -> None:
    made = benchmark(sizes=(4, 5, 10, 20), groups_per_size=11, questions_per_group=3)
    model = Model(Simulation(drafts))
    records = [model.cell(made, plan) for plan in made.items]
    assert [dict(r.extra) for r in records if not r.extra["kept"]] == []
    assert model.anew == dict.fromkeys(("notes", "conversation", "quality"), len(records) // 2)


def test_a_request_shows_the_plan(drafts: Drafts, world: Generate) -> None:
    for plan in world.items[::2]:
        call = world.notes_call(plan, POINT, 0)
        shown = drafts.plan("\n".join(message.text for message in call.messages), "notes")
        assert shown is not None
        assert (shown.owner, shown.informed, shown.knows) == (plan.owner, plan.informed, plan.knows)
        assert (shown.question, shown.category) == (plan.question, plan.category)
        assert shown.plain == plan.plain
        assert set(shown.uninformed) == set(plan.uninformed)


def test_the_words_of_the_prompts_do_not_matter(drafts: Drafts, tmp_path: Path) -> None:
    folder = tmp_path / "prompts"
    shutil.copytree(PROMPTS, folder)
    (folder / "notes.md").write_text("Invent. {{question}} Wem?\n{{listeners}}\nEnde.")
    (folder / "notes-user.md").write_text("{{owner}} ist gefragt.\n{{people}}")
    (folder / "conversation.md").write_text("Chat of\n{{people}}\nabout: {{question}}")
    (folder / "conversation-user.md").write_text("First {{closer}}, then {{assistant}}.")
    made = benchmark(folder)
    model = Model(Simulation(drafts))
    assert all(model.cell(made, plan).extra["kept"] for plan in made.items)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("notes-user", "{{people}}\n{{listeners}}\n{{question}}"),
        ("notes-user", "{{people}}\n{{owner}}\n{{question}}"),
        ("notes-user", "{{people}}\n{{listeners}}\n{{owner}}"),
        ("notes-user", "{{listeners}}\n{{owner}}\n{{question}}"),
        ("conversation-user", "{{people}}\n{{assistant}}\n{{question}}"),
        ("conversation-user", "{{people}}\n{{closer}}\n{{question}}"),
    ],
)
def test_a_request_that_shows_too_little_gets_no_draft(
    drafts: Drafts, tmp_path: Path, name: str, text: str
) -> None:
    folder = tmp_path / "prompts"
    shutil.copytree(PROMPTS, folder)
    (folder / f"{name}.md").write_text(text)
    made = benchmark(folder)
    record = Model(Simulation(drafts)).cell(made, made.items[0])
    where = name.removesuffix("-user")
    assert (record.extra["stage"], record.extra["dropped"]) == (where, "unreadable")


def test_a_draft_follows_every_byte_of_its_request(drafts: Drafts, world: Generate) -> None:
    made, plan = Simulation(drafts), world.items[0]
    call = world.notes_call(plan, POINT, 0)
    once = made.reply(call).content
    assert once == made.reply(call).content
    again = made.reply(world.notes_call(plan, POINT, 1)).content
    made.seed = 4
    assert len({once, again, made.reply(call).content}) == 3


def test_drafts_stay_as_they_were(drafts: Drafts, world: Generate) -> None:
    """Who changes this raises WRITING_VERSION, or kept answers would be of two kinds.

    Edited seeds change it as well; they count in the identity by themselves.
    """
    spoilt = Simulation(drafts, Writer(secret_in_notes=0.5, secret_in_chat=0.5))
    told = hashlib.sha256()
    for plan in world.items[:40:2]:
        shown = "\n".join(f"- {p.name}, {p.gender}, {p.age}, Clerk" for p in plan.group.people)
        listening = "\n".join(f"{n}. {p.name}: fact 1" for n, p in enumerate(plan.informed, 1))
        for schema, rest in (
            (NOTES_SCHEMA, f"{plan.owner.name}\n{listening}"),
            (CHAT_SCHEMA, f"{plan.assistant}\n{plan.closer.name}"),
        ):
            text = f"{shown}\n{rest}\n{plan.plain}"
            message = Message("user", text)
            call = Call(model="writer", messages=(message,), schema=schema, sample=0, role="x")
            told.update((spoilt.reply(call).content or "").encode())
    assert settings.WRITING_VERSION == 1
    assert told.hexdigest()[:32] == "5f17307e1817fefc7abf46696df365af"


# --- what may be wrong with them --------------------------------------------------------------

REASONS: Mapping[str, tuple[str, str]] = {
    "refusal": ("notes", "refusal"),
    "truncated": ("notes", "truncated"),
    "unreadable": ("notes", "unreadable"),
    "secret_in_notes": ("notes", "secret in shared text"),
    "wrong_person": ("notes", "note"),
    "wrong_useful_fact": ("notes", "useful fact"),
    "secret_in_chat": ("conversation", "secret in shared text"),
    "stranger": ("conversation", "senders"),
    "asked_early": ("conversation", "turns"),
}


@pytest.mark.parametrize("fault", REASONS)
def test_each_fault_is_found_under_its_reason(drafts: Drafts, world: Generate, fault: str) -> None:
    model = Model(Simulation(drafts, Writer(**{fault: 1.0})))
    for plan in world.items[::2]:
        extra = model.cell(world, plan).extra
        assert (extra["stage"], extra["dropped"]) == REASONS[fault], extra
        assert extra["attempts"][extra["stage"]] == ATTEMPTS


@pytest.mark.parametrize("fault", ["refusal", "truncated", "unreadable"])
def test_chats_may_have_every_drafts_faults_too(
    drafts: Drafts, world: Generate, fault: str
) -> None:
    fit, wrong = Simulation(drafts), Simulation(drafts, Writer(**{fault: 1.0}))

    def answer(plan: Planned, call: Call) -> Answer:
        return (wrong if stage(call) == "conversation" else fit)(plan, call)

    extra = Model(answer).cell(world, world.items[0]).extra
    assert (extra["stage"], extra["dropped"]) == ("conversation", fault)


@pytest.mark.parametrize(
    ("rate", "reason"),
    [
        ("leaks", "leaks"),
        ("not_coherent", "not coherent"),
        ("off_topic", "off topic"),
        ("not_consistent", "not consistent"),
        ("unparsable", "unreadable"),
        ("truncated", "truncated"),
    ],
)
def test_a_judge_speaks_against_items(
    drafts: Drafts, world: Generate, rate: str, reason: str
) -> None:
    model = Model(Simulation(drafts, judge=Judge(**{rate: 1.0})))
    record = model.cell(world, world.items[0])
    assert (record.extra["stage"], record.extra["dropped"]) == ("quality", reason)
    if rate in ITEM_FAULTS:
        quality = record.extra["quality"]
        against = [quality.leaks, not quality.coherent, not quality.on_topic]
        assert [*against, not quality.consistent] == [key == rate for key in ITEM_FAULTS]
        assert reason.removeprefix("not ").replace("off", "on") in quality.rationale


def test_faults_have_their_planted_shares(drafts: Drafts, world: Generate) -> None:
    rates = {"refusal": 0.1, "unreadable": 0.2, "secret_in_chat": 0.3, "asked_early": 0.15}
    made = Simulation(drafts, Writer(**rates, secret_in_notes=0.4))
    found: Counter[str] = Counter()
    plan = world.items[0]
    notes = Simulation(drafts).reply(world.notes_call(plan, POINT, 0)).content or ""
    read = read_notes(notes, len(plan.knows), len(plan.informed))
    trials = 1500
    for sample in range(trials):
        said = made.reply(world.chat_call(plan, read, POINT, sample))
        text = said.content or ""
        if said.refusal:
            found["refusal"] += 1
        elif not text.startswith("{"):
            found["unreadable"] += 1
        elif plan.category.forms[0] in text:
            found["secret_in_chat"] += 1
        elif plan.plain in text:
            found["asked_early"] += 1
    assert found.keys() == rates.keys()
    for fault, rate in rates.items():
        assert plausible(found[fault], trials, rate), (fault, found)


# --- the server -------------------------------------------------------------------------------


def test_a_server_writes_and_judges(world: Generate) -> None:
    plan = world.items[0]
    with running(table()) as server:
        assert server.identity == identity()
        listed = [model["id"] for model in fetch(server, "/v1/models")["data"]]
        assert listed == ["judge", "writer"]
        notes, unknown, wordless, other = ask(
            server,
            [
                body_of(world.notes_call(plan, POINT, 0)),
                body_of(world.notes_call(plan, POINT, 0)) | {"model": "nobody"},
                {"model": "writer", "messages": [{"role": "user", "content": "Hello."}]},
                {**body_of(world.notes_call(plan, POINT, 0)), "response_format": verdict()},
            ],
        )
        assert sorted(orjson.loads(notes.text)) == [
            "facts", "notes", "shared_notes", "useful_facts",
        ]  # fmt: skip
        assert notes.headers["x-leakgrid-simulated"] == "1"
        assert unknown.status == 404
        assert wordless.text == "{}"
        assert orjson.loads(other.text)["coherent"] is False  # the smallest: no writer judges
        request = body_of(world.notes_call(plan, POINT, 0))
        message = request["messages"][1]
        message["content"] = re.sub(
            r": facts? .+$", ": facts 1 and 2 and 3", message["content"], flags=re.MULTILINE
        )
        (failed,) = ask(server, [request])
        assert failed.status == 400 and "no detail" in failed.json["error"]["message"]


def verdict() -> dict[str, Any]:
    wrapper = {"name": QUALITY_SCHEMA.name, "schema": QUALITY_SCHEMA.definition}
    return {"type": "json_schema", "json_schema": wrapper}


def test_judges_alone_may_be_simulated(world: Generate) -> None:
    asked = {
        "model": "judge",
        "messages": [{"role": "user", "content": "Is it fit?"}],
        "response_format": verdict(),
    }
    with running(table(writers={})) as server:
        (said,) = ask(server, [asked])
    assert orjson.loads(said.text)["leaks"] is False
    assert orjson.loads(said.text)["coherent"] is True


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda folder: folder / "nowhere", r"simulated\.items: found .*nowhere.*has no seeds"),
        (lambda folder: folder, r"simulated\.items: found .*, which has no seeds; allowed: with"),
        (
            lambda folder: Path(simulated_world.write_items(folder)),
            r"simulated\.items: found .*items\.jsonl.*has no seeds",
        ),
    ],
)
def test_a_folder_without_seeds_is_named(tmp_path: Path, make: Any, expected: str) -> None:
    wrong = table(items=str(make(tmp_path)))
    with pytest.raises(ValueError, match=expected):
        parse(wrong).identity()
    with pytest.raises(RuntimeError, match=f"ended with 2: {expected}"), running(wrong):
        pass


def test_wrong_seeds_are_named(tmp_path: Path) -> None:
    shutil.copytree(MATERIAL / "seeds", tmp_path / "seeds")
    (tmp_path / "seeds" / "questions-1.toml").write_text("[[question]]\nid = 1\n")
    with (
        pytest.raises(RuntimeError, match=r"ended with 2: simulated\.items: .*seeds"),
        running(table(items=str(tmp_path))),
    ):
        pass


def test_assistants_need_a_file_of_items() -> None:
    config: Simulated = parse(table(writers={}, assistants={"a": {"leak": 0.1}}))
    with pytest.raises(ValueError, match=r"simulated\.items: found .*cannot be read \(Is a dir"):
        config.identity()


def test_seeds_are_those_of_the_folder(drafts: Drafts) -> None:
    assert drafts.seeds == load_seeds(MATERIAL)
