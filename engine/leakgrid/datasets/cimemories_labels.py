"""Contextual-integrity labels in this project's form: JSON Lines, shares of samples by persona.

One line for each (profile, context, attribute) that any sample listed; a pair that was labelled
and listed nothing has one line without attribute, so that it differs from one never labelled.
Raises DatasetError naming file, line, key and reason.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from leakgrid.datasets.cimemories import Profiles
from leakgrid.datasets.muppet_lines import Line
from leakgrid.outcomes import DatasetError

PERSONAS = ("fundamentalist", "pragmatic", "unconcerned")
COMBINED = "combined"
TOLERANCE = 1e-9
LINE_KEYS = ("profile", "context")
OPTIONAL_KEYS = ("attribute", "shares", "reason")
_SORTED = orjson.OPT_SORT_KEYS
_NUMBERS = (float, int)

LabelRow: TypeAlias = tuple[str, str, str, str, float, float]
"""profile, context, attribute, persona, necessary share, inappropriate share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelLine:
    """One line. ``shares``: persona (or "combined" alone) to (necessary, inappropriate), 0..1.

    ``attribute`` is "" where a labelled context lists nothing. The two shares of one persona may
    sum to more than 1: a sample may list an attribute twice.
    """

    profile: str
    context: str
    attribute: str = ""
    shares: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Labels:
    """A label file: its lines, and 16 bytes (blake2b-128) over what they decide."""

    lines: tuple[LabelLine, ...]
    digest: bytes = field(repr=False)

    @property
    def rows(self) -> list[LabelRow]:
        """One row for each attribute and persona, in file order, as a plan's payload has them."""
        return [
            (line.profile, line.context, line.attribute, persona, *pair)
            for line in self.lines
            for persona, pair in line.shares.items()
        ]

    @property
    def labelled(self) -> frozenset[tuple[str, str]]:
        """Every (profile, context) that was labelled, also those that list nothing."""
        return frozenset((line.profile, line.context) for line in self.lines)


def load_labels(path: Path, profiles: Profiles) -> Labels:
    """All labels of a file, checked against the profiles they are about. Raises DatasetError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DatasetError(
            f"{path}: cannot be read ({error.strerror}); allowed: a JSON-lines file of labels; "
            "check the path, or run a job of the benchmark ci-labels"
        ) from error
    known = {profile.id: {m.key for m in profile.memories} for profile in profiles.profiles}
    contexts = {(p.id, c.id) for p in profiles.profiles for c in profiles.contexts_of(p.id)}
    lines: list[LabelLine] = []
    seen: dict[tuple[str, str, str], int] = {}
    for number, text in enumerate(data.split(b"\n"), start=1):
        if not text.strip():
            continue
        at = Line(path, number)
        line = _line(at, text)
        _belongs(at, line, known, contexts)
        identity = (line.profile, line.context, line.attribute)
        if identity in seen:
            found = f"a second line for {' / '.join(identity)}, as line {seen[identity]}"
            at.fail("(whole line)", found, "one line for each", "remove one of the two")
        seen[identity] = number
        lines.append(line)
    for identity, number in seen.items():
        if not identity[2] and any(seen.get((*identity[:2], key)) for key in known[identity[0]]):
            Line(path, number).fail(
                "attribute",
                f"none, while other lines list attributes of {' / '.join(identity[:2])}",
                "a line without attribute only where nothing is listed",
                "remove this line",
            )
    if not lines:
        raise DatasetError(
            f"{path}: found no labels; allowed: one JSON object a line; "
            "run a job of the benchmark ci-labels, or import a released label file"
        )
    return Labels(tuple(lines), labels_digest(lines))


def write_labels(path: Path, lines: Iterable[LabelLine]) -> int:
    """Write lines in the order given, whole or not at all; the number written."""
    bodies = [_written(line) for line in lines]
    write_whole(path, "".join(f"{body}\n" for body in bodies))
    return len(bodies)


def write_whole(path: Path, text: str) -> None:
    """Write a file by way of another name: a reader never meets half of it."""
    temporary = path.with_name(path.name + ".part")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        os.replace(temporary, path)
    except OSError as error:
        raise DatasetError(
            f"{path}: cannot be written ({error.strerror}); allowed: a file in an existing "
            "folder; correct --out"
        ) from error


def labels_digest(lines: Iterable[LabelLine]) -> bytes:
    """16 bytes over identities and shares, whatever the order; reasons decide nothing."""
    content = {
        (line.profile, line.context, line.attribute): (line.shares or None) for line in lines
    }
    body = orjson.dumps([[*key, content[key]] for key in sorted(content)], option=_SORTED)
    return hashlib.blake2b(body, digest_size=16).digest()


def weighted(
    shares: Mapping[str, tuple[float, float]], weights: Mapping[str, float]
) -> tuple[float, float]:
    """Necessary and inappropriate value: sum of weight times share; "combined" weighs 1.

    Summed in the released order, in which 0.26 + 0.64 + 0.10 is exactly 1.
    """
    if COMBINED in shares:
        return shares[COMBINED]
    pairs = [(weights.get(persona, 0.0), shares.get(persona, (0.0, 0.0))) for persona in PERSONAS]
    return sum(w * pair[0] for w, pair in pairs), sum(w * pair[1] for w, pair in pairs)


def decided(
    shares: Mapping[str, tuple[float, float]], weights: Mapping[str, float], threshold: float
) -> str:
    """The set of an attribute: necessary, inappropriate, or ambiguous (neither, or a tie)."""
    necessary, inappropriate = weighted(shares, weights)
    least = threshold - TOLERANCE
    if necessary >= least and (inappropriate < least or necessary > inappropriate):
        return "necessary"
    if inappropriate >= least and (necessary < least or inappropriate > necessary):
        return "inappropriate"
    return "ambiguous"


def _line(at: Line, text: bytes) -> LabelLine:
    """One line's JSON as a LabelLine."""
    try:
        raw = _object(text)
    except (ValueError, RecursionError) as error:
        allowed = "one JSON object a line"
        at.fail("(whole line)", f"text that is not JSON ({error})", allowed, "correct the line")
    at.keys(raw, "", LINE_KEYS, OPTIONAL_KEYS)
    profile, context = (at.text(raw[key], key) for key in LINE_KEYS)
    reason = at.text(raw["reason"], "reason") if "reason" in raw else ""
    if ("attribute" in raw) != ("shares" in raw):
        lacking, present = (
            ("shares", "attribute") if "attribute" in raw else ("attribute", "shares")
        )
        at.fail(lacking, f"no such key beside {present}", "both or neither", "add it")
    if "attribute" not in raw:
        return LabelLine(profile=profile, context=context, reason=reason)
    return LabelLine(
        profile=profile,
        context=context,
        attribute=at.text(raw["attribute"], "attribute"),
        shares=_shares(at, raw["shares"]),
        reason=reason,
    )


def _shares(at: Line, value: object) -> dict[str, tuple[float, float]]:
    """Shares of all three personas, or of "combined" alone."""
    if isinstance(value, dict) and COMBINED in value:
        raw = at.keys(value, "shares", (COMBINED,))
    else:
        # A persona that is left out would count as "never listed", which nobody has found.
        raw = at.keys(value, "shares", PERSONAS)
    return {name: _pair(at, f"shares.{name}", raw[name]) for name in raw}


def _pair(at: Line, key: str, value: object) -> tuple[float, float]:
    """[necessary, inappropriate], each 0..1."""
    if type(value) is list and len(value) == 2:
        necessary, inappropriate = value
        # The common case of some 100,000 pairs a file; NaN fails both comparisons.
        if type(necessary) in _NUMBERS and type(inappropriate) in _NUMBERS:
            if 0 <= necessary <= 1 and 0 <= inappropriate <= 1:
                return float(necessary), float(inappropriate)
    if not isinstance(value, list) or len(value) != 2:
        at.fail(key, repr(value), "[necessary, inappropriate]", "write two shares")
    for share in value:
        number = isinstance(share, int | float) and not isinstance(share, bool)
        if not number or not math.isfinite(share) or not 0 <= share <= 1 + TOLERANCE:
            at.fail(key, repr(share), "a share from 0 to 1", "correct it")
    return min(float(value[0]), 1.0), min(float(value[1]), 1.0)


def _belongs(
    at: Line,
    line: LabelLine,
    known: Mapping[str, set[str]],
    contexts: set[tuple[str, str]],
) -> None:
    """Fail for a profile, context or attribute that the profiles file does not have."""
    fix = "use the label file that belongs to this profiles file"
    if line.profile not in known:
        at.fail("profile", repr(line.profile), f"one of {_some(known)}", fix)
    if (line.profile, line.context) not in contexts:
        own = [context for profile, context in contexts if profile == line.profile]
        at.fail("context", repr(line.context), f"one of {_some(sorted(own))}", fix)
    if line.attribute and line.attribute not in known[line.profile]:
        allowed = f"an attribute of {line.profile}"
        at.fail("attribute", repr(line.attribute), allowed, fix)


def _written(line: LabelLine) -> str:
    """A line as JSON."""
    raw: dict[str, Any] = {"profile": line.profile, "context": line.context}
    if line.attribute:
        raw |= {"attribute": line.attribute, "shares": {k: list(v) for k, v in line.shares.items()}}
    if line.reason:
        raw["reason"] = line.reason
    return json.dumps(raw, ensure_ascii=False, allow_nan=False)


def _object(text: bytes) -> Any:
    """A line's JSON. ValueError for what is none and for a key that stands twice.

    orjson is ten times as fast and keeps the last of two equal keys without a word. Where no
    quote is escaped, each text has two, so that counting them shows whether one was lost.
    """
    try:
        raw = orjson.loads(text)
        texts = len(raw) + sum(isinstance(value, str) for value in raw.values())
        if b"\\" not in text and text.count(b'"') == 2 * (texts + len(raw.get("shares", ()))):
            return raw
    except (orjson.JSONDecodeError, AttributeError, TypeError):
        pass
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; ValueError for a key that stands twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in an object")
    return found


def _some(names: Iterable[str]) -> str:
    """The first few names."""
    listed = list(names)
    return ", ".join(listed[:6]) + (", ..." if len(listed) > 6 else "")
