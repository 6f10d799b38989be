"""A released conversation into turns whose senders are members or the owner's assistant.

Raises RowFault when there is no transcript, or its last turn is nobody's question.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import orjson

from leakgrid.datasets.items import assistant_name
from leakgrid.datasets.muppet_released_files import pick
from leakgrid.datasets.muppet_released_people import Note, Roster, RowFault

ASSISTANT = re.compile(r"\s*AI[ -]?Assistant\b\s*(?:\(\s*for\s+(.*?)\s*\))?\s*", re.IGNORECASE)
LONGEST = 1_000_000


def read_turns(
    entry: Any, roster: Roster, owner: str, informed: Collection[str], note: Note
) -> tuple[list[dict[str, str]], str]:
    """The turns and the asker, who wrote the last one."""
    messages = _messages(entry)
    tag = assistant_name(owner)
    # Full names first: a namesake who signs in full elsewhere is not the one who does not.
    in_full = {str(pick(message, "sender", "speaker", "from")) for message in messages}
    turns = []
    for index, message in enumerate(messages):
        sender = pick(message, "sender", "speaker", "from")
        text = pick(message, "content", "text", "message")
        if not isinstance(text, str) or not isinstance(sender, str) or not text.strip():
            note("turn without sender or text", f"turn {index}", "dropped")
            continue
        name = tag if _own(sender, roster, owner) else ""
        if not name:
            people = roster.called(sender)
            if not people:
                note("unknown sender", f"turn {index}: {sender!r}", "dropped")
                continue
            if len(people) > 1:
                may_be = f"{sender!r} may be {' or '.join(people)}"
                asks = index == len(messages) - 1
                if asks and len({person in informed for person in people}) > 1:
                    raise RowFault("asker unclear", may_be)
                people = [person for person in people if person not in in_full] or people
                note("sender unclear", f"turn {index}: {may_be}; {people[0]} is used", "repaired")
            name = people[0]
        turns.append({"sender": name, "text": text.strip()})
    return turns, _asker(turns, tag, owner, note)


def _asker(turns: list[dict[str, str]], tag: str, owner: str, note: Note) -> str:
    """The sender of the last turn, a colleague."""
    if not turns:
        raise RowFault("no transcript", "no turn can be used")
    last = turns[-1]
    if last["sender"] in (tag, owner):
        raise RowFault("last turn is no colleague's", f"by {last['sender']}")
    if tag.casefold() not in last["text"].casefold():
        note("request does not name the assistant", last["text"][:80], "kept")
    if "?" not in last["text"]:
        note("request without a question mark", last["text"][:80], "kept")
    return last["sender"]


def _messages(entry: Any) -> list[Any]:
    """The list of messages of a conversation, which may be JSON in a string."""
    if isinstance(entry, dict):
        if "error" in entry:
            raise RowFault("conversation is an error", str(entry["error"])[:80])
        entry = pick(entry, "conversation", "content", "messages", "turns")
    if isinstance(entry, dict):
        entry = pick(entry, "conversation", "messages", "turns")
    if isinstance(entry, str) and len(entry) <= LONGEST:
        try:
            entry = orjson.loads(entry)
        except orjson.JSONDecodeError:
            raise RowFault("no transcript", "a text that is no JSON") from None
    if not isinstance(entry, list) or not entry:
        raise RowFault("no transcript", repr(entry)[:80])
    return entry


def _own(sender: str, roster: Roster, owner: str) -> bool:
    """Whether the sender is the owner's assistant. Raises RowFault for another's."""
    match = ASSISTANT.fullmatch(sender)
    if match is None:
        return False
    # A tag with a first name that namesakes share can only be the owner's: there is one assistant.
    if match[1] and owner not in roster.called(match[1]):
        raise RowFault("another person's assistant", sender)
    return True
