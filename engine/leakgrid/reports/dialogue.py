"""What a report says of a job of dialogues or single messages: leakage against completeness.

Rates are of the first judge of reveals; further judges stand in the table of senders. Means are
over instances whose value is known, as in the store's views; the counts tell how many are not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from leakgrid.reports import dialogue_published as published
from leakgrid.reports import dialogue_sentences as sentences
from leakgrid.reports import dialogue_sql as sql
from leakgrid.reports.dialogue_labels import Labels, read_labels
from leakgrid.reports.dialogue_rounds import Rounds, read_rounds
from leakgrid.reports.dialogue_sums import (
    MEASURES,
    Jackknifed,
    People,
    arranged,
    average,
    bound,
    correlation,
    estimate,
    grouped,
    known_mean,
    measured,
    tabled,
    within,
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
    single profiles, for the figure; ``levels`` holds transcripts against the union of turns.
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
    levels: list[Row]
    rounds: Rounds
    messages: Messages
    published: published.Published
    reasons: list[Row]
    examples: list[Row]
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
        reader.rows(sql.INSTANCES),
        order,
        "turns",
        "judge",
        "model",
        "receiver",
        "condition",
        "context",
    )
    people = People(row["profile"] for row in every)
    cells = [row for row in every if row["judge"] == judge]
    turns = max((int(str(value)) for value in order["turns"]), default=0)
    revealed = reader.rows(sql.REVEALED) if turns else []
    by_sender = tabled(people, every, ("simulated", "judge", "turns", "model"))
    messages = read_messages(reader, order, judge)
    told = Dialogue(
        order=order,
        judge=judge,
        turns=turns,
        profiles=len(people.names),
        headline=[],
        coverage=arranged(
            reader.rows(sql.COVERAGE), order, "turns", "model", "receiver", "condition"
        ),
        judging=reader.rows("FROM dialogue_judging WHERE job = $job ORDER BY ALL"),
        labels=read_labels(reader),
        by_sender=by_sender,
        by_receiver=tabled(people, cells, ("simulated", "turns", "receiver")) if turns else [],
        by_condition=tabled(people, cells, ("simulated", "turns", "condition")),
        by_sender_condition=tabled(people, cells, ("simulated", "turns", "model", "condition")),
        by_context=_named(
            reader,
            arranged(tabled(people, cells, ("simulated", "turns", "context")), order, "context"),
        ),
        by_domain=arranged(_rows_of(reader, sql.DOMAINS, judge), order, "turns", "model"),
        basics=arranged(_rows_of(reader, sql.BASICS, judge), order, "turns", "model"),
        matrix=tabled(people, cells, ("simulated", "turns", "model", "receiver")) if turns else [],
        effects=_effects(people, cells),
        points=_points(cells),
        correlations=_correlations(people, cells),
        revealed=_revealed(arranged(revealed, order, "turns", "receiver", "condition"), judge),
        levels=_levels(_rows_of(reader, sql.LEVELS, judge)),
        rounds=read_rounds(reader, people, order, judge),
        messages=messages,
        published=published.read(
            reader, published.ours([row for row in by_sender if row["judge"] == judge], messages)
        ),
        reasons=reader.rows(sql.REASONS),
        examples=arranged(_rows_of(reader, sql.EXAMPLES, judge), order, "model"),
        spend=reader.rows(sql.SPEND),
    )
    told.headline.extend(sentences.headline(told))
    return told


def _order(reader: Reader) -> dict[str, list[object]]:
    """Each axis in the plan's order; of judges those of reveals only, turns from few to many."""
    columns = reader.rows(sql.COLUMNS)
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
    order["context"] = [row["context"] for row in reader.rows(sql.CONTEXTS)]
    return order


def _rows_of(reader: Reader, query: str, judge: str) -> list[Row]:
    return [row for row in reader.rows(query) if row["judge"] == judge]


def _named(reader: Reader, rows: list[Row]) -> list[Row]:
    """Contexts with who is written to and why."""
    contexts = {row["context"]: row for row in reader.rows(sql.CONTEXTS)}
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
            parts: dict[str, list[tuple[Jackknifed, Jackknifed]]] = {}
            for (model,), mine in grouped(rows, ("model",)).items():
                by = grouped(mine, ("condition",))
                if (condition,) not in by or (base,) not in by:
                    continue
                told: Row = {}
                for measure in MEASURES:
                    one, other = (
                        measured(people, by[(name,)], measure) for name in (condition, base)
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


def _changed(one: Jackknifed, other: Jackknifed) -> Row:
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
            "leak": _quotient(rows, "leak_full", "leak"),
            "completeness": _quotient(rows, "completeness", "completeness"),
        }
        for (turns, model, profile), rows in grouped(cells, ("turns", "model", "profile")).items()
    ]  # fmt: skip


def _quotient(rows: list[Row], measure: str, about: str) -> float | None:
    value = bound(rows, f"{measure}_sum", f"{about}_n")
    ends = (bound(rows, f"{measure}_{end}_sum", f"{about}_defined") for end in ("low", "high"))
    return value if value is not None and within(value, *ends) else None


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
    found = []
    for (simulated, turns, receiver, condition), part in grouped(
        mine, ("simulated", "turns", "receiver", "condition")
    ).items():
        told: Row = {
            "simulated": simulated, "turns": turns, "receiver": receiver, "condition": condition,
        }  # fmt: skip
        for name in ("reveal_full", "reveal_total"):
            mean, low, high = known_mean(people, part, f"{name}_sum", "known", "planned")
            told |= {name: estimate(mean), f"{name}_low": low, f"{name}_high": high}
        told |= {name: sum(row[name] for row in part) for name in ("planned", "known")}
        found.append(told)
    return found


def _levels(rows: list[Row]) -> list[Row]:
    """Of attributes that transcript or turns call disclosed: how many they grade alike."""
    for row in rows:
        row["disclosed"] = row["alike"] + row["turns_more"] + row["transcript_more"]
        row["agreement"] = row["alike"] / row["disclosed"] if row["disclosed"] else None
    return rows
