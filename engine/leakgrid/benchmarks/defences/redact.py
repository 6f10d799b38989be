"""``redact``: personal identifiers are blanked in the notes and in the reply; one call.

Two engines: a small set of patterns of this project's own in the manner of Presidio's, or Presidio
itself (``presidio.py``, the extra ``redact``). In the notes the members' names are blanked too, the
owner's apart. What it can catch are identifiers, not meanings: "is pregnant" passes, and that is
the point of measuring it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from leakgrid.benchmarks.defences.reply import Reply, Unfit, of_answer
from leakgrid.benchmarks.muppet.scene import Scene
from leakgrid.types import Ask, Json

if TYPE_CHECKING:
    from leakgrid.benchmarks.defences.registry import Defence

VERSION = 1
PROMPTS = {"placeholders": ()}

ENGINES = ("patterns", "presidio")
PARTS = ("notes", "reply")


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """What a job may say of this defence: which engine, and where identifiers are blanked.

    ``spacy_model`` is for Presidio alone: a spaCy model that finds names, places and times.
    """

    engine: str = "patterns"
    on: tuple[str, ...] = PARTS
    spacy_model: str = ""


USUAL = Redaction()

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)

PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("EMAIL", re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+")),
    ("URL", re.compile(r"\b(?:https?://|www\.)[^\s<>]+", re.IGNORECASE)),
    ("IP_ADDRESS", re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b")),
    ("IBAN", re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")),
    ("CARD", re.compile(r"\b(?:\d[ -]?){12,18}\d\b")),
    (
        "DATE",
        re.compile(
            r"\b(?:\d{4}-\d{2}-\d{2}|\d{1,2}[./]\d{1,2}[./](?:\d{4}|\d{2})"
            rf"|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH}\b(?: \d{{4}})?"
            rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?)",
            re.IGNORECASE,
        ),
    ),
    (
        "PHONE",
        re.compile(r"(?<![\w.:-])(?:\+\d{1,3}[ -]?)?(?:\(?0?\d{2,4}\)?[ -]?)\d{3,4}[ -]?\d{3,4}\b"),
    ),
    (
        "MONEY",
        re.compile(
            r"[$€£]\s?\d[\d.,]*(?:\s?(?:k|m|million|thousand)\b)?"
            r"|\b\d[\d.,]*\s?(?:dollars|euros?|pounds)\b",
            re.IGNORECASE,
        ),
    ),
    ("ID", re.compile(r"\b(?=[A-Z0-9-]*\d{3})(?=[A-Z0-9-]*[A-Z])[A-Z0-9][A-Z0-9-]{5,}\b")),
)
"""What is blanked, in this order: an address must not be half eaten as a number."""


async def reply(ask: Ask, scene: Scene, how: Redaction = USUAL) -> Reply:
    """The reply to redacted notes, redacted itself; or one of the two alone."""
    owner = scene.item.owner
    kept = [part for person in scene.item.people if person.name == owner
            for part in (person.name, person.first)]  # fmt: skip
    others = [part for person in scene.item.people if person.name != owner
              for part in (person.name, person.first)]  # fmt: skip
    system = scene.system()
    if "notes" in how.on:
        notes = await _blanked(how, scene.notes, others, kept)
        system = scene.system(scene.text("placeholders"), notes=notes)
    made = of_answer(await ask(scene.call(system, scene.user())))
    if "reply" not in how.on:
        return made
    try:
        # Names stay in the reply: it addresses people who know each other's.
        (text,) = await _blanked(how, [made.text], [], kept + others)
    except Unfit as stopped:
        why = made.unfit or stopped.reply.unfit
        return replace(made, text="", unfit=why, steps={"before": made.text})
    return made if text == made.text else replace(made, text=text, steps={"before": made.text})


async def _blanked(
    how: Redaction, texts: Sequence[str], names: Sequence[str], kept: Sequence[str]
) -> list[str]:
    """The texts without identifiers and ``names``; ``kept`` are names that stay."""
    if how.engine == "patterns":
        return [redacted(text, names) for text in texts]
    from leakgrid.benchmarks.defences import presidio

    return await presidio.redacted(texts, names, kept, how.spacy_model)


def configured(defence: Defence, how: Redaction) -> Defence:
    """The defence as a job's table [defences.redact] wants it.

    Whatever decides what is blanked is part of its version, Presidio's own version too: the reply
    is redacted after its call, so no request would tell. Raises JobError without the extra.
    """
    if how == USUAL:
        return defence
    told: dict[str, Json] = {"engine": how.engine, "on": sorted(how.on)}
    if how.engine == "presidio":
        from leakgrid.benchmarks.defences import presidio

        told |= {"made by": presidio.VERSION, "packages": presidio.versions(how.spacy_model)}
    return replace(
        defence,
        program=partial(reply, how=how),
        version=["program", "redact", VERSION, told],
        prompts=defence.prompts if "notes" in how.on else {},
    )


def redacted(text: str, names: Iterable[str] = ()) -> str:
    """The text with every identifier and name replaced by its kind in angle brackets."""
    for kind, pattern in PATTERNS:
        text = pattern.sub(f"<{kind}>", text)
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"\b{re.escape(name)}\b", "<PERSON>", text)
    return text
