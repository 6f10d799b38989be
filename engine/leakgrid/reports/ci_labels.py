"""What a report says of a job that labels attributes: shares, agreement of samples, label sets."""

from __future__ import annotations

from dataclasses import dataclass

from leakgrid.benchmarks.dialogue.settings import WESTIN_WEIGHTS
from leakgrid.reports.dialogue_labels import read_thresholds
from leakgrid.reports.dialogue_sums import arranged, grouped
from leakgrid.reports.rows import Reader, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class CiLabels:
    """``personas``: a row a labelling model and persona. ``thresholds``: set sizes with the
    Westin weights and exact basics, over ``complete`` of ``contexts`` (no sample is missing, and
    every persona has one that could be read).
    ``why``: the reasons of samples that could not be read.
    """

    headline: list[str]
    contexts: int
    complete: int
    personas: list[Row]
    thresholds: list[Row]
    why: list[Row]


def read_ci_labels(reader: Reader) -> CiLabels | None:
    """All of it; None for a job of another benchmark."""
    if not reader.one("FROM plan_now WHERE job = $job AND benchmark = 'ci-labels'"):
        return None
    counts = {(row["model"], row["persona"]): row for row in reader.rows(COUNTED)}
    agreed = {(row["model"], row["persona"]): row for row in reader.rows(AGREED)}
    nothing = dict.fromkeys(("necessary", "inappropriate", "both", "agreement", "listed_agreement",
                             "kappa", "unanimous"))  # fmt: skip
    personas = arranged(
        [{**nothing, **row, **agreed.get(key, {})} for key, row in counts.items()],
        {"persona": list(WESTIN_WEIGHTS)}, "model", "persona",
    )  # fmt: skip
    whole = reader.one(COMPLETE)
    thresholds = read_thresholds(reader, VALUES) if whole["complete"] else []
    told = CiLabels(
        headline=[],
        contexts=int(whole["contexts"]),
        complete=int(whole["complete"]),
        personas=personas,
        thresholds=thresholds,
        why=reader.rows(WHY),
    )
    told.headline.extend(_headline(told))
    return told


def _headline(told: CiLabels) -> list[str]:
    """Findings in a few sentences."""
    planned, parsed, unparsed, missing = (
        sum(row[name] for row in told.personas)
        for name in ("planned", "parsed", "unparsed", "missing")
    )
    said = [
        f"{parsed:,} of {planned:,} planned samples could be read; {unparsed:,} could not and "
        f"{missing:,} are missing: neither is part of any share."
    ]
    if not told.thresholds:
        return [*said, "No context has all its samples and a readable one of every persona yet, "
                "so there are no label sets."]  # fmt: skip
    hard, soft = told.thresholds[0], told.thresholds[-1]
    said.append(
        f"With all votes agreeing (threshold {hard['threshold']}) a context has "
        f"{hard['necessary']:.1f} necessary and {hard['inappropriate']:.1f} inappropriate "
        f"attributes of {hard['attributes']:.1f}, and {hard['ambiguous']:.1f} ambiguous ones; at "
        f"{soft['threshold']} there are {soft['ambiguous']:.1f} ambiguous ones."
    )
    for (model,), rows in grouped(told.personas, ("model",)).items():
        known = [row for row in rows if row["listed_agreement"] is not None]
        if known:
            parts = ", ".join(
                f"{100 * row['listed_agreement']:.1f} % ({row['persona']})" for row in known
            )
            said.append(f"Two samples of {model} agree on an attribute that either lists: {parts}.")
    return said


COUNTED = """
SELECT bool_or(simulated) AS simulated, model, persona, sum(planned)::BIGINT AS planned,
       sum(parsed)::BIGINT AS parsed, sum(unparsed)::BIGINT AS unparsed,
       sum(missing)::BIGINT AS missing, count(*) AS contexts,
       count(*) FILTER (parsed > 0) AS with_samples
FROM label_sample WHERE job = $job GROUP BY model, persona
"""

# Of each attribute with k readable samples: n say necessary, i inappropriate, the rest neither.
# agreement: the share of pairs of samples that say the same; Fleiss' kappa (1971, Psychol. Bull.
# 76:378) corrects it for chance. Attributes that no sample lists agree fully; listed_ leaves
# pairs out in which neither lists it
AGREED = """
WITH sizes AS (
    SELECT stem, ordinal, profile, count(*) AS attributes
    FROM profile_attribute JOIN plan_now p USING (stem, ordinal) WHERE p.job = $job
    GROUP BY stem, ordinal, profile
), cell AS (
    SELECT s.model, s.persona, s.profile, s.context, s.parsed AS k, z.attributes
    FROM label_sample s JOIN sizes z USING (profile) WHERE s.job = $job AND s.parsed > 0
), listed AS (
    SELECT v.model, v.persona, v.profile, v.context, v.parsed AS k, v.necessary AS n,
           v.inappropriate AS i, v.both_lists AS b, v.parsed - v.necessary - v.inappropriate AS o
    FROM vote_share v WHERE v.job = $job
), of_cell AS (
    SELECT c.model, c.persona, c.profile, c.context, any_value(c.k) AS k,
           any_value(c.attributes) AS attributes, count(l.n) AS listed,
           coalesce(sum(l.n), 0) AS n, coalesce(sum(l.i), 0) AS i, coalesce(sum(l.b), 0) AS b,
           coalesce(sum(l.n * (l.n - 1) + l.i * (l.i - 1) + l.o * (l.o - 1)), 0) AS same,
           coalesce(sum(l.o * (l.o - 1)), 0) AS both_silent,
           count(*) FILTER (l.n = l.k OR l.i = l.k) AS unanimous
    FROM cell c LEFT JOIN listed l USING (model, persona, profile, context)
    GROUP BY c.model, c.persona, c.profile, c.context
), summed AS (
    SELECT model, persona, avg(n / k) AS necessary, avg(i / k) AS inappropriate,
           avg(attributes) AS attributes, sum(b)::BIGINT AS both,
           sum(unanimous) / sum(attributes) AS unanimous,
           sum(same + (attributes - listed) * k * (k - 1))
               / nullif(sum(attributes * k * (k - 1)), 0) AS agreement,
           sum(same - both_silent) / nullif(sum(listed * k * (k - 1) - both_silent), 0)
               AS listed_agreement,
           sum(n) / sum(attributes * k) AS p_n, sum(i) / sum(attributes * k) AS p_i,
           1 - p_n - p_i AS p_o, p_n * p_n + p_i * p_i + p_o * p_o AS chance
    FROM of_cell GROUP BY model, persona
)
SELECT model, persona, s.necessary, s.inappropriate, s.attributes, s.both, s.unanimous,
       s.agreement, s.listed_agreement,
       CASE WHEN chance < 1 THEN (s.agreement - chance) / (1 - chance) END AS kappa
FROM summed s
"""

WEIGHTS = ", ".join(f"('{name}', {value})" for name, value in WESTIN_WEIGHTS.items())

# samples of all labelling models pooled, and no sample missing, as the view label does
SHARED = f"""
weight (persona, weight) AS (VALUES {WEIGHTS}), sampled AS (
    SELECT s.profile, s.context, w.persona, w.weight, sum(s.parsed) AS parsed,
           sum(s.missing) AS missing
    FROM label_sample s JOIN weight w USING (persona) WHERE s.job = $job GROUP BY ALL
), whole AS (
    SELECT profile, context, count(*) FILTER (parsed > 0 AND missing = 0)
               = {len(WESTIN_WEIGHTS)} AS complete
    FROM sampled GROUP BY profile, context
)
"""

COMPLETE = f"""
WITH {SHARED}
SELECT count(*) AS contexts, count(*) FILTER (complete) AS complete FROM whole
"""

VALUES = f"""
WITH {SHARED}, valued AS (
    SELECT v.profile, v.context, v.attribute, sum(s.weight * v.necessary / s.parsed) AS n,
           sum(s.weight * v.inappropriate / s.parsed) AS i
    FROM vote_share v JOIN sampled s USING (profile, context, persona)
    WHERE v.job = $job GROUP BY v.profile, v.context, v.attribute
)
SELECT w.profile, w.context, coalesce(v.n, 0) AS value_necessary,
       coalesce(v.i, 0) AS value_inappropriate, a.basic AS left_out
FROM whole w
JOIN (SELECT * FROM profile_attribute JOIN plan_now p USING (stem, ordinal) WHERE p.job = $job) a
    ON a.profile = w.profile
LEFT JOIN valued v ON v.profile = w.profile AND v.context = w.context
    AND v.attribute = a.attribute
WHERE w.complete
"""

WHY = """
SELECT model, persona, state, coalesce(nullif(why, ''), 'not run yet') AS why, count(*) AS samples
FROM label_cell WHERE job = $job AND state <> 'parsed'
GROUP BY ALL ORDER BY samples DESC, model, persona, why LIMIT 12
"""
