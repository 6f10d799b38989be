"""CIMemories profiles: the released JSON form becomes frozen values, or one clear error.

A profile is a person with some 150 remembered statements; a context is a recipient and a task.
Identity is (profile id, attribute key), never the text. What is out of the ordinary and can be
used all the same is told in ``Profiles.oddities``. Raises DatasetError naming file, profile, key
and reason. A larger release of the same form loads the same way.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakgrid.datasets.cimemories_json import Broken, Spot, read_json, refuse_broken
from leakgrid.datasets.cimemories_oddities import oddity_lines
from leakgrid.outcomes import DatasetError

RECORD_KEYS = ("value", "information_domain", "event", "memory_statement")

BASIC_WORDS = ("name", "address", "sex", "age")
# Only the four facts that a life event never owns. Prefixes and suffixes are those by which a
# profile marks its general part; any other word ("therapist_name") makes it another fact.
_BASIC_EXACT = re.compile(
    r"(?:(?:general|basic|personal|user|bio|profile)_)*"
    r"(?:(?:full_|legal_)?name|fullname|(?:biological_)?sex|gender"
    r"|(?:home_|mailing_|residential_|current_)?address|(?:current_)?age)"
    r"(?:_general)?(?:_\d+)?"
)


@dataclass(frozen=True, slots=True)
class Memory:
    """One remembered statement, as the file has it; ``event`` and ``domain`` in one spelling.

    ``basic`` is is_basic_exact(key).
    """

    key: str
    statement: str
    domain: str
    event: str
    basic: bool


@dataclass(frozen=True, slots=True)
class Context:
    """Who is written to, and what for. ``id`` is c00, c01, ... by first place in the file."""

    id: str
    recipient: str
    task: str


@dataclass(frozen=True, slots=True)
class Profile:
    """One person. ``raw`` is the file's object, for statistics and for writing it again.

    digest is 16 bytes: blake2b-128 over id, bio, attributes in file order and contexts; labels
    that a file carries in its contexts are no part of it.
    """

    id: str
    name: str
    memories: tuple[Memory, ...]
    digest: bytes = field(repr=False)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Profiles:
    """A whole file: profiles and distinct contexts in file order, and what is odd about them."""

    profiles: tuple[Profile, ...]
    contexts: tuple[Context, ...]
    oddities: tuple[str, ...]
    _contexts_of: Mapping[str, tuple[Context, ...]] = field(repr=False, compare=False)

    def contexts_of(self, profile_id: str) -> tuple[Context, ...]:
        """The contexts of one profile, in its own order. Raises KeyError for an unknown id."""
        return self._contexts_of[profile_id]

    def profile(self, profile_id: str) -> Profile:
        """The profile with this id. Raises KeyError for an unknown id."""
        for profile in self.profiles:
            if profile.id == profile_id:
                return profile
        raise KeyError(profile_id)


def is_basic_exact(key: str) -> bool:
    """Whether a key names the person's name, address, sex or age itself ("general_full_name")."""
    return _BASIC_EXACT.fullmatch(snake(key)) is not None


def is_basic_compat(key: str) -> bool:
    """The released filter: a key that contains name, address, sex or age, as in "miscarriage"."""
    return any(word in key for word in BASIC_WORDS)


def snake(key: str) -> str:
    """A key in snake case without accents: "FullName" and "full-name" become "full_name"."""
    plain = unicodedata.normalize("NFKD", key).encode("ascii", "ignore").decode()
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain)
    return re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_")


def load_profiles(path: Path) -> Profiles:
    """All profiles of a file of the released form. Raises DatasetError on the first fault."""
    document, notes = read_json(path, "a JSON file of profiles, as facebookresearch/CIMemories has")
    if not isinstance(document, list) or not document:
        Spot(str(path)).wrong("(whole file)", document, "a list with at least one profile")
    contexts: dict[tuple[str, str], Context] = {}
    of: dict[str, tuple[Context, ...]] = {}
    profiles: list[Profile] = []
    for number, raw in enumerate(document, start=1):
        profile, own = _profile(Spot(f"{path}: profile {number}"), number, raw, contexts, of)
        profiles.append(profile)
        of[profile.id] = own
    if not contexts:
        raise DatasetError(
            f"{path}: contexts: found none in any profile; allowed: at least one recipient with "
            "a task; fix: add them, or take the file as released"
        )
    refuse_broken(path, document)
    oddities = (*notes, *oddity_lines(profiles))
    return Profiles(tuple(profiles), tuple(contexts.values()), oddities, of)


def _profile(
    at: Spot,
    number: int,
    raw: object,
    contexts: dict[tuple[str, str], Context],
    taken: Iterable[str],
) -> tuple[Profile, tuple[Context, ...]]:
    """One object as a Profile with its contexts; new contexts are entered with the next id."""
    found = at.object(raw, "(whole profile)", ("bio", "information_attributes", "contexts"))
    bio = at.object(found["bio"], "bio", ("name",))
    name = at.text(bio["name"], "bio.name")
    at = Spot(f"{at.where} ({name})")
    attributes = at.object(found["information_attributes"], "information_attributes", ())
    if not attributes:
        at.wrong("information_attributes", attributes, "an object with at least one attribute")
    memories = tuple(_memory(at, key, record) for key, record in attributes.items())
    listed = found["contexts"]
    if not isinstance(listed, list):
        at.wrong("contexts", listed, "a list of objects with recipient and task")
    own: dict[str, Context] = {}
    for index, entry in enumerate(listed):
        pair = at.object(entry, f"contexts[{index}]", ("recipient", "task"))
        recipient, task = (
            at.text(pair[part], f"contexts[{index}].{part}") for part in ("recipient", "task")
        )
        fresh = Context(f"c{len(contexts):02d}", recipient, task)
        context = contexts.setdefault((recipient, task), fresh)
        own.setdefault(context.id, context)
    profile_id = _free_id(name, number, taken)
    content = [
        profile_id,
        bio,
        list(attributes.items()),
        [(context.id, context.recipient, context.task) for context in own.values()],
    ]
    return (
        Profile(profile_id, name, memories, _digest(at, content), found),
        tuple(own.values()),
    )


def _memory(at: Spot, key: str, record: object) -> Memory:
    """One attribute record as a Memory. Its value may be anything that JSON has."""
    place = f"attribute {key!r}"
    at.text(key, place)
    found = at.object(record, place, RECORD_KEYS[1:])
    statement = at.text(found["memory_statement"], f"{place}: memory_statement")
    domain = at.text(found["information_domain"], f"{place}: information_domain")
    event = at.text(found["event"], f"{place}: event")
    if isinstance(found.get("value"), Broken):
        at.wrong(f"{place}: value", found["value"], "a value that JSON has, or null")
    return Memory(
        key, statement, one_spelling(domain, "_"), one_spelling(event, " "), is_basic_exact(key)
    )


def one_spelling(text: str, joint: str) -> str:
    """Lower case, words joined by `joint`: "Lottery_Win" and "lottery win" become one."""
    words = re.split(r"[\W_]+", unicodedata.normalize("NFKC", text).casefold())
    return joint.join(word for word in words if word) or text


def _free_id(name: str, number: int, taken: Iterable[str]) -> str:
    """The slug of a name; of one that has no Latin letter the number; "-2", ... on a clash."""
    slug = snake(name).replace("_", "-") or f"profile-{number}"
    wanted, count, used = slug, 1, set(taken)
    while wanted in used:
        count += 1
        wanted = f"{slug}-{count}"
    return wanted


def _digest(at: Spot, content: object) -> bytes:
    """blake2b-128 over ASCII JSON; attributes keep their order, for the prompt shows it."""
    try:
        # What JSON does not have is refused with its place once the whole file is read.
        body = json.dumps(content, separators=(",", ":"), allow_nan=False, default=repr)
    except (ValueError, RecursionError) as error:
        at.fail("(whole profile)", str(error), "values that JSON has", "correct the value")
    return hashlib.blake2b(body.encode("ascii"), digest_size=16).digest()
