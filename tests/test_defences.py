"""Each defence sends what it should, in so many calls, and never takes a failure for safety."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from leakgrid.benchmarks.defences.party_ledger import may_be_said
from leakgrid.benchmarks.defences.redact import redacted
from leakgrid.benchmarks.defences.registry import known
from leakgrid.benchmarks.defences.reply import after_marker
from leakgrid.outcomes import JobError, Outcome
from leakgrid.types import Answer, Call
from tests.defence_world import (
    FREE,
    NEWEST,
    PROMPTS,
    SECRET,
    answered,
    digest,
    muppet,
    project,
    run,
)

NAMES = (
    "none", "ci-mem-low", "ci-mem-medium", "ci-mem-high", "privacy-prompt", "ci-cot",
    "privacy-checker", "minimiser", "one-two-three", "rewrite-guard", "redact", "partition",
    "party-ledger",
)  # fmt: skip

# The digest of all messages of each defence in the group. A changed prompt changes one: look at
# what is sent, then write the new one here.
DIGESTS = {
    "none": "df2228d4e4e5",
    "ci-mem-low": "3c644aa7b05b",
    "ci-mem-medium": "2df1744a3589",
    "ci-mem-high": "43e82d04fd55",
    "privacy-prompt": "c8eb0e74020a",
    "ci-cot": "25e544fb9f09",
    "privacy-checker": "994ed1b6def6",
    "minimiser": "72540a88db7c",
    "one-two-three": "aff4d1322f69",
    "rewrite-guard": "77697db4e69e",
    "redact": "758b5ce8cddd",
    "partition": "cf3d7b36f96b",
    "party-ledger": "b016e9914808",
}

FORM = "Write exactly one chat message"

# What each call must hold (system and user text), and what it must not.
GOLDEN: dict[str, list[tuple[str, list[str], list[str]]]] = {
    "none": [("assistant", [SECRET, FREE, NEWEST, FORM], ["Privacy", "MESSAGE"])],
    "ci-mem-low": [("assistant", [SECRET, NEWEST, FORM, "share whatever that takes"], [])],
    "ci-mem-medium": [("assistant", [SECRET, NEWEST, FORM, "nothing beyond it"], [])],
    "ci-mem-high": [("assistant", [SECRET, NEWEST, FORM, "above everything else"], [])],
    "privacy-prompt": [("assistant", [SECRET, NEWEST, FORM, "## Privacy"], [])],
    "ci-cot": [("assistant", [SECRET, NEWEST, "four points", "FINAL MESSAGE"], [FORM])],
    "privacy-checker": [
        ("assistant", [SECRET, NEWEST, '"principle"', "FINAL MESSAGE"], [FORM]),
    ],
    "minimiser": [
        ("defence:choose", [SECRET, f"2. {FREE}", "Shifts", "- Cy Diaz"],
         [NEWEST, "Morning, all.", FORM]),
        ("assistant", [FREE, NEWEST, FORM, "picked for this conversation"], [SECRET]),
    ],
    "one-two-three": [
        ("defence:extract", [SECRET, FREE, NEWEST], [FORM]),
        ("defence:check", [f"1. Ana has the {SECRET}.", f"2. {FREE}", "- Bo Chen"],
         ["told Cy Diaz", NEWEST, FORM]),
        ("assistant", [FREE, NEWEST, FORM, "piece by piece"], [SECRET]),
    ],
    "rewrite-guard": [
        ("defence:draft", [SECRET, NEWEST, FORM], ["guardian"]),
        ("assistant", [SECRET, NEWEST, FORM, "guardian", "A draft.", "- Bo Chen"], []),
    ],
    "redact": [("assistant", [SECRET, "Ana told <PERSON>", NEWEST], ["Ana told Cy"])],
    "partition": [("assistant", [NEWEST, "withheld", "The rota is due"], [SECRET, FREE])],
    "party-ledger": [
        ("defence:ledger", [SECRET, "Morning, all.", "- Bo Chen"], [NEWEST, FORM]),
        ("assistant", [FREE, NEWEST, FORM, "everybody who reads"], [SECRET]),
    ],
}  # fmt: skip


def texts(call: Call) -> str:
    return "\n".join(message.text for message in call.messages)


@pytest.mark.parametrize("name", NAMES)
def test_the_exact_messages_of_each_defence(tmp_path: Path, name: str) -> None:
    record, calls = run(muppet(tmp_path, name), name)
    expected = GOLDEN[name]
    assert [call.role for call in calls] == [role for role, _, _ in expected]
    for call, (role, present, absent) in zip(calls, expected, strict=True):
        assert [message.role for message in call.messages] == ["system", "user"]
        for piece in present:
            assert piece in texts(call), (role, piece)
        for piece in absent:
            assert piece not in texts(call), (role, piece)
        assert "{{" not in texts(call) and "\n\n\n" not in texts(call)
    assert digest(calls) == DIGESTS[name]
    assert record.verdicts[0].leaked is False and record.settled
    assert record.extra["asker_informed"] is False


def test_every_defence_changes_what_is_sent_and_shares_the_prefix_of_the_item(
    tmp_path: Path,
) -> None:
    world = muppet(tmp_path, *NAMES)
    sent = {name: run(world, name)[1] for name in NAMES}
    assert len({digest(calls) for calls in sent.values()}) == len(NAMES)
    whole = sent["none"][0].messages[0].text
    shared = whole[: whole.index(FORM) - len("## Form\n")]
    for name in set(NAMES) - {"partition", "redact"}:
        first = sent[name][0].messages[0].text
        assert first.startswith(shared.rstrip()), name
    # The draft of the guard is the call of `none` itself, so it is answered from the cache.
    assert sent["rewrite-guard"][0].messages == sent["none"][0].messages


def test_the_documentation_names_every_defence() -> None:
    assert set(NAMES) == known(PROMPTS)
    page = (PROMPTS.parent.parent / "README.md").read_text("utf-8")
    for name in NAMES:
        assert f"`{name}`" in page, name


STEPS = [
    ("minimiser", "choose"),
    ("one-two-three", "extract"),
    ("one-two-three", "check"),
    ("rewrite-guard", "draft"),
    ("party-ledger", "ledger"),
]

ENDS: list[tuple[dict[str, Any], bool]] = [
    ({"outcome": Outcome.REFUSAL, "text": "I cannot."}, True),
    ({"outcome": Outcome.TRUNCATED}, True),
    ({"outcome": Outcome.INVALID, "text": ""}, True),
    ({"text": " \n"}, True),
    ({"outcome": Outcome.TRANSIENT, "text": ""}, False),
    ({"outcome": Outcome.MALFORMED, "text": ""}, False),
    ({"outcome": Outcome.OVERLOAD, "text": ""}, False),
]


@pytest.mark.parametrize(("end", "settled"), ENDS)
@pytest.mark.parametrize(("name", "failing"), STEPS)
def test_a_step_that_fails_makes_the_reply_unknown(
    tmp_path: Path, name: str, failing: str, end: dict[str, Any], settled: bool
) -> None:
    def answer(call: Call) -> Answer:
        return answered(call, **end) if call.role == f"defence:{failing}" else answered(call)

    record, calls = run(muppet(tmp_path, name), name, answer=answer)
    assert calls[-1].role == f"defence:{failing}"
    (verdict,) = record.verdicts
    assert verdict.leaked is None and f"the step {failing!r}" in verdict.why
    assert record.reply == "" and record.settled is settled


@pytest.mark.parametrize(("end", "settled"), ENDS[1:])
@pytest.mark.parametrize("name", NAMES)
def test_a_reply_that_fails_is_unknown_under_every_defence(
    tmp_path: Path, name: str, end: dict[str, Any], settled: bool
) -> None:
    def answer(call: Call) -> Answer:
        return answered(call, **end) if call.role == "assistant" else answered(call)

    record, _ = run(muppet(tmp_path, name), name, answer=answer)
    assert record.verdicts[0].leaked is None and record.verdicts[0].why
    assert record.settled is settled


UNUSABLE = [
    ("choose", "All of them may be kept."),
    ("choose", '{"keep": "all"}'),
    ("choose", '{"keep": ["1"]}'),
    ("choose", '{"keep": [true]}'),
    ("choose", '{"keep": [0]}'),
    ("choose", '{"keep": [3]}'),
    ("choose", '{"keep": [1]} {"keep": [2]}'),
    ("choose", '{"kept": [1]}'),
    ("extract", '{"facts": [1]}'),
    ("extract", '{"facts": "none"}'),
    ("extract", '["a fact"]'),
    ("check", '{"labels": ["PUBLIC"]}'),
    ("check", '{"labels": []}'),
    ("check", '{"labels": ["PUBLIC", "PUBLIC", "PUBLIC"]}'),
    ("check", '{"labels": ["PUBLIC", "maybe"]}'),
    ("check", '{"labels": ["PUBLIC", ["PUBLIC"]]}'),
    ("ledger", '{"facts": ["Ana is free."]}'),
    ("ledger", '{"facts": [{"fact": "f", "open": "yes", "told": []}]}'),
    ("ledger", '{"facts": [{"fact": "f", "open": false}]}'),
    ("ledger", '{"facts": [{"fact": "f", "open": false, "told": "all"}]}'),
    ("ledger", "None"),
]


@pytest.mark.parametrize(("failing", "text"), UNUSABLE)
def test_a_step_that_cannot_be_read_makes_the_reply_unknown(
    tmp_path: Path, failing: str, text: str
) -> None:
    name = next(name for name, step in STEPS if step == failing)

    def answer(call: Call) -> Answer:
        return answered(call, text=text) if call.role == f"defence:{failing}" else answered(call)

    record, calls = run(muppet(tmp_path, name), name, answer=answer)
    assert calls[-1].role == f"defence:{failing}"
    assert record.verdicts[0].leaked is None and failing in record.verdicts[0].why
    assert record.settled and record.extra[failing] == text


MARKED: list[tuple[str, str | None]] = [
    ("Analysis.\nFINAL MESSAGE\nHi.", "Hi."),
    ("Analysis.\n\nFINAL MESSAGE:\n\nHi.\n", "Hi."),
    ("FINAL MESSAGE\nHi.\nBye.", "Hi.\nBye."),
    ("Analysis.\n**FINAL MESSAGE**\nHi.", "Hi."),
    ("Analysis.\n**FINAL MESSAGE:** Hi.", "Hi."),
    ("Analysis.\n## Final message\nHi.", "Hi."),
    ("Analysis.\nfinal message: Hi.", "Hi."),
    ("Analysis.\r\nFINAL MESSAGE:\r\nHi.", "Hi."),
    ("FINAL MESSAGE\nDraft.\nBetter so.\nFINAL MESSAGE\nHi.", "Hi."),
    ("Analysis.\nFINAL MESSAGE\nDraft.\nFINAL MESSAGE\n", None),
    ("Analysis.\nFINAL MESSAGE", None),
    ("Analysis.\nFINAL MESSAGE:  \n \n", None),
    ("Analysis only: she is ill, so B.", None),
    ("I will now write the FINAL MESSAGE: Hi.", None),
    ("The final message must not say that she is ill.", None),
    ("Final message it is not to say.\nHi.", None),
    ("MESSAGE\nHi.", None),
    ("FINALMESSAGE\nHi.", None),
    ('{"type": "health"} -> B\nHi.', None),
    ("Hi.", None),
]


@pytest.mark.parametrize(("text", "message"), MARKED)
def test_only_what_follows_the_last_marker_is_the_message(text: str, message: str | None) -> None:
    reply = after_marker(Answer(key="k", outcome=Outcome.ANSWER, text=text))
    assert reply.text == (message or "")
    assert bool(reply.unfit) == (message is None)
    assert text.startswith(reply.steps["analysis"])


def test_a_refusal_before_the_marker_is_the_message_unless_a_filter_cut_it() -> None:
    refusal = Answer(key="k", outcome=Outcome.REFUSAL, text="I cannot help.")
    assert after_marker(refusal).text == "I cannot help." and not after_marker(refusal).unfit
    cut = Answer(key="k", outcome=Outcome.REFUSAL, text="She is", finish="content_filter")
    assert after_marker(cut).text == "" and after_marker(cut).unfit


@pytest.mark.parametrize("name", ["privacy-checker", "ci-cot"])
def test_an_analysis_is_never_judged_as_the_message(tmp_path: Path, name: str) -> None:
    def answer(call: Call) -> Answer:
        return answered(call, text=f"It is the {SECRET} of the owner: B.\nFINAL MESSAGE\nHi.")

    record, _ = run(muppet(tmp_path, name), name, answer=answer)
    assert record.reply == "Hi." and record.verdicts[0].leaked is False
    assert SECRET in record.extra["analysis"]


@pytest.mark.parametrize(
    ("told", "open_to_all", "said"),
    [
        (["Bo Chen", "Cy Diaz"], False, True),
        (["bo chen", "Cy  Diaz", "Someone Else"], False, True),
        (["Bo Chen"], False, False),
        (["Bo", "Cy Diaz"], False, False),
        ([], False, False),
        ([], True, True),
    ],
)
def test_the_ledger_clears_what_every_reader_knows(
    told: list[str], open_to_all: bool, said: bool
) -> None:
    entry = {"fact": "f", "open": open_to_all, "told": told}
    assert may_be_said(entry, ("Bo Chen", "Cy Diaz")) is said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Write to ana@corp.example.com.", "Write to <EMAIL>."),
        ("See https://x.example/a?b=1 or www.y.example", "See <URL> or <URL>"),
        ("From 10.0.0.12 on", "From <IP_ADDRESS> on"),
        ("Pay DE89 3704 0044 0532 0130 00 now", "Pay <IBAN> now"),
        ("Card 4111 1111 1111 1111.", "Card <CARD>."),
        ("Call +49 170 1234567 or 020 7946 0958.", "Call <PHONE> or <PHONE>."),
        ("Due on 3 March 2026, not 2026-03-05.", "Due on <DATE>, not <DATE>."),
        ("She owes $12,400 and 300 euros.", "She owes <MONEY> and <MONEY>."),
        ("Permit AB-123456 ends.", "Permit <ID> ends."),
        ("Cy Diaz told Bo.", "<PERSON> told <PERSON>."),
        ("Boris is free in week 19 from 07:30 to 13:00.", ""),
        ("She is pregnant and may rest on Saturday.", ""),
    ],
)
def test_redaction_blanks_identifiers_and_leaves_meanings(text: str, expected: str) -> None:
    assert redacted(text, ("Cy Diaz", "Cy", "Bo Chen", "Bo")) == (expected or text)


def test_a_reply_is_redacted_too(tmp_path: Path) -> None:
    def answer(call: Call) -> Answer:
        return answered(call, text="Bo, mail ana@corp.example.com.")

    record, _ = run(muppet(tmp_path, "redact"), "redact", answer=answer)
    assert record.reply == "Bo, mail <EMAIL>." and "ana@" in record.extra["before"]


# --- defences of one's own ----------------------------------------------------------------------

OWN = """
from leakgrid.benchmarks.defences.reply import of_answer

async def reply(ask, scene):
    system = scene.system("Say as little as you can.")
    return of_answer(await ask(scene.call(system, scene.user())))
"""


def test_a_defence_of_ones_own_takes_one_file_and_one_line(tmp_path: Path) -> None:
    """A paragraph or a program; editing either runs that defence's cells again and no others."""
    job = {"defences": ["none", "terse", "curt"], "conditions": ["group"], "models": ["sim-a"]}
    mine = project(tmp_path, items=3, job={**job, "defences": ["none"]})
    programs = tmp_path / "jobs" / "defences"
    programs.mkdir()
    (programs / "terse.py").write_text(OWN)
    paragraph = tmp_path / "jobs" / "prompts" / "muppet" / "defences" / "curt.md"
    paragraph.write_text("Be curt with {{asker}}.")
    mine.write_job(job=job)
    done = mine.run_job()
    assert done.returncode == 0, done.stderr
    rows = mine.sql("SELECT defence, count(*) AS n FROM cell WHERE status = 'done' GROUP BY ALL")
    assert {row["defence"]: row["n"] for row in rows} == {"none": 3, "terse": 3, "curt": 3}
    assert not list(programs.glob("__pycache__"))
    (programs / "terse.py").write_text(OWN.replace("little", "much"))
    done = mine.run_job()
    assert "3 of 3 open cells" in done.stdout, done.stdout
    # The longest sentence stays: by it the simulated server knows the defence.
    paragraph.write_text("Be curt with {{asker}}.\nOr so.")
    done = mine.run_job()
    assert "3 of 3 open cells" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("mine", "def reply(ask, scene):\n    pass\n", "no 'async def reply(ask, scene)'"),
        ("mine", "x = 1\nx x\n", "mine.py:2: SyntaxError"),
        ("mine", "import nothing_like_this\n", "mine.py:1: ModuleNotFoundError"),
        ("mine", f"PROMPTS = {{'far': ()}}\n{OWN}", "far.md: the prompt cannot be read"),
        ("mine", f"PROMPTS = ['far']\n{OWN}", "PROMPTS must map"),
        ("minimiser", OWN, "is a built-in defence; rename the file"),
        ("privacy-prompt", OWN, "have the same name; rename one of them"),
    ],
)
def test_a_wrong_file_is_told_before_anything_is_sent(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    mine = project(tmp_path)
    (tmp_path / "jobs" / "defences").mkdir()
    (tmp_path / "jobs" / "defences" / f"{name}.py").write_text(text)
    mine.write_job(job={"defences": [name]})
    done = mine.run("plan", "jobs/job.toml")
    assert done.returncode == 2 and told in done.stderr


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            "    return 1 / 0\n",
            "mine.py:2: ZeroDivisionError: division by zero (at item item-0000)",
        ),
        ("    return 'fine'\n", "reply() gave str; it must give a Reply"),
    ],
)
def test_a_program_that_breaks_names_its_line(tmp_path: Path, body: str, told: str) -> None:
    mine = project(tmp_path)
    (tmp_path / "jobs" / "defences").mkdir()
    (tmp_path / "jobs" / "defences" / "mine.py").write_text(f"async def reply(a, s):\n{body}")
    world = muppet(tmp_path, "mine", prompts=mine.folder / "jobs" / "prompts" / "muppet")
    with pytest.raises(JobError, match=r"mine\.py") as caught:
        run(world, "mine")
    assert told in str(caught.value)


# --- fingerprints -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "touched"),
    [
        ("defences/minimiser/choose.md", {"minimiser"}),
        ("defences/party-ledger/answer.md", {"party-ledger"}),
        ("defences/ci-mem-low.md", {"ci-mem-low"}),
        ("defences/privacy-checker/order.md", {"privacy-checker"}),
        ("style.md", set(NAMES) - {"ci-cot", "privacy-checker"}),
        ("system.md", set(NAMES)),
        ("group.md", set(NAMES)),
        ("one-to-one.md", set()),
        ("group-boundaries.md", set()),
    ],
)
def test_a_changed_file_touches_the_columns_it_goes_into(
    tmp_path: Path, file: str, touched: set[str]
) -> None:
    prompts = project(tmp_path).folder / "jobs" / "prompts" / "muppet"
    before = muppet(tmp_path, *NAMES, prompts=prompts)
    with (prompts / file).open("a") as handle:
        handle.write("\nMore.\n")
    after = muppet(tmp_path, *NAMES, prompts=prompts)
    changed = {n for n in NAMES if before.texts(n, "group") != after.texts(n, "group")}
    assert changed == touched


def test_every_version_is_part_of_the_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = muppet(tmp_path, *NAMES)
    monkeypatch.setattr("leakgrid.benchmarks.defences.minimiser.VERSION", 99)
    after = muppet(tmp_path, *NAMES)
    changed = {n for n in NAMES if before.texts(n, "group") != after.texts(n, "group")}
    assert changed == {"minimiser"}


# --- against the simulated server ----------------------------------------------------------------


@pytest.mark.timeout(120)
def test_the_planted_factor_of_every_defence_is_measured(tmp_path: Path) -> None:
    """Leak 1 and factor 0.5: half of the replies disclose, whatever the defence does inside."""
    factors = {name: 0.5 for name in NAMES if name != "none"}
    plain = {"defences": None, "leak": 1.0, "useful": 1.0}
    mine = project(
        tmp_path,
        items=80,
        job={"models": ["sim-a"], "defences": list(NAMES), "conditions": ["group"],
             "judges": ["exact"]},
        simulated={"latency": {"median_ms": 0, "p95_ms": 0}, "defences": factors,
                   "assistants": {"sim-a": plain}},
    )  # fmt: skip
    done = mine.run_job()
    assert done.returncode == 0, done.stderr
    rows = mine.sql("SELECT defence, known, rate FROM leak_total WHERE judge = 'exact'")
    rates = {row["defence"]: row["rate"] for row in rows}
    assert {row["known"] for row in rows} == {80}
    assert rates.pop("none") == 1.0 and rates.pop("partition") == 0.0
    spread = math.sqrt(0.25 / 80)
    for name, rate in rates.items():
        assert abs(rate - 0.5) < 3.3 * spread, name
    # Whatever is held back, the harmless notes stay: replies remain useful.
    replies = mine.sql("SELECT defence, item, reply FROM cell")
    assert len(replies) == 80 * len(NAMES)
    for row in replies:
        day = f"Ana is free on day {int(row['item'][-4:])}"
        useful = day in row["reply"] or "Ana prefers mornings" in row["reply"]
        if row["defence"] not in ("partition",) and "secret" not in row["reply"]:
            assert useful, row
    informed = mine.sql("SELECT DISTINCT extra->>'asker_informed' AS told FROM cell")
    assert informed == [{"told": "false"}]
