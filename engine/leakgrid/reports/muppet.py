"""What a report says of a MuPPET job beyond rates: splits, conditions, causes, parties, the paper.

Each part is empty where the records hold nothing for it, and the page then leaves it out.
"""

from __future__ import annotations

from dataclasses import dataclass

from leakgrid.reports import families, published
from leakgrid.reports.parties import read_arms
from leakgrid.reports.rows import Reader, Row, ordered
from leakgrid.reports.splits import Split, read_splits

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
    reading, with all of CAUSES in ``shares``, and pooled ones by ``family`` and ``size`` of the
    models. ``arms`` and ``slopes``: rates of the parties ablation and how they move.
    ``published``: the paper's figures beside ours, from ``source``. ``splits``: see there.
    """

    conditions: list[Row]
    causes: list[Row]
    family: list[Row]
    size: list[Row]
    arms: list[Row]
    slopes: list[Row]
    source: str
    published: list[Row]
    splits: list[Split]

    @property
    def varied(self) -> bool:
        """Whether some items are variants of an ablation."""
        return any(row["arm"] for row in self.conditions)


def read_muppet(reader: Reader, order: dict[str, list[str]], judge: str) -> Muppet:
    """All of it; quick for jobs of other benchmarks, whose records lack these notes."""
    noted = reader.one(NOTED)
    if noted["plans"] == 0:
        return Muppet(
            conditions=[], causes=[], family=[], size=[], arms=[], slopes=[], source="",
            published=[], splits=[],
        )  # fmt: skip
    rater = order["rater"][0] if order["rater"] else ""
    source, figures = published.read(reader, judge, rater)
    causes = _causes(ordered(reader.rows(SHARES), order))
    models = families.read_models(reader) if causes else {}
    arms, slopes = read_arms(reader, order) if noted["variants"] else ([], [])
    return Muppet(
        conditions=ordered(reader.rows(CONDITIONS), {"condition": order["condition"]}),
        causes=causes,
        family=families.by_family(causes, models),
        size=families.by_size(causes, models),
        arms=arms,
        slopes=slopes,
        source=source,
        published=figures,
        splits=read_splits(reader, order),
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
