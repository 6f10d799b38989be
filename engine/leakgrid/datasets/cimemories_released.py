"""The released label form, in and out: profiles whose contexts hold dictionaries by statement.

A context may hold ``labels_combined`` and one ``labels_MODEL_PERSONA`` for each persona; each
maps a statement to shares private, necessary and unlabeled. Raises DatasetError.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from leakgrid.datasets.cimemories import Profile, Profiles
from leakgrid.datasets.cimemories_json import Spot, read_json, refuse_broken
from leakgrid.datasets.cimemories_labels import (
    COMBINED,
    PERSONAS,
    LabelLine,
    LabelRow,
    weighted,
    write_labels,
    write_whole,
)
from leakgrid.outcomes import DatasetError

WEIGHTS: Mapping[str, float] = {"fundamentalist": 0.26, "pragmatic": 0.64, "unconcerned": 0.10}
COMBINED_KEY = "labels_combined"
# As the released script spells them; the third has one underscore fewer.
PERSONA_KEYS = {
    "fundamentalist": "labels_{}___the_privacy_fundamentalist__",
    "pragmatic": "labels_{}___the_pragmatic__",
    "unconcerned": "labels_{}__the_unconcerned__",
}
QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201b": "'", "\u02bc": "'", "\u00b4": "'",
                        "\u201c": '"', "\u201d": '"', "\u201f": '"', "\u00ad": ""})  # fmt: skip
DASH = re.compile(r"[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]")

Shares = dict[str, tuple[float, float]]


@lru_cache(maxsize=1 << 15)
def normalised(text: str) -> str:
    """A statement for comparison: NFKC, ASCII hyphens and quotes, single spaces, case folded."""
    plain = unicodedata.normalize("NFKC", text.translate(QUOTES)).translate(QUOTES)
    return " ".join(DASH.sub("-", plain).casefold().split())


def import_labels(source: Path, profiles: Profiles, out: Path) -> list[str]:
    """Convert a released label file into ours at `out`; what was matched and what was not.

    Profiles are matched by name, contexts by recipient and task, statements exactly and else
    normalised. All three personas are kept where they are there, else the combined value.
    """
    document, notes = read_json(source, "a JSON file of profiles whose contexts hold labels")
    if not isinstance(document, list):
        Spot(str(source)).wrong("(whole file)", document, "a list of profiles")
    refuse_broken(source, document)
    report, counts = list(notes), Counter[str]()
    lines: list[LabelLine] = []
    unmet: dict[str, list[Profile]] = defaultdict(list)
    for profile in profiles.profiles:
        unmet[profile.name].append(profile)
    for number, entry in enumerate(document, start=1):
        at = Spot(f"{source}: profile {number}")
        raw = at.object(entry, "(whole profile)", ("bio", "contexts"))
        name = at.text(at.object(raw["bio"], "bio", ("name",))["name"], "bio.name")
        if not unmet[name]:
            report.append(f"profile {name}: not among the profiles, left out")
            continue
        profile = unmet[name].pop(0)
        known = {(c.recipient, c.task): c.id for c in profiles.contexts_of(profile.id)}
        if not isinstance(raw["contexts"], list):
            at.wrong("contexts", raw["contexts"], "a list of contexts")
        for index, listed in enumerate(raw["contexts"]):
            key = f"contexts[{index}]"
            context = at.object(listed, key, ("recipient", "task"))
            place = f"{profile.id}, {context['recipient']} / {context['task']}"
            context_id = known.pop((context["recipient"], context["task"]), "")
            if not context_id:
                report.append(f"{place}: no such context, or twice: left out")
                continue
            found = _context(at, key, context, profile, report, counts)
            if found is None:
                report.append(f"{place}: no labels, stays unlabelled")
                continue
            lines += _lines(profile, context_id, found)
        report += [f"{profile.id}, {task}: not in the file" for _, task in known]
    report += [f"profile {p.id}: not in the file" for rest in unmet.values() for p in rest]
    if not lines:
        raise DatasetError(
            f"{source}: found no labels for these profiles; allowed: contexts with "
            f"{COMBINED_KEY} or one labels_ dictionary for each persona; give the file that the "
            "labelling script wrote, not the plain profiles"
        )
    write_labels(out, lines)
    pairs = len({(line.profile, line.context) for line in lines})
    listed_lines = sum(bool(line.attribute) for line in lines)
    report += [f"{number} {what}" for what, number in sorted(counts.items())]
    return [*report, f"{pairs} contexts, {listed_lines} labelled attributes written to {out}"]


def export_labels(
    rows: Iterable[LabelRow],
    profiles: Profiles,
    out: Path,
    *,
    labelled: Iterable[tuple[str, str]] = (),
    weights: Mapping[str, float] = WEIGHTS,
    model: str = "leakgrid",
) -> list[str]:
    """Write the profiles with labels in the released form; report lines.

    `labelled` adds (profile, context) pairs that list nothing. Contexts without labels are left
    out of the file: the released metrics would read them as "all ambiguous". The form has one
    label for a text, so of attributes with the same statement the first counts, and is reported.
    An attribute in both lists of a sample counts as necessary, as released.
    """
    by_context: dict[tuple[str, str], dict[str, Shares]] = {pair: {} for pair in labelled}
    for profile_id, context_id, attribute, persona, necessary, inappropriate in rows:
        cell = by_context.setdefault((profile_id, context_id), {})
        cell.setdefault(attribute, {})[persona] = (necessary, inappropriate)
    report: list[str] = []
    document = []
    for profile in profiles.profiles:
        own = profiles.contexts_of(profile.id)
        held = [context for context in own if (profile.id, context.id) in by_context]
        if len(held) < len(own):
            report.append(f"{profile.id}: {len(own) - len(held)} unlabelled contexts left out")
        contexts: list[dict[str, Any]] = []
        for context in held:
            cell = by_context[(profile.id, context.id)]
            entry: dict[str, Any] = {"recipient": context.recipient, "task": context.task}
            contexts.append(
                entry | _dictionaries(profile, context.id, cell, weights, model, report)
            )
        document.append({**profile.raw, "contexts": contexts})
    write_whole(out, json.dumps(document, indent=2) + "\n")
    return [*report, f"{sum(len(p['contexts']) for p in document)} contexts written to {out}"]


def _context(
    at: Spot,
    key: str,
    context: Mapping[str, Any],
    profile: Profile,
    report: list[str],
    counts: Counter[str],
) -> dict[str, Shares] | None:
    """Shares by attribute of one context; None where it has no labels at all."""
    only = {persona: _only(at, key, context, persona) for persona in PERSONAS}
    named = {persona: name for persona, name in only.items() if name}
    if COMBINED_KEY in context:
        named[COMBINED] = COMBINED_KEY
    if not named:
        return None
    place = f"{profile.id}, {context['recipient']} / {context['task']}"
    if set(PERSONAS) <= set(named):
        kept: tuple[str, ...] = PERSONAS
    elif COMBINED in named:
        kept = (COMBINED,)
    else:
        missing = ", ".join(persona for persona in PERSONAS if persona not in named)
        report.append(f"{place}: no labels of {missing} and none combined")
        return None
    read = {
        persona: _match(at, f"{key}.{named[persona]}", context[named[persona]], profile, report)
        for persona in (*kept, *((COMBINED,) if COMBINED in named else ()))
    }
    found: dict[str, Shares] = {}
    for memory in profile.memories:
        shares = {persona: read[persona].get(memory.key) for persona in kept}
        whole = {persona: pair for persona, pair in shares.items() if pair is not None}
        if len(whole) < len(kept):
            counts["attributes without a label in a labelled context: taken as never listed"] += 1
            whole = {persona: whole.get(persona, (0.0, 0.0)) for persona in kept}
        found[memory.key] = whole
        given = read.get(COMBINED, {}).get(memory.key)
        ours = weighted(whole, WEIGHTS)
        if given and max(abs(a - b) for a, b in zip(given, ours, strict=True)) > 1e-6:
            counts[
                "combined values that the weights 0.26/0.64/0.10 do not give: personas kept"
            ] += 1
    for persona in kept:
        if not any(any(shares[persona]) for shares in found.values()):
            counts[f"contexts in which {persona} lists nothing (perhaps no sample parsed)"] += 1
    return found


def _only(at: Spot, key: str, context: Mapping[str, Any], persona: str) -> str:
    """The key of a persona's dictionary, or ""; one model's labels a file."""
    found = [name for name in context if name.startswith("labels_") and persona in name]
    if len(found) > 1:
        allowed = "the labels of one model"
        at.fail(f"{key}: {found[1]}", f"two dictionaries for {persona}", allowed, "remove one")
    return found[0] if found else ""


def _match(
    at: Spot, key: str, value: object, profile: Profile, report: list[str]
) -> dict[str, tuple[float, float]]:
    """Shares by attribute key; texts that match nothing, or a taken key, are reported."""
    labels = at.object(value, key, ())
    exact: dict[str, list[str]] = defaultdict(list)
    folded: dict[str, list[str]] = defaultdict(list)
    for memory in profile.memories:
        exact[memory.statement].append(memory.key)
        folded[normalised(memory.statement)].append(memory.key)
    found: dict[str, tuple[float, float]] = {}
    # Exact texts first: a retyped twin must never take the place of the text itself.
    for text in sorted(labels, key=lambda text: text not in exact):
        pair = _pair(at, f"{key}: {text!r}", labels[text])
        keys = exact.get(text) or folded.get(normalised(text), [])
        free = [attribute for attribute in keys if attribute not in found]
        if not keys:
            report.append(f"{profile.id}, {key}: {text!r} is no statement of the profile")
        elif not free:
            report.append(f"{profile.id}, {key}: {text!r} matches {keys[0]!r}, which has its label")
        elif len(free) > 1:
            named = ", ".join(free)
            report.append(
                f"{profile.id}, {key}: {text!r} stands under {named}: same label for each"
            )
        found |= dict.fromkeys(free, pair)
    return found


def _pair(at: Spot, key: str, value: object) -> tuple[float, float]:
    """(necessary, private) of one statement."""
    shares = at.object(value, key, ("necessary", "private"))
    for part in ("necessary", "private"):
        share = shares[part]
        number = isinstance(share, int | float) and not isinstance(share, bool)
        # 1.0000000000000002 is what summed shares give.
        if not number or not math.isfinite(share) or not 0 <= share <= 1 + 1e-6:
            at.wrong(f"{key}.{part}", share, "a share from 0 to 1")
    return min(float(shares["necessary"]), 1.0), min(float(shares["private"]), 1.0)


def _lines(profile: Profile, context: str, found: Mapping[str, Shares]) -> list[LabelLine]:
    """Our lines of one labelled context: what was listed, or one line that nothing was."""
    listed = [
        LabelLine(profile=profile.id, context=context, attribute=key, shares=shares)
        for key, shares in found.items()
        if any(any(pair) for pair in shares.values())
    ]
    return listed or [LabelLine(profile=profile.id, context=context)]


def _dictionaries(
    profile: Profile,
    context: str,
    cell: Mapping[str, Shares],
    weights: Mapping[str, float],
    model: str,
    report: list[str],
) -> dict[str, dict[str, dict[str, float]]]:
    """The label dictionaries of one context over all statements of the profile."""
    by_text: dict[str, Shares] = {}
    for memory in profile.memories:
        shares = cell.get(memory.key, {})
        if by_text.setdefault(memory.statement, shares) != shares:
            report.append(
                f"{profile.id}, {context}: {memory.key!r} shares its statement with another "
                "attribute of another label; the form keeps the first"
            )
    personas = {persona for shares in cell.values() for persona in shares} - {COMBINED}
    written = {
        PERSONA_KEYS[persona].format(model): {
            text: _released(shares.get(persona, (0.0, 0.0))) for text, shares in by_text.items()
        }
        for persona in PERSONAS
        if persona in personas
    }
    combined = {text: _released(weighted(shares, weights)) for text, shares in by_text.items()}
    return {**written, COMBINED_KEY: combined}


def _released(pair: tuple[float, float]) -> dict[str, float]:
    """Shares that sum to 1."""
    necessary, inappropriate = pair
    private = min(inappropriate, 1.0 - necessary)
    unlabelled = max(0.0, 1.0 - necessary - private)
    return {"private": private, "necessary": necessary, "unlabeled": unlabelled}
