"""Items that a model writes: checked in code and by a judge, kept or dropped with a reason."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from leakgrid.benchmarks.muppet_generate.drafts import (
    CHAT_SCHEMA,
    NOTES_SCHEMA,
    QUALITY_SCHEMA,
)
from leakgrid.benchmarks.muppet_generate.program import ATTEMPTS, Generate
from leakgrid.benchmarks.muppet_generate.settings import CONDITIONS, JUDGES, Settings
from leakgrid.benchmarks.muppet_generate.stand_in import QUALITY, Draft
from leakgrid.datasets.items import load_items
from leakgrid.datasets.muppet_checks import reasons
from leakgrid.datasets.muppet_groups import Planned
from leakgrid.datasets.muppet_seeds import MATERIAL, Seeds, load_seeds
from leakgrid.outcomes import JobError, Outcome
from leakgrid.types import Answer, Call, Record
from tests.project import ROOT
from tests.written_items import (
    JUDGE,
    PROMPTS,
    Model,
    benchmark,
    fit,
    said,
    spoilt,
    stage,
)

Change = Callable[[Draft, Planned], Any]


@pytest.fixture(scope="module")
def seeds() -> Seeds:
    return load_seeds(MATERIAL)


@pytest.fixture(scope="module")
def world() -> Generate:
    return benchmark()


def text_of(record: Record) -> Draft:
    item: Draft = orjson.loads(record.reply)
    return item


# --- an item that is kept ---------------------------------------------------------------------


@pytest.mark.parametrize("size", [4, 5, 10, 20])
def test_a_fit_item_passes_every_check_of_the_shipped_ones(
    seeds: Seeds, tmp_path: Path, size: int
) -> None:
    world = benchmark(sizes=(size,), questions_per_group=10)
    model, path = Model(), tmp_path / "items.jsonl"
    for plan in world.items:
        record = model.cell(world, plan)
        extra = dict(record.extra)
        assert record.reply, extra
        path.write_text(record.reply)
        (item,) = load_items(path)
        raw = text_of(record)
        assert reasons(raw, seeds.categories[item.category].words) == {}
        assert item.asker == plan.asker.name and item.asker_informed is plan.asker_informed
        assert item.transcript[-1].text == plan.long
        assert [set(a.known_by) for a in item.attributes] == [
            {plan.owner.name, *(person.name for person in who)} for who in plan.knows
        ]
        assert extra["kept"] is True and extra["stage"] == "done" and not extra["dropped"]
        assert extra["attempts"] == {"notes": 1, "conversation": 1, "quality": 1}
        assert extra["statistics"]["turns"] == len(item.transcript) == 11
        assert extra["statistics"]["parties"] == extra["size"] == size
        assert record.settled and record.reply_outcome is Outcome.ANSWER
        assert not record.verdicts
        orjson.dumps(record.extra)  # the cache keeps it as JSON


def test_a_pair_makes_its_calls_once(world: Generate) -> None:
    model = Model()
    records = [model.cell(world, plan) for plan in world.items[:2]]
    assert model.anew == {"notes": 1, "conversation": 1, "quality": 1}
    one, other = map(text_of, records)
    assert one["asker"] != other["asker"]
    for key in ("notes", "shared_notes", "personal_notes", "useful_facts", "attributes"):
        assert one[key] == other[key]
    assert one["transcript"][:-1] == other["transcript"][:-1]
    assert [role for role, _ in records[0].calls] == [
        "generate:notes", "generate:conversation", "judge:quality",
    ]  # fmt: skip
    assert [call.model for call in model.sent] == ["writer", "writer", "judge"]


def test_whoever_writes_the_chat_is_told_nothing_private(world: Generate) -> None:
    model, plan = Model(), world.items[0]
    item = text_of(model.cell(world, plan))
    (chat,) = [call for call in model.sent if stage(call) == "conversation"]
    shown = "\n".join(message.text for message in chat.messages).lower()
    private = [*item["notes"], *item["personal_notes"], plan.category.sentence]
    private += [form for attribute in item["attributes"] for form in attribute["surface_forms"]]
    assert not [text for text in private if text.lower() in shown]
    assert all(note.lower() in shown for note in item["shared_notes"])


def test_a_prompt_cannot_ask_for_what_its_writer_must_not_see(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    (folder / "conversation-user.md").write_text("The notes: {{notes}}")
    with pytest.raises(JobError, match=r"notes.*not a place"):
        benchmark(folder)


def test_samples_are_different_items(world: Generate) -> None:
    model, plan = Model(), world.items[0]
    ids = {text_of(model.cell(world, plan, sample))["id"] for sample in (0, 1, 2)}
    assert ids == {plan.id, f"{plan.id}-s1", f"{plan.id}-s2"}
    assert model.anew == {"notes": 3, "conversation": 3, "quality": 3}


# --- drafts that are no use -------------------------------------------------------------------


def put(*path: Any, value: Any) -> Change:
    """A change that sets what stands at ``path``; a callable gets the plan."""

    def change(draft: Draft, plan: Planned) -> None:
        *way, last = path
        at: Any = draft
        for step in way:
            at = at[step]
        at[last] = value(plan) if callable(value) else value

    return change


def add(*path: Any, text: Callable[[Draft, Planned], str]) -> Change:
    """A change that appends a sentence to the text at ``path``."""

    def change(draft: Draft, plan: Planned) -> None:
        *way, last = path
        at: Any = draft
        for step in way:
            at = at[step]
        at[last] += " " + text(draft, plan)

    return change


def secret(draft: Draft, plan: Planned) -> str:
    return f"It is {draft['facts'][0]['surface_forms'][0]}."


def told_of_the_second(draft: Draft, plan: Planned) -> None:
    place = next(n for n, person in enumerate(plan.informed) if person not in plan.knows[1])
    form = draft["facts"][1]["surface_forms"][0]
    draft["notes"][place]["text"] = draft["notes"][place]["text"][:-1] + f", and of {form}."


def vague(draft: Draft, plan: Planned) -> None:
    form, other = draft["facts"][0]["surface_forms"][0], plan.category.forms[0]
    draft["notes"][0]["text"] = draft["notes"][0]["text"].replace(form, other)


def same_frame(draft: Draft, plan: Planned) -> None:
    form = draft["facts"][0]["surface_forms"][0]
    second = draft["facts"][-1]["surface_forms"][0]
    for note, person in zip(draft["notes"], plan.informed, strict=True):
        told = f"{form} and {second}" if person in plan.knows[-1] else form
        note["text"] = (
            f"One grey morning {plan.owner.first} told {person.first} at some length "
            f"and in a low voice about {told}."
        )


def pop(key: str, place: int) -> Change:
    def change(draft: Draft, plan: Planned) -> None:
        draft[key].pop(place)

    return change


def twice(draft: Draft, plan: Planned) -> str:
    return "Here: " + orjson.dumps(draft).decode() + orjson.dumps({**draft, "x": 1}).decode()


def word_of_category(draft: Draft, plan: Planned) -> str:
    return f"Think of {plan.category.words[0]} as well."


def owner_name(plan: Planned) -> str:
    return plan.owner.name


NOTE_FAULTS: Mapping[str, tuple[str, Change]] = {
    "no JSON": ("unreadable", lambda draft, plan: "Sure! Here are the notes you asked for."),
    "nothing": ("unreadable", lambda draft, plan: " \n"),
    "half a JSON": ("unreadable", lambda draft, plan: orjson.dumps(draft).decode()[:-40]),
    "two that differ": ("unreadable", twice),
    "a key less": ("unreadable", lambda draft, plan: {"notes": draft["notes"]}),
    "a note less": ("unreadable", pop("notes", -1)),
    "a number twice": ("unreadable", put("notes", 1, "number", value=1)),
    "a number as text": ("unreadable", put("notes", 0, "number", value="1")),
    "a note that is no text": ("unreadable", put("notes", 0, "text", value=7)),
    "no useful fact": ("unreadable", put("useful_facts", value=[])),
    "a third fact": (
        "unreadable",
        lambda draft, plan: draft["facts"].append({**draft["facts"][0], "number": 3}),
    ),
    "no form": ("unreadable", put("facts", 0, "surface_forms", value=[])),
    "shared notes as one text": ("unreadable", put("shared_notes", value="All of them.")),
    "a form that no note has": (
        "surface form",
        lambda draft, plan: draft["facts"][0]["surface_forms"].append("quartz clock"),
    ),
    "a form that is a name": (
        "surface form",
        lambda draft, plan: draft["facts"][0]["surface_forms"].append(plan.owner.first),
    ),
    "the secret in a shared note": ("secret in shared text", add("shared_notes", 0, text=secret)),
    "the secret in a useful fact": (
        "secret in shared text",
        add("useful_facts", 0, "note", text=secret),
    ),
    "a word of the category": (
        "secret in shared text",
        add("shared_notes", 1, text=word_of_category),
    ),
    "somebody else's note": (
        "note",
        add("notes", 0, "text", text=lambda d, p: f"So was {p.uninformed[0].first}."),
    ),
    "first person": ("note", add("notes", 0, "text", text=lambda d, p: "That surprised me.")),
    "the fact untold": (
        "note",
        put("notes", 0, "text", value=lambda p: f"{p.owner.first} met {p.informed[0].first}."),
    ),
    "told in the category's words alone": ("who knows", vague),
    "told too much": ("who knows", told_of_the_second),
    "useful fact not of the owner": (
        "useful fact",
        put("useful_facts", 0, "fact", value="Tuesday would do, from 09:30 on the list."),
    ),
    "useful fact not in its note": (
        "useful fact",
        put("useful_facts", 0, "note", value="The sheet is always open for remarks."),
    ),
    "another number in its note": (
        "useful fact",
        lambda draft, plan: put(
            "useful_facts", 0, "note", value=draft["useful_facts"][0]["note"].replace("30", "45")
        )(draft, plan),
    ),
    "a shared note twice": (
        "counts",
        lambda draft, plan: put("shared_notes", 1, value=draft["shared_notes"][0])(draft, plan),
    ),
    "two shared notes": ("counts", put("shared_notes", value=["One date.", "Another date."])),
    "the prompt's own words": (
        "echo",
        put(
            "shared_notes", 0,
            value="It tells in one to three sentences of one talk between the people.",
        ),
    ),
    "the same frame": ("echo", same_frame),
    "an open place": ("typography", put("shared_notes", 0, value="The date is [date].")),
    "no full stop": ("typography", put("shared_notes", 0, value="The date is fixed")),
}  # fmt: skip


def with_two_facts(world: Generate) -> Planned:
    """A plan in which somebody knows one fact of two."""
    return next(plan for plan in world.items if len(plan.knows) == 2)


@pytest.fixture(scope="module")
def ten() -> Generate:
    return benchmark(sizes=(10,), questions_per_group=4)


@pytest.mark.parametrize("name", NOTE_FAULTS)
def test_notes_with_a_fault_are_dropped_with_the_reason(ten: Generate, name: str) -> None:
    reason, change = NOTE_FAULTS[name]
    model = Model(spoilt("notes", change))
    record = model.cell(ten, with_two_facts(ten))
    assert (record.extra["stage"], record.extra["dropped"]) == ("notes", reason), record.extra
    assert dropped_whole(record)
    assert model.anew == {"notes": ATTEMPTS}


def dropped_whole(record: Record) -> bool:
    """Nothing is left of a dropped item but the reason, with an example."""
    extra = record.extra
    reason = extra["dropped"]
    return (
        record.reply == ""
        and extra["kept"] is False
        and bool(extra["faults"][reason])
        and "statistics" not in extra
    )


def turn(place: int, sender: Any) -> Change:
    return put("turns", place, "sender", value=sender)


CHAT_FAULTS: Mapping[str, tuple[str, Change]] = {
    "no JSON": ("unreadable", lambda draft, plan: "The chat goes like this."),
    "no turns": ("unreadable", lambda draft, plan: {"turns": []}),
    "a turn without text": ("unreadable", put("turns", 0, "text", value=" ")),
    "too short": ("turns", lambda draft, plan: {"turns": draft["turns"][-4:]}),
    "too long": ("turns", lambda draft, plan: {"turns": draft["turns"] * 3}),
    "somebody else comes last": ("turns", turn(-1, lambda p: p.asker.name)),
    "asked too early": ("turns", put("turns", 6, "text", value=lambda p: p.plain)),
    "the last message speaks to the assistant": (
        "turns",
        put("turns", -1, "text", value=lambda p: f"{p.assistant}, are you there?"),
    ),
    "a stranger": ("senders", turn(0, "Nobody Atall")),
    "a first name": ("senders", turn(0, lambda p: p.closer.first)),
    "another's assistant": (
        "senders",
        turn(6, lambda p: f"AI Assistant (for {p.closer.name})"),
    ),
    "the owner talks": (
        "senders",
        lambda draft, plan: [turn(n, owner_name)(draft, plan) for n in (0, 2)] and None,
    ),
    "no assistant": ("chat", turn(4, lambda p: p.closer.name)),
    "twice in a row": (
        "chat",
        lambda draft, plan: turn(6, draft["turns"][5]["sender"])(draft, plan),
    ),
    "the secret": (
        "secret in shared text",
        put("turns", 7, "text", value=lambda p: f"It is {p.category.forms[0]}, surely."),
    ),
    "the prompt's own words": (
        "echo",
        put(
            "turns", 7, "text",
            value="It is the stretch of talk before somebody puts a question to us.",
        ),
    ),
    "a message twice": (
        "echo",
        lambda draft, plan: put("turns", 7, "text", value=draft["turns"][0]["text"])(draft, plan),
    ),
    "a doubled word": ("typography", put("turns", 7, "text", value="That that is the the point.")),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAT_FAULTS)
def test_chats_with_a_fault_are_dropped_with_the_reason(ten: Generate, name: str) -> None:
    reason, change = CHAT_FAULTS[name]
    model = Model(spoilt("conversation", change))
    record = model.cell(ten, with_two_facts(ten))
    assert (record.extra["stage"], record.extra["dropped"]) == ("conversation", reason), (
        record.extra
    )
    assert dropped_whole(record)
    assert model.anew == {"notes": 1, "conversation": ATTEMPTS}


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("leaks", True, "leaks"),
        ("coherent", False, "not coherent"),
        ("on_topic", False, "off topic"),
        ("consistent", False, "not consistent"),
    ],
)
def test_the_judge_can_drop_an_item_and_is_not_asked_again(
    world: Generate, key: str, value: bool, reason: str
) -> None:
    model = Model(spoilt("quality", put(key, value=value)))
    record = model.cell(world, world.items[0])
    assert (record.extra["stage"], record.extra["dropped"]) == ("quality", reason)
    assert dropped_whole(record)
    assert model.anew["quality"] == 1
    assert orjson.loads(orjson.dumps(record.extra["quality"]))[key] is value


@pytest.mark.parametrize(
    "text",
    [
        "", "None", "Looks fine to me.",
        orjson.dumps({**QUALITY, "leaks": "no"}).decode(),
        orjson.dumps({**QUALITY, "coherent": 1}).decode(),
        orjson.dumps({**QUALITY, "on_topic": None}).decode(),
        orjson.dumps({k: v for k, v in QUALITY.items() if k != "leaks"}).decode(),
        "".join(
            orjson.dumps({**QUALITY, "leaks": leaks}).decode() for leaks in (False, True)
        ),
        "[" + orjson.dumps(QUALITY).decode() + "]",
    ],
)  # fmt: skip
def test_a_judge_that_cannot_be_read_never_keeps_an_item(world: Generate, text: str) -> None:
    model = Model(spoilt("quality", lambda draft, plan: said(text)))
    record = model.cell(world, world.items[0])
    assert (record.extra["stage"], record.extra["dropped"]) == ("quality", "unreadable")
    assert dropped_whole(record)
    assert model.anew["quality"] == ATTEMPTS


@pytest.mark.parametrize("text", ["```json\n{}\n```", "Here you are: {}", "{}\n\nGood luck!"])
def test_json_in_prose_is_read(world: Generate, text: str) -> None:
    def dressed(plan: Planned, call: Any) -> Answer:
        return said(text.replace("{}", fit(plan, call).text))

    assert Model(dressed).cell(world, world.items[0]).reply


# --- second drafts, failed calls, changed prompts ---------------------------------------------


@pytest.mark.parametrize("which", ["notes", "conversation", "quality"])
def test_one_more_draft_is_asked_for_and_counted(world: Generate, which: str) -> None:
    model = Model(spoilt(which, lambda draft, plan: "no draft at all", times=1))
    record = model.cell(world, world.items[0])
    assert record.reply and record.settled
    assert record.extra["attempts"] == {
        name: 1 + (name == which) for name in ("notes", "conversation", "quality")
    }
    samples = [call.sample for call in model.sent if stage(call) == which]
    assert samples == [0, 1]
    second = Model().cell(world, world.items[0], sample=1)
    assert text_of(second)["notes"] == text_of(record)["notes"]


def test_second_drafts_of_one_sample_are_no_drafts_of_the_next(world: Generate) -> None:
    model = Model(spoilt("notes", lambda draft, plan: "no draft at all"))
    for sample in (0, 1):
        model.cell(world, world.items[0], sample)
    assert [call.sample for call in model.sent] == [0, 1, 2, 3]


@pytest.mark.parametrize("which", ["notes", "conversation", "quality"])
@pytest.mark.parametrize(
    ("outcome", "asked", "settled"),
    [
        (Outcome.TRUNCATED, ATTEMPTS, True),
        (Outcome.REFUSAL, ATTEMPTS, True),
        (Outcome.INVALID, 1, True),
        (Outcome.TRANSIENT, 1, False),
        (Outcome.EXHAUSTED, 1, False),
    ],
)
def test_a_call_that_ends_otherwise_drops_the_item(
    world: Generate, which: str, outcome: Outcome, asked: int, settled: bool
) -> None:
    # The text would be a good draft: what was cut off or failed is not read all the same.
    def ends(draft: Draft, plan: Planned) -> Answer:
        return said(draft, outcome=outcome)

    model = Model(spoilt(which, ends))
    record = model.cell(world, world.items[0])
    assert record.extra["stage"] == which and str(outcome) in record.extra["dropped"]
    assert (record.reply, record.reply_outcome, record.settled) == ("", outcome, settled)
    assert model.anew[which] == asked


def test_an_item_goes_on_where_a_call_failed(world: Generate) -> None:
    failing = spoilt(
        "conversation", lambda draft, plan: said("", outcome=Outcome.OVERLOAD), times=1
    )
    model = Model(failing)
    assert not model.cell(world, world.items[0]).settled
    assert model.anew == {"notes": 1, "conversation": 1}
    again = model.cell(world, world.items[0])
    assert again.settled and again.reply
    assert model.anew == {"notes": 1, "conversation": 2, "quality": 1}


def copied(folder: Path) -> Path:
    """The prompts in a folder of their own."""
    target = folder / "muppet-generate"
    shutil.copytree(PROMPTS, target)
    return target


@pytest.mark.parametrize("part", ["", "-user"])
@pytest.mark.parametrize(
    ("changed", "anew"),
    [
        ("notes", {"notes", "conversation", "quality"}),
        ("conversation", {"conversation", "quality"}),
        ("quality", {"quality"}),
    ],
)
def test_a_changed_prompt_asks_anew_only_what_depends_on_it(
    tmp_path: Path, part: str, changed: str, anew: set[str]
) -> None:
    folder, model = copied(tmp_path), Model()
    before = benchmark(folder)
    for plan in before.items:
        assert model.cell(before, plan).reply
    pairs = len(before.items) // 2
    assert model.anew == dict.fromkeys(("notes", "conversation", "quality"), pairs)
    prompt = folder / f"{changed}{part}.md"
    prompt.write_text(prompt.read_text() + "\nWrite plainly.\n")
    model.anew.clear()
    after = benchmark(folder)
    assert after.texts("none", "generate") != before.texts("none", "generate")
    for plan in after.items:
        assert model.cell(after, plan).reply
    assert model.anew == dict.fromkeys(anew, pairs)


def test_nothing_is_asked_twice(world: Generate) -> None:
    model = Model()
    records = [model.cell(world, plan) for plan in world.items]
    model.anew.clear()
    assert [model.cell(world, plan) for plan in world.items] == records
    assert not model.anew


# --- a job and its forecast -------------------------------------------------------------------


def test_schemas_name_every_key_and_allow_no_other() -> None:
    def objects(part: Any) -> list[dict[str, Any]]:
        if isinstance(part, dict):
            inside = [found for value in part.values() for found in objects(value)]
            return [part, *inside] if part.get("type") == "object" else inside
        return []

    for schema, count in ((NOTES_SCHEMA, 4), (CHAT_SCHEMA, 2), (QUALITY_SCHEMA, 1)):
        found = objects(schema.definition)
        assert len(found) == count
        for one in found:
            assert one["additionalProperties"] is False
            assert one["required"] == list(one["properties"])


def test_exactly_one_judge_reads_the_chats() -> None:
    for judges in ((), (JUDGE, JUDGE)):
        with pytest.raises(JobError, match="judges; allowed: one"):
            Generate(MATERIAL, PROMPTS, judges, Settings())


@pytest.mark.parametrize("size", [4, 20])
def test_a_forecast_sees_all_three_calls_at_their_usual_length(size: int) -> None:
    world = benchmark(sizes=(size,))
    for plan in world.items:

        def example(plan: Planned, call: Call) -> Answer:
            text = world.example(call)
            assert text is not None
            return said(text)

        model = Model(example)
        assert model.cell(world, plan).reply
        assert [stage(call) for call in model.sent] == ["notes", "conversation", "quality"]
    other = benchmark(sizes=(5,), seed=1)
    (strange,) = [call for call in model.sent if stage(call) == "notes"]
    assert other.example(strange) is None


def test_the_job_fits_the_benchmark() -> None:
    with (ROOT / "jobs" / "muppet-generate.toml").open("rb") as file:
        job = tomllib.load(file)
    table = job["generate"]
    settings = Settings(**{**table, "sizes": tuple(table["sizes"])})
    assert job["job"]["benchmark"] == "muppet-generate"
    assert tuple(job["job"]["conditions"]) == CONDITIONS
    assert set(job["judges"]) == set(job["job"]["judges"]) <= set(JUDGES)
    assert job["job"]["budget_usd"] > 0
    asked = {*job["job"]["models"], *(judge["model"] for judge in job["judges"].values())}
    assert asked <= set(job["models"])
    assert all("price" in model for model in job["models"].values())
    assert len(Generate(ROOT / job["job"]["dataset"], PROMPTS, (JUDGE,), settings).items) == 330
