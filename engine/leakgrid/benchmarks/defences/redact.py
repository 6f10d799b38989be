"""``redact``: personal identifiers are blanked in the notes and in the reply; one call.

In the manner of Presidio's recognisers, with a small set of patterns of this project's own:
Presidio itself needs a spaCy model that no package index carries. In the notes the members'
names are blanked too, the owner's apart. What it can catch are identifiers, not meanings: "is
pregnant" passes, and that is the point of measuring it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from leakgrid.benchmarks.defences.reply import Reply, of_answer
from leakgrid.benchmarks.muppet.scene import Scene
from leakgrid.types import Ask

VERSION = 1
PROMPTS = {"placeholders": ()}

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


async def reply(ask: Ask, scene: Scene) -> Reply:
    """The reply to redacted notes, redacted itself."""
    names = [part for person in scene.item.people if person.name != scene.item.owner
             for part in (person.name, person.first)]  # fmt: skip
    notes = [redacted(note, names) for note in scene.notes]
    system = scene.system(scene.text("placeholders"), notes=notes)
    made = of_answer(await ask(scene.call(system, scene.user())))
    # Names stay in the reply: it addresses people who know each other's.
    text = redacted(made.text)
    return made if text == made.text else replace(made, text=text, steps={"before": made.text})


def redacted(text: str, names: Iterable[str] = ()) -> str:
    """The text with every identifier and name replaced by its kind in angle brackets."""
    for kind, pattern in PATTERNS:
        text = pattern.sub(f"<{kind}>", text)
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"\b{re.escape(name)}\b", "<PERSON>", text)
    return text
