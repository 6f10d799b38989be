"""How many attributes a job's labels call necessary, inappropriate or neither, and how surely."""

from __future__ import annotations

from dataclasses import dataclass

from leakgrid.reports.rows import Reader, Row

THRESHOLDS = (1.0, 0.9, 0.64, 0.5)
"""1.0: all samples of all personas agree. 0.64 is the weight of the pragmatic persona alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """``rule``: source, weights, threshold and basics in force (empty without a rule).
    ``counts``: means a context. ``thresholds``: set sizes at each of THRESHOLDS. ``samples``: how
    many samples of personas with a weight are planned, parsed, unparsed and missing (empty where
    labels come from a file).
    """

    rule: Row
    counts: Row
    thresholds: list[Row]
    samples: Row

    @property
    def unanimous(self) -> bool:
        """Whether the threshold asks for every vote, so that weights cannot change a label."""
        return bool(self.rule) and self.rule["threshold"] >= 1 - 1e-9


def read_labels(reader: Reader) -> Labels:
    """The labels of a dialogue job; raises nothing where there are none."""
    rule = reader.one(RULE)
    if rule:
        weights = rule["weights"] or {}
        rule["weights"] = ", ".join(f"{name} {value:g}" for name, value in weights.items())
        rule["source"] = f"job {rule['label_job']}" if rule["label_job"] else "a label file"
    counts = reader.one(COUNTS)
    return Labels(
        rule=rule,
        counts=counts,
        thresholds=read_thresholds(reader, VALUES) if counts["labelled"] else [],
        samples=reader.one(SAMPLES) if rule and rule["label_job"] else {},
    )


def read_thresholds(reader: Reader, values: str) -> list[Row]:
    """Mean set sizes a context at each threshold.

    ``values`` is a SELECT of profile, context, value_necessary, value_inappropriate and
    left_out (a basic attribute, never inappropriate) of every attribute of labelled contexts.
    """
    levels = ", ".join(f"({level})" for level in THRESHOLDS)
    return reader.rows(f"WITH valued AS ({values}), level (threshold) AS (VALUES {levels}) {SETS}")


RULE = """
SELECT coalesce(r.label_job, '') AS label_job, r.weights, r.threshold,
       coalesce(r.basics, 'exact') AS basics
FROM plan_now p JOIN label_rule r USING (stem, ordinal) WHERE p.job = $job
"""

COUNTS = """
SELECT count(*) AS contexts, count(*) FILTER (labelled) AS labelled,
       count(*) FILTER (labelled AND kept) AS kept,
       count(*) FILTER (labelled AND necessary = 0) AS without_necessary,
       count(*) FILTER (labelled AND inappropriate = 0) AS without_inappropriate,
       avg(c.attributes) FILTER (labelled) AS attributes,
       avg(c.necessary) FILTER (labelled) AS necessary,
       avg(c.inappropriate) FILTER (labelled) AS inappropriate,
       avg(c.ambiguous) FILTER (labelled) AS ambiguous,
       avg(c.basic) FILTER (labelled) AS basic,
       avg(c.necessary) FILTER (labelled AND kept) AS necessary_kept,
       avg(c.inappropriate) FILTER (labelled AND kept) AS inappropriate_kept,
       sum(c.ambiguous) FILTER (labelled) / nullif(sum(c.attributes) FILTER (labelled), 0)
           AS ambiguous_share,
       sum(both_votes)::BIGINT AS both_votes, coalesce(bool_or(simulated), false) AS simulated
FROM label_count c WHERE job = $job
"""

SAMPLES = f"""
SELECT coalesce(sum(planned), 0)::BIGINT AS planned, coalesce(sum(parsed), 0)::BIGINT AS parsed,
       coalesce(sum(unparsed), 0)::BIGINT AS unparsed, coalesce(sum(missing), 0)::BIGINT AS missing
FROM label_sample s JOIN ({RULE}) r ON s.job = r.label_job
WHERE coalesce(r.weights[persona], 0) > 0
    AND (profile, context) IN (SELECT (profile, context) FROM label_count WHERE job = $job)
"""

VALUES = f"""
SELECT profile, context, value_necessary, value_inappropriate,
       CASE r.basics WHEN 'compat' THEN basic_compat ELSE basic_exact END AS left_out
FROM label CROSS JOIN ({RULE}) r WHERE job = $job AND labelled
"""

# the rule of the view label: the larger of two that reach the threshold, ambiguous where equal
SETS = """
, sized AS (
    SELECT threshold, profile, context, count(*) AS attributes,
           count(*) FILTER (value_necessary >= threshold - 1e-9
                            AND (value_inappropriate < threshold - 1e-9
                                 OR value_necessary > value_inappropriate + 1e-9)) AS necessary,
           count(*) FILTER (NOT left_out AND value_inappropriate >= threshold - 1e-9
                            AND (value_necessary < threshold - 1e-9
                                 OR value_inappropriate > value_necessary + 1e-9))
               AS inappropriate,
           count(*) FILTER (left_out AND value_inappropriate >= threshold - 1e-9
                            AND (value_necessary < threshold - 1e-9
                                 OR value_inappropriate > value_necessary + 1e-9)) AS basic
    FROM valued CROSS JOIN level GROUP BY threshold, profile, context
)
SELECT threshold::DOUBLE AS threshold, count(*) AS contexts,
       count(*) FILTER (s.necessary > 0 AND s.inappropriate > 0) AS kept,
       avg(s.attributes) AS attributes, avg(s.necessary) AS necessary,
       avg(s.inappropriate) AS inappropriate, avg(s.basic) AS basic,
       avg(s.attributes - s.necessary - s.inappropriate - s.basic) AS ambiguous
FROM sized s GROUP BY threshold ORDER BY threshold DESC
"""
