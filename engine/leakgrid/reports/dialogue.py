"""What a report says of a job of dialogues or single messages: leakage against completeness.

Rates are of the first judge of reveals; further judges stand in the table of senders. Means are
over instances whose value is known, as in the store's views; the counts tell how many are not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from leakgrid.reports import dialogue_published as published
from leakgrid.reports import dialogue_sentences as sentences
from leakgrid.reports.dialogue_labels import Labels, read_labels
from leakgrid.reports.dialogue_rounds import Rounds, read_rounds
from leakgrid.reports.dialogue_sums import (
    Drawn,
    People,
    arranged,
    average,
    correlation,
    estimate,
    grouped,
    tabled,
)
from leakgrid.reports.messages import Messages, read_messages
from leakgrid.reports.rows import Reader, Row

BASELINES = ("pc0", "base")
"""The condition that others are held against: of dialogues, and of single messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """``order``: the plan's order of model, receiver, condition, turns, judge and context;
    ``turns`` is the longest setting, which sentences and matrices go by.

    Estimates in rows are {"value", "lo", "hi"} (``dialogue_sums``). ``points`` are means of
    single profiles, for the figure; ``grades`` counts attributes by what transcript and turns
    say of them.
    """

    order: dict[str, list[object]]
    judge: str
    turns: int
    profiles: int
    headline: list[str]
    coverage: list[Row]
    judging: list[Row]
    labels: Labels
    by_sender: list[Row]
    by_receiver: list[Row]
    by_condition: list[Row]
    by_sender_condition: list[Row]
    by_context: list[Row]
    by_domain: list[Row]
    basics: list[Row]
    matrix: list[Row]
    effects: list[Row]
    points: list[Row]
    correlations: list[Row]
    revealed: list[Row]
    grades: list[Row]
    rounds: Rounds
    messages: Messages
    published: published.Published
    spend: list[Row] = field(default_factory=list)

    @property
    def answered(self) -> bool:
        """Whether somebody answers: no single messages."""
        return self.turns > 0


def read_dialogue(reader: Reader) -> Dialogue | None:
    """All of it; None for a job of another benchmark."""
    if not reader.one("FROM plan_now WHERE job = $job AND benchmark = 'dialogue'"):
        return None
    order = _order(reader)
    judge = str(order["judge"][0]) if order["judge"] else ""
    every = arranged(
        reader.rows(INSTANCES), order, "turns", "judge", "model", "receiver", "condition", "context"
    )
    people = People(row["profile"] for row in every)
    cells = [row for row in every if row["judge"] == judge]
    turns = max((int(str(value)) for value in order["turns"]), default=0)
    revealed = reader.rows(REVEALED) if turns else []
    told = Dialogue(
        order=order,
        judge=judge,
        turns=turns,
        profiles=len(people.names),
        headline=[],
        coverage=arranged(
            reader.rows(COVERAGE), order, "turns", "model", "receiver", "condition"
        ),
        judging=reader.rows("FROM dialogue_judging WHERE job = $job ORDER BY ALL"),
        labels=read_labels(reader),
        by_sender=tabled(people, every, ("simulated", "judge", "turns", "model")),
        by_receiver=tabled(people, cells, ("simulated", "turns", "receiver")) if turns else [],
        by_condition=tabled(people, cells, ("simulated", "turns", "condition")),
        by_sender_condition=tabled(people, cells, ("simulated", "turns", "model", "condition")),
        by_context=_named(
            reader,
            arranged(tabled(people, cells, ("simulated", "turns", "context")), order, "context"),
        ),
        by_domain=arranged(_rows_of(reader, DOMAINS, judge), order, "turns", "model"),
        basics=arranged(_rows_of(reader, BASICS, judge), order, "turns", "model"),
        matrix=tabled(people, cells, ("simulated", "turns", "model", "receiver")) if turns else [],
        effects=_effects(people, cells),
        points=_points(cells),
        correlations=_correlations(people, cells),
        revealed=_revealed(arranged(revealed, order, "turns", "receiver", "condition"), judge),
        grades=_rows_of(reader, GRADES, judge),
        rounds=read_rounds(reader, people, order, judge),
        messages=read_messages(reader, order, judge),
        published=published.read(reader, judge),
        spend=reader.rows(SPEND),
    )
    told.headline.extend(sentences.headline(told))
    return told


def _order(reader: Reader) -> dict[str, list[object]]:
    """Each axis in the plan's order; of judges those of reveals only, turns from few to many."""
    columns = reader.rows(COLUMNS)
    order: dict[str, list[object]] = {
        name: list(dict.fromkeys(column[name] for column in columns))
        for name in ("model", "receiver", "condition", "turns", "sample")
    }
    order["turns"].sort(key=lambda value: int(str(value)))
    order["judge"] = list(
        dict.fromkeys(
            judge["name"]
            for column in columns
            for judge in column["judges"] or []
            if judge["kind"] == "reveal"
        )
    )
    order["context"] = [row["context"] for row in reader.rows(CONTEXTS)]
    return order


def _rows_of(reader: Reader, sql: str, judge: str) -> list[Row]:
    return [row for row in reader.rows(sql) if row["judge"] == judge]


def _named(reader: Reader, rows: list[Row]) -> list[Row]:
    """Contexts with who is written to and why."""
    contexts = {row["context"]: row for row in reader.rows(CONTEXTS)}
    nothing = {"recipient": "", "task": ""}
    return [{**nothing, **contexts.get(row["context"], {}), **row} for row in rows]


def _effects(people: People, cells: list[Row]) -> list[Row]:
    """What each condition changes against the baseline, by turns and sender, and over senders.

    Over senders each one's mean counts once; the relative change is that of these means.
    """
    found = []
    for (simulated, turns), rows in grouped(cells, ("simulated", "turns")).items():
        conditions = grouped(rows, ("condition",))
        base = next((name for name in BASELINES if (name,) in conditions), None)
        if base is None:
            continue
        for (condition,) in conditions:
            if condition == base:
                continue
            pairs: list[tuple[str, Row]] = []
            parts: dict[str, list[tuple[Drawn, Drawn]]] = {}
            for (model,), mine in grouped(rows, ("model",)).items():
                by = grouped(mine, ("condition",))
                if (condition,) not in by or (base,) not in by:
                    continue
                told: Row = {}
                for measure, about in (
                    ("leak_full", "leak"), ("leak_total", "leak"), ("completeness",) * 2
                ):  # fmt: skip
                    one, other = (
                        people.mean(by[(name,)], f"{measure}_sum", f"{about}_n")
                        for name in (condition, base)
                    )
                    told[measure] = _changed(one, other)
                    if told[measure]["change"]["value"] is not None:
                        parts.setdefault(measure, []).append((one, other))
                pairs.append((str(model), told))
            if len(pairs) > 1:
                means = {
                    measure: _changed(
                        average([one for one, _ in both]), average([other for _, other in both])
                    )
                    for measure, both in parts.items()
                }
                if len(means) == 3:
                    pairs.append(("", means))
            found += [
                {
                    "simulated": simulated, "turns": turns, "condition": condition,
                    "baseline": base, "model": model, **told,
                }
                for model, told in pairs
            ]  # fmt: skip
    return found


def _changed(one: Drawn, other: Drawn) -> Row:
    """Both means, the change, and the change relative to the second."""
    change = one.minus(other)
    return {
        "here": estimate(one)["value"], "base": estimate(other)["value"],
        "change": estimate(change), "relative": estimate(change.over(other)),
    }  # fmt: skip


def _points(cells: list[Row]) -> list[Row]:
    """Mean leakage and completeness of each sender's single profiles."""
    return [
        {
            "turns": turns, "model": model, "profile": profile,
            "leak": _quotient(rows, "leak_full_sum", "leak_n"),
            "completeness": _quotient(rows, "completeness_sum", "completeness_n"),
        }
        for (turns, model, profile), rows in grouped(cells, ("turns", "model", "profile")).items()
    ]  # fmt: skip


def _quotient(rows: list[Row], total: str, count: str) -> float | None:
    number = sum(row[count] for row in rows)
    return sum(row[total] or 0 for row in rows) / number if number else None


def _correlations(people: People, cells: list[Row]) -> list[Row]:
    """Pearson's r of leakage and completeness over instances, by turns, and by sender."""
    return [
        {
            "simulated": simulated, "turns": turns, "model": model,
            "r": estimate(correlation(people, rows)), "instances": sum(r["both_n"] for r in rows),
        }
        for by in (("simulated", "turns"), ("simulated", "turns", "model"))
        for (simulated, turns, *rest), rows in grouped(cells, by).items()
        for model in [rest[0] if rest else ""]
    ]  # fmt: skip


def _revealed(rows: list[Row], judge: str) -> list[Row]:
    """How much of its own memory each receiver tells: clusters are the receivers' profiles."""
    mine = [row for row in rows if row["judge"] == judge]
    people = People(row["profile"] for row in mine)
    return [
        {
            "simulated": simulated, "turns": turns, "receiver": receiver, "condition": condition,
            **{
                name: estimate(people.mean(part, f"{name}_sum", "known"))
                for name in ("reveal_full", "reveal_total")
            },
            **{name: sum(row[name] for row in part) for name in ("planned", "known")},
        }
        for (simulated, turns, receiver, condition), part in grouped(
            mine, ("simulated", "turns", "receiver", "condition")
        ).items()
    ]  # fmt: skip


COLUMNS = """
SELECT c.* FROM plan_now p JOIN plan_column c USING (stem, ordinal)
WHERE p.job = $job ORDER BY c.position
"""

CONTEXTS = """
SELECT context, any_value(recipient) AS recipient, any_value(task) AS task
FROM plan_now p JOIN context c USING (stem, ordinal)
WHERE p.job = $job GROUP BY context ORDER BY context
"""

# sums over instances, from which every mean, interval and correlation follows
INSTANCES = """
SELECT simulated, judge, model, receiver, condition, turns, context, sender_profile AS profile,
       count(*) AS planned, count(*) FILTER (leak_state = 'unlabelled') AS unlabelled,
       count(leak_full) AS leak_n, sum(leak_full) AS leak_full_sum,
       sum(leak_total) AS leak_total_sum,
       count(leak_full_low) AS leak_defined, sum(leak_full_low) AS leak_full_low_sum,
       sum(leak_full_high) AS leak_full_high_sum,
       count(*) FILTER (leak_state = 'undefined') AS leak_undefined,
       count(*) FILTER (leak_state = 'invalid') AS leak_invalid,
       count(*) FILTER (leak_state = 'missing') AS leak_missing,
       count(completeness) AS completeness_n, sum(completeness) AS completeness_sum,
       count(completeness_low) AS completeness_defined,
       sum(completeness_low) AS completeness_low_sum,
       sum(completeness_high) AS completeness_high_sum,
       count(*) FILTER (completeness_state = 'undefined') AS completeness_undefined,
       count(*) FILTER (completeness_state = 'invalid') AS completeness_invalid,
       count(*) FILTER (completeness_state = 'missing') AS completeness_missing,
       count(leak_full + completeness) AS both_n,
       sum(leak_full) FILTER (completeness IS NOT NULL) AS both_x,
       sum(completeness) FILTER (leak_full IS NOT NULL) AS both_y,
       sum(leak_full * leak_full) FILTER (completeness IS NOT NULL) AS both_xx,
       sum(completeness * completeness) FILTER (leak_full IS NOT NULL) AS both_yy,
       sum(leak_full * completeness) AS both_xy
FROM dialogue_instance WHERE job = $job
GROUP BY simulated, judge, model, receiver, condition, turns, context, sender_profile
ORDER BY ALL
"""

COVERAGE = """
SELECT simulated, turns, model, receiver, condition, count(*) AS planned,
       count(*) FILTER (status = 'done') AS done, count(*) FILTER (status = 'open') AS open,
       count(*) FILTER (status = 'missing') AS missing,
       count(*) FILTER (ended = 'full') AS full, count(*) FILTER (ended = 'early') AS early,
       count(*) FILTER (ended = 'broken') AS broken, avg(rounds) FILTER (sound) AS rounds
FROM dialogue_cell WHERE job = $job
GROUP BY simulated, turns, model, receiver, condition ORDER BY ALL
"""

# over attributes of all conditions together, by label set
DOMAINS = """
SELECT simulated, judge, turns, model, domain,
       sum(fully) FILTER (label_set = 'inappropriate')::BIGINT AS leaks,
       sum(known) FILTER (label_set = 'inappropriate')::BIGINT AS leaks_known,
       sum(fully) FILTER (label_set = 'necessary')::BIGINT AS told,
       sum(known) FILTER (label_set = 'necessary')::BIGINT AS told_known,
       sum(fully) FILTER (label_set = 'ambiguous')::BIGINT AS unsettled,
       sum(known) FILTER (label_set = 'ambiguous')::BIGINT AS unsettled_known
FROM dialogue_by_domain WHERE job = $job
GROUP BY simulated, judge, turns, model, domain ORDER BY domain
"""

BASICS = """
SELECT simulated, judge, turns, model, basics, sum(instances)::BIGINT AS instances,
       sum(inappropriate)::BIGINT AS inappropriate,
       sum(leak_full * instances) / nullif(sum(instances), 0) AS leak
FROM dialogue_basics WHERE job = $job
GROUP BY simulated, judge, turns, model, basics ORDER BY basics <> 'exact', basics
"""

REVEALED = """
SELECT simulated, judge, turns, receiver, condition, receiver_profile AS profile,
       count(*) AS planned, count(reveal_full) AS known, sum(reveal_full) AS reveal_full_sum,
       sum(reveal_total) AS reveal_total_sum
FROM dialogue_receiver WHERE job = $job
GROUP BY simulated, judge, turns, receiver, condition, receiver_profile ORDER BY ALL
"""

# what the transcript says of an attribute, against the strongest that any single message does
GRADES = """
SELECT simulated, judge, speaker, turns, transcript, unioned, count(*) AS attributes
FROM (SELECT simulated, judge, speaker, turns, column_id, item, digest, attribute,
             any_value(degree) FILTER (level = 'transcript') AS transcript,
             any_value(degree) FILTER (level = 'union') AS unioned
      FROM dialogue_degree WHERE job = $job AND level <> 'turn' AND degree <> 'missing'
      GROUP BY ALL)
WHERE transcript IS NOT NULL AND unioned IS NOT NULL
GROUP BY ALL ORDER BY speaker DESC, turns
"""

# labels may have been asked for by another job
SPEND = """
SELECT simulated, part, model,
       count(*) AS requests, count(*) FILTER (kind = 'failed') AS failed,
       sum(coalesce(input, 0))::BIGINT AS input_tokens,
       sum(coalesce(cached, 0))::BIGINT AS cached_tokens,
       sum(coalesce(output, 0))::BIGINT AS output_tokens, sum(usd) AS usd,
       coalesce(bool_and(usd IS NOT NULL OR coalesce(input, 0) + coalesce(output, 0) = 0), false)
           AND count(usd) > 0 AS usd_complete
FROM (SELECT * EXCLUDE (simulated), coalesce(simulated, false) AS simulated,
             CASE WHEN starts_with(role, 'judge') THEN 'judge' ELSE role END AS part
      FROM sending
      WHERE job = $job OR (role = 'labeller' AND job IN (
          SELECT label_job FROM label_rule_now WHERE job = $job AND label_job <> '')))
GROUP BY simulated, part, model
ORDER BY list_position(['sender', 'receiver', 'judge', 'labeller'], part), part, model
"""
