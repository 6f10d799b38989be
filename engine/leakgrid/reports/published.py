"""The paper's published MuPPET numbers beside ours, where a real run used the same model."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from leakgrid.outcomes import StoreError
from leakgrid.reports.rows import Reader, Row

PUBLISHED = Path(__file__).resolve().parents[3] / "datasets" / "muppet" / "published.toml"
"""The data file of the checkout that this module stands in; without it there is no table."""


def read(reader: Reader, judge: str, rater: str, path: Path = PUBLISHED) -> tuple[str, list[Row]]:
    """(source, one row for each published figure and each real model of the job that it is of).

    ``leak`` and ``utility`` hold our counts over ``all`` items and over those with
    ``uninformed`` askers, None where the run has no such column. Raises StoreError for a file
    that cannot be read.
    """
    models = _models(reader)
    if not models or not path.exists():
        return "", []
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        figures = [
            {
                "published_model": figure["model"],
                "names": {normal(name) for name in figure["names"]},
                "condition": figure["condition"],
                "defence": figure["defence"],
                "published_leak": _share(figure.get("leak")),
                "published_utility": _share(figure.get("utility")),
                "fits": figure.get("fits", ""),
            }
            for figure in data["figure"]
        ]
        source = str(data["source"])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is not a list of published figures: {error!r}") from error
    pairs = [
        (figure, model, provider)
        for figure in figures
        for model, provider in models.items()
        if figure["names"] & spellings(model, provider)
    ]
    if not pairs:
        return "", []
    leak, utility = _counts(reader, LEAKS, judge), _counts(reader, USEFUL, rater)
    rows = []
    for figure, model, provider in pairs:
        place = (model, figure["defence"], figure["condition"])
        rows.append(
            {
                **{name: value for name, value in figure.items() if name != "names"},
                "model": model,
                "provider_model": provider,
                "leak": {who: leak.get((*place, who)) for who in ("all", "uninformed")},
                "utility": {who: utility.get((*place, who)) for who in ("all", "uninformed")},
            }
        )
    return source, rows


def normal(name: str) -> str:
    """A model's name for comparing: lower case, letters and digits only."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def spellings(model: str, provider: str) -> set[str]:
    """What a job's model may be called: its own name, the provider's, and that without a path."""
    return {normal(name) for name in (model, provider, provider.rsplit("/", 1)[-1])} - {""}


def _share(percent: float | None) -> float | None:
    return None if percent is None else float(percent) / 100


def _models(reader: Reader) -> dict[str, str]:
    """The job's real models and what their provider calls them ("" where no answer tells)."""
    return {row["model"]: row["provider_model"] or "" for row in reader.rows(MODELS)}


def _counts(reader: Reader, sql: str, judge: str) -> dict[tuple[str, ...], Row]:
    """Our rows of one judge by model, defence, condition and whose items."""
    return {
        (row["model"], row["defence"], row["condition"], row["who"]): row
        for row in reader.rows(sql)
        if row["judge"] == judge
    }


MODELS = """
SELECT c.model, min(a.model) AS provider_model
FROM (SELECT DISTINCT job, model, stem, ordinal FROM cell WHERE job = $job AND NOT simulated) c
LEFT JOIN call k ON k.stem = c.stem AND k.ordinal = c.ordinal AND k.role = 'assistant'
LEFT JOIN response_now a ON a.key = k.key AND NOT coalesce(a.simulated, false)
GROUP BY c.model ORDER BY c.model
"""

FIELDS = (
    "judge, model, defence, condition, known, unknown + missing AS unsure, rate, lo, hi, marked"
)
LEAKS = f"""
SELECT 'all' AS who, {FIELDS} FROM leak_total WHERE job = $job AND NOT simulated
UNION ALL
SELECT 'uninformed' AS who, {FIELDS} FROM leak_by_asker
WHERE job = $job AND NOT simulated AND asker_informed = false
"""
USEFUL = LEAKS.replace("leak_total", "utility_rate").replace("leak_by_asker", "utility_by_asker")
