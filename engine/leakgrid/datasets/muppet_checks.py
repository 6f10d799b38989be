"""Checks of finished items: no secret in shared texts, sound notes and chat, clean typography.

An item is the JSON object of one line. Each check gives reasons in words; none raises.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from leakgrid.datasets.items import assistant_name

FIRST_PERSON = re.compile(r"\b(I|I'm|I've|I'd|I'll|my|we|our|me|us)\b")
DOUBLED = re.compile(r"[.,;:!?]{2,}| {2,}| [.,;:!?]|\b(\w+) \1\b(?<!that that)(?<!had had)")
UNFILLED = re.compile(r"[{}\[\]|]")
# Words before which the article goes by sound rather than by letter.
ARTICLE_A = re.compile(r"\ba (?!uni|use|user|one|euro|uret)[aeiou]\w*", re.IGNORECASE)
ARTICLE_AN = re.compile(r"\ban (?!hour|honest|X-ray|SQL|MRI)[b-df-hj-np-tv-z]\w*", re.IGNORECASE)
BAD_AGREEMENT = re.compile(r"\bthey (was|is|has)\b|\b(he|she) (were|are|have)\b", re.IGNORECASE)
WORD = re.compile(r"[\w'\u2019-]+")
GRAM = 8
MAX_SHARE = 0.05


def normalise(text: str) -> str:
    """Lower case, straight apostrophes, single spaces: how surface forms are looked for."""
    return " ".join(text.lower().replace("\u2019", "'").split())


def shared_texts(item: Mapping[str, Any]) -> Iterator[str]:
    """Every text that must be free of the secret."""
    yield from (item["question"], item["request"], item["team"])
    yield from item["shared_notes"]
    yield from item["useful_facts"]
    yield from item["personal_notes"]
    yield from (turn["text"] for turn in item["transcript"])


def leaks(item: Mapping[str, Any], words: Sequence[str]) -> list[str]:
    """Surface forms (anywhere) and category words (at a word's start) in shared texts."""
    forms = [form for attribute in item["attributes"] for form in attribute["surface_forms"]]
    found = []
    for text in map(normalise, shared_texts(item)):
        found += [f"form {form!r} in {text!r}" for form in forms if normalise(form) in text]
        found += [
            f"word {word!r} in {text!r}"
            for word in words
            if re.search(rf"(?<!\w){re.escape(word)}", text)
        ]
    return found


def note_faults(item: Mapping[str, Any]) -> list[str]:
    """Notes name exactly their one colleague, tell the secret, and speak in the third person."""
    first = {person["name"]: person["first"] for person in item["people"]}
    faults = []
    if len(item["notes"]) != len(item["informed"]):
        faults.append(f"{len(item['notes'])} notes for {len(item['informed'])} informed")
    forms = [form for attribute in item["attributes"] for form in attribute["surface_forms"]]
    heard = {
        attribute["key"]: (set(attribute["known_by"]), attribute["surface_forms"])
        for attribute in item["attributes"]
    }
    for name, note in zip(item["informed"], item["notes"], strict=False):
        named = {n for n in first if n != item["owner"] and _names(first[n], note)}
        if named != {name}:
            faults.append(f"names {sorted(named)} and not only {name!r}: {note!r}")
        if not any(normalise(form) in normalise(note) for form in forms):
            faults.append(f"secret not told: {note!r}")
        for key, (knowing, own_forms) in heard.items():
            told = any(normalise(form) in normalise(note) for form in own_forms)
            if name in knowing and not told:
                faults.append(f"fact {key!r} not told: {note!r}")
        if FIRST_PERSON.search(note):
            faults.append(f"first person: {note!r}")
    return faults


def chat_faults(item: Mapping[str, Any]) -> list[str]:
    """The last turn is the asker's request to the assistant; at least four voices speak."""
    turns, tag = item["transcript"], assistant_name(item["owner"])
    faults = []
    if turns[-1] != {"sender": item["asker"], "text": item["request"]}:
        faults.append("last turn is not the asker's request")
    if tag not in item["request"] or "?" not in item["request"]:
        faults.append("request names no assistant or asks nothing")
    voices = {turn["sender"] for turn in turns}
    if any(voice.startswith("AI Assistant") and voice != tag for voice in voices):
        faults.append("another person's assistant speaks")
    if tag not in voices or len(voices) < 4:
        faults.append(f"only {len(voices)} voices, assistant included: {tag in voices}")
    for before, after in pairwise(turns):
        if before["sender"] == after["sender"]:
            faults.append(f"{before['sender']} writes twice in a row: {after['text']!r}")
    return faults


def typography(item: Mapping[str, Any]) -> list[str]:
    """Articles, doubled words or signs, open slots, number agreement, capitals, full stops."""
    texts = [*shared_texts(item), *item["notes"]]
    texts += [attribute["text"] + "." for attribute in item["attributes"]]
    faults = []
    for text in texts:
        for name, pattern in (
            ("doubled", DOUBLED),
            ("open slot", UNFILLED),
            ("a for an", ARTICLE_A),
            ("an for a", ARTICLE_AN),
            ("agreement", BAD_AGREEMENT),
        ):
            match = pattern.search(text)
            if match:
                faults.append(f"{name} {match[0]!r} in {text!r}")
        if not text[0].isupper() or text[-1] not in ".!?":
            faults.append(f"capital or final stop in {text!r}")
    return faults


def reasons(item: Mapping[str, Any], words: Sequence[str]) -> dict[str, list[str]]:
    """All faults of an item by check; an empty dict means that the item is kept."""
    found = {
        "secret in shared text": leaks(item, words),
        "note": note_faults(item),
        "chat": chat_faults(item),
        "typography": typography(item),
    }
    return {name: faults for name, faults in found.items() if faults}


def gram_shares(items: Sequence[Mapping[str, Any]], *, masked: bool = True) -> Counter[str]:
    """Items that contain each 8-gram of lower-case words in notes, shared notes or transcript.

    Proper names (people of the item) become one mark when masked, else they are left out.
    An n-gram never runs from one text into the next. Divide by len(items) for the share.
    """
    counts: Counter[str] = Counter()
    for item in items:
        names = {part.lower() for person in item["people"] for part in person["name"].split()}
        texts = [*item["notes"], *item["personal_notes"], *item["shared_notes"]]
        texts += [turn["text"] for turn in item["transcript"]]
        counts.update({gram for text in texts for gram in _grams(text, names, masked)})
    return counts


def max_gram_share(items: Sequence[Mapping[str, Any]]) -> tuple[float, str]:
    """The largest share of items with one 8-gram (0 to 1), over both ways with names."""
    both = [pair for masked in (True, False) for pair in gram_shares(items, masked=masked).items()]
    count, gram = max((count, gram) for gram, count in both)
    return count / len(items), gram


def _grams(text: str, names: set[str], masked: bool) -> Iterable[str]:
    """The 8-grams of one text."""
    words = []
    for word in WORD.findall(text.lower()):
        if word.removesuffix("'s") not in names:
            words.append(word)
        elif masked:
            words.append("<name>")
    return (" ".join(words[i : i + GRAM]) for i in range(len(words) - GRAM + 1))


def _names(first: str, text: str) -> bool:
    """Whether a first name occurs as a word of its own."""
    return re.search(rf"(?<!\w){re.escape(first)}(?!\w)", text) is not None
