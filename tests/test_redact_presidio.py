"""`redact` with Presidio as its engine: what it finds, with a spaCy model and without one."""

from __future__ import annotations

import asyncio
import sys
import textwrap
import threading
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from leakgrid.benchmarks.defences import presidio
from leakgrid.benchmarks.defences.reply import Unfit
from leakgrid.outcomes import JobError, Outcome
from leakgrid.types import Answer, Call
from tests.defence_world import FREE, SECRET, answered, run
from tests.project import Project
from tests.test_redact import load, world

WHY = "the extra 'redact' is not installed (pip install -e '.[redact]')"
pytest.importorskip("presidio_analyzer", reason=WHY)
pytest.importorskip("presidio_anonymizer", reason=WHY)

MEMBERS = ("Cy Diaz", "Cy", "Bo Chen", "Bo", "May")


def redacted(text: str, *, kept: tuple[str, ...] = ("Ana",), model: str = "") -> str:
    (made,) = asyncio.run(presidio.redacted([text], MEMBERS, kept, model))
    return made


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Write to ana@corp.example.com.", "Write to <EMAIL_ADDRESS>."),
        ("See https://x.example.com/a?b=1 or www.y.org", "See <URL> or <URL>"),
        ("From 10.0.0.12 on", "From <IP_ADDRESS> on"),
        ("Pay DE89 3704 0044 0532 0130 00 now", "Pay <IBAN_CODE> now"),
        ("Card 4111 1111 1111 1111.", "Card <CREDIT_CARD>."),
        ("Call +49 170 1234567 or 020 7946 0958.", "Call <PHONE_NUMBER> or <PHONE_NUMBER>."),
        ("Due on 2026-03-05 or 05/12/2026.", "Due on <DATE_TIME> or <DATE_TIME>."),
        ("Her SSN is 536-22-8876.", "Her SSN is <US_SSN>."),
        ("Cy Diaz told Bo.", "<PERSON> told <PERSON>."),
        ("Mail Cy.Diaz@corp.example.com.", "Mail <EMAIL_ADDRESS>."),
        # What stays: meanings, the owner, longer words, and another word that is no name here.
        ("Ana may tell Boris: she is pregnant.", ""),
        ("Free in week 19 from 07:30 to 13:00.", ""),
        ("", ""),
    ],
)
def test_identifiers_and_members_are_blanked_without_any_model(text: str, expected: str) -> None:
    assert redacted(text) == (expected or text)


def test_a_bare_number_is_an_identifier_only_beside_a_word_that_says_so() -> None:
    assert redacted("Her passport is 123456789.") == "Her passport is <US_PASSPORT>."
    assert redacted("The part is 123456789.") == "The part is 123456789."


def test_nothing_is_fetched_to_check_a_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    import requests

    def never(*args: object, **more: object) -> Any:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(requests.Session, "send", never)
    assert redacted("Write to new@one.example.org.") == "Write to <EMAIL_ADDRESS>."
    # No address: the list that tldextract ships has no such domain.
    assert "EMAIL" not in redacted("Write to bo@one.invalidtld.")


def test_it_works_in_one_thread_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()

    def one(text: str, *rest: object) -> str:
        seen.add(threading.current_thread().name)
        return text

    monkeypatch.setattr(presidio, "_one", one)

    async def many() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(presidio.redacted([f"reply {number}"], (), ()))

    asyncio.run(many())
    assert len(seen) == 1 and threading.current_thread().name not in seen


def test_a_cell_sends_redacted_notes_and_keeps_a_redacted_reply(tmp_path: Path) -> None:
    def answer(call: Call) -> Answer:
        return answered(call, text="Bo, mail ana@corp.example.com.")

    record, (call,) = run(world(tmp_path, engine="presidio"), "redact", answer=answer)
    sent = call.messages[0].text
    assert "Ana told <PERSON> about" in sent and SECRET in sent and FREE in sent
    # Names stay in the reply.
    assert record.reply == "Bo, mail <EMAIL_ADDRESS>."
    assert record.extra["before"] == "Bo, mail ana@corp.example.com."
    assert record.verdicts[0].leaked is False


@pytest.mark.parametrize("limit", ["length", "time"])
def test_a_reply_that_presidio_cannot_go_through_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    text = "Ana is free. " * 10
    if limit == "length":
        monkeypatch.setattr(presidio, "MOST_CHARACTERS", len(text) - 1)
    else:
        find, replace, _ = presidio._engine("")
        monkeypatch.setattr(presidio, "_engine", lambda model: (find, replace, 0.0))

    def answer(call: Call) -> Answer:
        return answered(call, text=text)

    made = world(tmp_path, engine="presidio", on=("reply",))
    record, _ = run(made, "redact", answer=answer)
    assert record.verdicts[0].leaked is None and "Presidio" in record.verdicts[0].why
    assert record.reply == "" and record.extra["before"] == text and record.settled

    def cut(call: Call) -> Answer:
        return answered(call, text=text, outcome=Outcome.TRUNCATED)

    record, _ = run(made, "redact", answer=cut)
    assert record.verdicts[0].leaked is None and "truncated" in record.verdicts[0].why
    with pytest.raises(Unfit):
        redacted(text + "so")


def test_a_run_with_presidio_holds_no_loop_and_another_engine_scores_again_for_nothing(
    tmp_path: Path,
) -> None:
    job = {"models": ["sim-a"], "defences": ["redact"], "conditions": ["group"],
           "judges": ["exact"]}  # fmt: skip
    mine = Project(tmp_path, items=4, job=job, defences={"redact": {"on": ["reply"]}})
    first = mine.run_job()
    assert first.returncode == 0, first.stderr
    mine.write_job(job=job, defences={"redact": {"on": ["reply"], "engine": "presidio"}})
    second = mine.run_job()
    assert second.returncode == 0, second.stderr
    # The cells are open again, for what was said is blanked by another; the replies are there.
    assert "4 of 4 open cells" in second.stdout and " 0 calls sent" in second.stdout


# --- with a spaCy model --------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A tiny model, installed as a package as spaCy's own are: it knows one person and one city."""
    import spacy

    name, site = "en_tiny_for_tests", tmp_path / "site"
    pipeline = spacy.blank("en")
    ruler: Any = pipeline.add_pipe("entity_ruler")
    ruler.add_patterns(
        [
            {"label": "PERSON", "pattern": "Greta Lind"},
            {"label": "PERSON", "pattern": "Ana"},
            {"label": "GPE", "pattern": "Oslo"},
            {"label": "MONEY", "pattern": "300 euros"},
        ]
    )
    pipeline.meta.update(name="tiny_for_tests", version="1.2.3")
    (site / name).mkdir(parents=True)
    pipeline.to_disk(site / name / f"{name}-1.2.3")
    (site / name / "meta.json").write_bytes(
        (site / name / f"{name}-1.2.3" / "meta.json").read_bytes()
    )
    (site / name / "__init__.py").write_text(
        textwrap.dedent(
            """
            from spacy.util import load_model_from_init_py

            def load(**overrides):
                return load_model_from_init_py(__file__, **overrides)
            """
        )
    )
    installed(site, name, "1.2.3")
    monkeypatch.syspath_prepend(site)
    presidio._engine.cache_clear()
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def installed(site: Path, name: str, version: str) -> None:
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[spacy_models]\n{name} = {name}\n")


def test_a_model_finds_names_and_places_that_no_pattern_knows(model: str) -> None:
    text = "Greta Lind owes Ana 300 euros in Oslo; call +49 170 1234567."
    assert redacted(text) == text.replace("+49 170 1234567", "<PHONE_NUMBER>")
    # The owner's name stays, whatever finds it; Presidio's own list leaves sums alone.
    assert redacted(text, model=model) == (
        "<PERSON> owes Ana 300 euros in <LOCATION>; call <PHONE_NUMBER>."
    )


def test_the_version_of_the_model_is_part_of_the_fingerprint(tmp_path: Path, model: str) -> None:
    def texts() -> str:
        made = world(tmp_path, engine="presidio", spacy_model=model)
        return str(made.texts("redact", "group"))

    before = texts()
    assert "1.2.3" in before and before != str(
        world(tmp_path, engine="presidio").texts("redact", "group")
    )
    path = tmp_path / "site" / f"{model}-1.2.3.dist-info" / "METADATA"
    path.write_text(path.read_text().replace("1.2.3", "1.2.4"))
    assert "1.2.4" in texts()


def test_a_model_that_is_not_installed_is_told_with_the_way_to_get_it(
    tmp_path: Path, model: str
) -> None:
    told = load(tmp_path / "good", engine="presidio", spacy_model=model)
    assert told["redact"].spacy_model == model
    with pytest.raises(JobError) as caught:
        load(tmp_path / "bad", engine="presidio", spacy_model="en_core_web_none")
    message = str(caught.value)
    assert "defences.redact.spacy_model: the spaCy model 'en_core_web_none' is not" in message
    assert model in message and "python -m spacy download en_core_web_none" in message


def test_a_model_that_does_not_load_stops_with_its_name(tmp_path: Path, model: str) -> None:
    (tmp_path / "site" / model / "__init__.py").write_text("def load(**more):\n    1 / 0\n")
    with pytest.raises(JobError, match=f"spaCy cannot load the model '{model}': division"):
        redacted("Ana.", model=model)
    assert metadata.version(model) == "1.2.3"
