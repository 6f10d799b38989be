"""Published figures of Loose Lips and CIMemories beside ours, where a real run used the model."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from leakgrid.outcomes import StoreError
from leakgrid.reports.messages import Messages
from leakgrid.reports.published import normal, spellings
from leakgrid.reports.rows import Reader, Row

PUBLISHED = Path(__file__).resolve().parents[3] / "datasets" / "cimemories" / "published.toml"
"""The data file of the checkout that this module stands in; without it there is no table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """``rows``: a published figure and a real sender of the job that it is of. ``notes``: what to
    know of the figures, ``aside`` what a paper says beyond them. Empty where no model matches.
    """

    source: str
    rows: list[Row]
    notes: list[str]
    aside: list[Row]


def ours(senders: list[Row], messages: Messages) -> list[Row]:
    """What of our own can stand beside a published figure, of real senders.

    Loose Lips tells means over all prompts of long dialogues; CIMemories its plainest prompt, at
    five samples (or as many as we have).
    """
    real = [row for row in messages.rates if row["condition"] == "base" and not row["simulated"]]
    n = min(5, max((row["n"] for row in real), default=0))
    return [
        {
            "setting": "dialogue", "model": row["model"],
            "place": f"all conditions, {row['turns']} rounds",
            "leak": row["leak_full"]["value"], "completeness": row["completeness"]["value"],
            "marked": row["marked"],
        }
        for row in senders
        if row["turns"] > 1 and not row["simulated"]
    ] + [
        {
            "setting": "message", "model": row["model"], "place": f"base, n = {n}",
            "leak": row["violation_full"]["value"], "completeness": row["completeness"]["value"],
            "marked": row["violation_marked"],
        }
        for row in real
        if row["n"] == n
    ]  # fmt: skip


def read(reader: Reader, ours: list[Row], path: Path = PUBLISHED) -> Published:
    """Figures of the job's own setting beside rows of ``ours``.

    Raises StoreError for a file that cannot be read.
    """
    nothing = Published(source="", rows=[], notes=[], aside=[])
    models = {row["model"]: row["provider_model"] or "" for row in reader.rows(MODELS)}
    if not models or not path.exists():
        return nothing
    try:
        papers = tomllib.loads(path.read_text(encoding="utf-8"))["paper"]
        rows = [
            {
                "setting": paper["setting"],
                "published_model": figure["model"],
                "names": {normal(name) for name in figure["names"]},
                "leak": figure["leak"], "completeness": figure["completeness"],
                "also": figure.get("also", ""),
            }
            for paper in papers
            for figure in paper["figure"]
        ]  # fmt: skip
        told = {
            paper["setting"]: Published(
                source=paper["source"],
                rows=[],
                notes=list(paper["notes"]),
                aside=[dict(row) for row in paper.get("aside", ())],
            )
            for paper in papers
        }
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is not a list of published figures: {error!r}") from error
    known = {name for figure in rows for name in figure["names"]}
    found = [
        {
            **{name: value for name, value in figure.items() if name != "names"},
            "model": row["model"], "provider_model": models[row["model"]], "ours": row,
        }
        for figure in rows
        for row in ours
        if row["setting"] == figure["setting"] and row["model"] in models
        and figure["names"] & called(row["model"], models[row["model"]], known)
    ]  # fmt: skip
    if not found:
        return nothing
    paper = told[found[0]["setting"]]
    return Published(source=paper.source, rows=found, notes=paper.notes, aside=paper.aside)


def called(model: str, provider: str, known: set[str]) -> set[str]:
    """What a sender goes by: the job's own name for it if a figure has that, else any spelling.

    One provider's model may be two senders, as with and without thinking.
    """
    return {normal(model)} & known or spellings(model, provider)


MODELS = """
SELECT c.model, min(a.model) AS provider_model
FROM (SELECT DISTINCT job, model, stem, ordinal FROM cell WHERE job = $job AND NOT simulated) c
LEFT JOIN call k ON k.stem = c.stem AND k.ordinal = c.ordinal AND k.role = 'sender'
LEFT JOIN response_now a ON a.key = k.key AND NOT coalesce(a.simulated, false)
GROUP BY c.model ORDER BY c.model
"""
