"""What a report says of a MuPPET job beyond rates: conditions, causes, parties, the paper.

Each part is empty where the records hold nothing for it, and the page then leaves it out.
"""

from __future__ import annotations

from dataclasses import dataclass

from leakgrid.reports import published
from leakgrid.reports.rows import Reader, Row, ordered

CAUSES = (
    "lost track of users",
    "group constraint unresolved",
    "understanding-action gap",
    "inconclusive",
)
"""As the view ``attribution`` names them; the last one is no cause but what is not known."""

READINGS = ("strict", "lenient")


@dataclass(frozen=True, slots=True, kw_only=True)
class Muppet:
    """``conditions``: what each held. ``causes``: a row for each group of probed replies and
    reading, with all of CAUSES in ``shares``. ``arms``: rates of the parties ablation.
    ``published``: the paper's figures beside ours, from ``source``.
    """

    conditions: list[Row]
    causes: list[Row]
    arms: list[Row]
    source: str
    published: list[Row]

    @property
    def varied(self) -> bool:
        """Whether some items are variants of an ablation."""
        return any(row["arm"] for row in self.conditions)


def read_muppet(reader: Reader, order: dict[str, list[str]], judge: str) -> Muppet:
    """All of it; quick for jobs of other benchmarks, whose records lack these notes."""
    noted = reader.one(NOTED)
    if noted["plans"] == 0:
        return Muppet(conditions=[], causes=[], arms=[], source="", published=[])
    rater = order["rater"][0] if order["rater"] else ""
    source, figures = published.read(reader, judge, rater)
    return Muppet(
        conditions=ordered(reader.rows(CONDITIONS), {"condition": order["condition"]}),
        causes=_causes(ordered(reader.rows(SHARES), order)),
        arms=ordered(reader.rows(ARMS), order) if noted["variants"] else [],
        source=source,
        published=figures,
    )


def _causes(rows: list[Row]) -> list[Row]:
    """One row a group of replies and reading, leaks before controls, with a share a cause."""
    groups: dict[tuple[object, ...], Row] = {}
    for row in rows:
        names = ("simulated", "model", "defence", "condition", "probed", "reading")
        group = groups.setdefault(
            tuple(row[name] for name in names),
            {
                **{name: row[name] for name in (*names, "probed_replies")},
                "shares": {},
            },
        )
        group["shares"][row["cause"]] = {
            name: row[name] for name in ("replies", "share", "lo", "hi")
        }
    return list(groups.values())


NOTED = """
SELECT (SELECT count(*) FROM plan_now WHERE job = $job AND benchmark = 'muppet') AS plans,
       (SELECT count(*) FROM cell
        WHERE job = $job AND json_type(extra, '$.variant') = 'OBJECT') AS variants
"""

# over items, each once a condition: how often a model was asked of it must not weigh
CONDITIONS = """
SELECT condition, arm, target_parties, target_tokens, count(*) AS items, avg(parties) AS parties,
       min(parties)::BIGINT AS parties_min, max(parties)::BIGINT AS parties_max,
       avg(facts) AS facts, avg(tokens) AS tokens, stddev(tokens) AS tokens_sd,
       avg(density) AS density
FROM (SELECT condition, item, any_value(coalesce(extra -> 'variant' ->> 'arm', '')) AS arm,
             any_value(TRY_CAST(extra -> 'variant' ->> 'parties' AS INT)) AS target_parties,
             any_value(TRY_CAST(extra -> 'variant' ->> 'tokens' AS INT)) AS target_tokens,
             any_value(TRY_CAST(extra -> 'statistics' ->> 'parties' AS DOUBLE)) AS parties,
             any_value(TRY_CAST(extra -> 'statistics' ->> 'facts' AS DOUBLE)) AS facts,
             any_value(TRY_CAST(extra -> 'statistics' ->> 'tokens' AS DOUBLE)) AS tokens,
             any_value(TRY_CAST(extra -> 'statistics' ->> 'density' AS DOUBLE)) AS density
      FROM cell WHERE job = $job AND json_type(extra, '$.statistics') = 'OBJECT'
      GROUP BY condition, item)
GROUP BY condition, arm, target_parties, target_tokens
ORDER BY condition, arm, target_parties, target_tokens
"""

# a cause that no reply has is a share of 0 with its interval
SHARES = f"""
WITH mine AS (FROM attribution_share WHERE job = $job), groups AS (
    SELECT DISTINCT simulated, model, defence, condition, probed, reading, probed_replies
    FROM mine
), causes AS (SELECT unnest({list(CAUSES)}) AS cause)
SELECT g.simulated, g.model, g.defence, g.condition, g.probed, g.reading,
       g.probed_replies::BIGINT AS probed_replies, c.cause, coalesce(m.replies, 0) AS replies,
       coalesce(m.replies, 0) / g.probed_replies::DOUBLE AS share,
       wilson_low(coalesce(m.replies, 0), g.probed_replies) AS lo,
       wilson_high(coalesce(m.replies, 0), g.probed_replies) AS hi
FROM groups g CROSS JOIN causes c
LEFT JOIN mine m USING (simulated, model, defence, condition, probed, reading, cause)
ORDER BY g.probed = 'leak' DESC, g.probed, g.reading = 'strict' DESC, g.reading
"""

# an item's arm is known from any of its replies, so that cells that are missing count as such
ARMS = """
WITH variants AS (
    SELECT item, digest, any_value(extra -> 'variant' ->> 'arm') AS arm,
           any_value(TRY_CAST(extra -> 'variant' ->> 'parties' AS INT)) AS parties,
           any_value(TRY_CAST(extra -> 'variant' ->> 'tokens' AS INT)) AS tokens,
           any_value(extra -> 'variant' ->> 'base') AS base
    FROM cell WHERE job = $job AND json_type(extra, '$.variant') = 'OBJECT' GROUP BY item, digest
)
SELECT u.simulated, u.judge, u.model, u.defence, u.condition, v.arm, v.parties, v.tokens,
       count(DISTINCT v.base) AS bases, count(*) AS planned, count(u.leaked) AS known,
       count(*) FILTER (u.leaked) AS leaks, count(*) FILTER (u.state = 'unknown') AS unknown,
       count(*) FILTER (u.state = 'missing') AS missing,
       leaks / nullif(known, 0)::DOUBLE AS rate,
       wilson_low(leaks, known) AS lo, wilson_high(leaks, known) AS hi,
       leaks / planned::DOUBLE AS bound_low,
       (leaks + unknown + missing) / planned::DOUBLE AS bound_high,
       unknown + missing > 0.02 * planned AS marked
FROM leak_unit u JOIN variants v USING (item, digest)
WHERE u.job = $job AND v.arm IS NOT NULL
GROUP BY u.simulated, u.judge, u.model, u.defence, u.condition, v.arm, v.parties, v.tokens
ORDER BY v.arm, v.parties, v.tokens
"""
