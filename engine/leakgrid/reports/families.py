"""Causes of leaks pooled over models of one family, and over models of about one size.

Family and size are what the job says of its models; nobody guesses them from a name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from leakgrid.reports.rows import Reader, Row
from leakgrid.reports.statistics import wilson

SIZES = (
    (4.0, "up to 4 B"), (10.0, "over 4 to 10 B"), (40.0, "over 10 to 40 B"),
    (float("inf"), "over 40 B"),
)  # fmt: skip
"""Most billions of parameters of a band, and its name."""

NOT_TOLD = "not told"

Models = Mapping[str, tuple[str, float | None]]
"""model -> (family, or "" where it is not told; billions of parameters, or None)."""


def read_models(reader: Reader) -> Models:
    """What the newest plan says of the models; empty where the store does not hold it."""
    if not reader.one(KEPT)["tables"]:
        return {}
    return {row["model"]: (row["family"] or "", row["size_b"]) for row in reader.rows(MODELS)}


def size_band(size_b: float | None) -> str:
    """The band of so many billions of parameters."""
    if size_b is None:
        return NOT_TOLD
    return next(name for most, name in SIZES if size_b <= most)


def by_family(causes: Sequence[Row], models: Models) -> list[Row]:
    """Rows of causes (see ``muppet.Muppet``) pooled over each family, in the order of names.

    ``model`` is the family then and ``pooled`` lists its models. Empty where no model's family
    is told. Intervals are Wilson's: replies of several models to one item count as independent.
    """
    if not any(family for family, _ in models.values()):
        return []
    return _pooled(causes, lambda model: models.get(model, ("", None))[0] or NOT_TOLD, [])


def by_size(causes: Sequence[Row], models: Models) -> list[Row]:
    """As ``by_family``, over models whose sizes are in one band, the smallest first."""
    if not any(size is not None for _, size in models.values()):
        return []
    order = [name for _, name in SIZES]
    return _pooled(causes, lambda model: size_band(models.get(model, ("", None))[1]), order)


def _pooled(causes: Sequence[Row], group_of: Callable[[str], str], order: list[str]) -> list[Row]:
    kept = ("simulated", "defence", "condition", "probed", "reading")
    groups: dict[tuple[object, ...], Row] = {}
    for row in causes:
        name = group_of(row["model"])
        group = groups.setdefault(
            (name, *(row[key] for key in kept)),
            {
                "model": name,
                **{key: row[key] for key in kept},
                "pooled": [],
                "probed_replies": 0,
                "shares": {cause: {"replies": 0} for cause in row["shares"]},
            },
        )
        group["pooled"].append(row["model"])
        group["probed_replies"] += row["probed_replies"]
        for cause, part in row["shares"].items():
            group["shares"][cause]["replies"] += part["replies"]
    for group in groups.values():
        for part in group["shares"].values():
            found = wilson(part["replies"], group["probed_replies"])
            part.update(share=found.value, lo=found.low, hi=found.high)

    def place(row: Row) -> tuple[bool, int, str]:
        name = row["model"]
        return (name == NOT_TOLD, order.index(name) if name in order else len(order), name)

    return sorted(groups.values(), key=place)


KEPT = """
SELECT count(*) AS tables FROM information_schema.tables
WHERE table_name = 'plan_model' AND $job IS NOT NULL
"""

MODELS = """
SELECT m.model, m.family, m.size_b FROM plan_now p JOIN plan_model m USING (stem, ordinal)
WHERE p.job = $job ORDER BY m.model
"""
