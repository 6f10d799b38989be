"""The findings of a dialogue job in a few sentences; only what the numbers carry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakgrid.reports.rows import Row

if TYPE_CHECKING:
    from leakgrid.reports.dialogue import Dialogue


def headline(told: Dialogue) -> list[str]:
    """Size, endings, leakage and completeness, conditions, rounds, and what is doubtful."""
    said = [_size(told), *_endings(told)]
    rows = [
        row
        for row in told.by_sender
        if (row["judge"], row["turns"]) == (told.judge, told.turns)
        and row["leak_full"]["value"] is not None
    ]
    if not rows:
        return [*said, *_lost(told), "No leakage is known yet, so no rate can be told."]
    said += _rates(told, rows)
    if told.answered:
        said += _conditions(told) + _rounds(told) + _turns(told)
    else:
        said += _messages(told)
    return said + _lost(told)


def _size(told: Dialogue) -> str:
    planned, done = (sum(row[name] for row in told.coverage) for name in ("planned", "done"))
    axes = [
        ("model", "sender"), ("receiver", "receiver"), ("condition", "prompt condition"),
        ("turns", "turn setting"), ("sample", "sample"),
    ]  # fmt: skip
    if not told.answered:
        axes = [(name, word) for name, word in axes if name not in ("receiver", "turns")]
    cells = 1
    for name, _ in axes:
        cells *= len(told.order[name])
    parts = [f"{n} {word if n == 1 else word + 's'}" for name, word in axes
             for n in [len(told.order[name])]]  # fmt: skip
    each = planned // cells if cells else 0
    what = "dialogues" if told.answered else "messages"
    parts.append(f"{each:,} {'instance' if each == 1 else 'instances'}")
    return f"{' × '.join(parts)}: {done:,} of {planned:,} planned {what} are done."


def _endings(told: Dialogue) -> list[str]:
    early, broken = (sum(row[name] for row in told.coverage) for name in ("early", "broken"))
    said = []
    if early:
        said.append(f"{early:,} dialogues ended early because an agent had nothing to add.")
    if broken:
        what = "dialogues" if told.answered else "messages"
        said.append(f"{broken:,} {what} broke off; their silence is never counted as “no leak”.")
    return said


def _rates(told: Dialogue, rows: list[Row]) -> list[str]:
    where = f"in dialogues of {_rounds_word(told.turns)}" if told.answered else "in a message"
    said = f"By judge {told.judge}, {where}, "
    low, high = (pick(rows, key=lambda row: row["leak_full"]["value"]) for pick in (min, max))
    if low is high:
        return [
            f"{said}{low['model']} tells {_share(low['leak_full'])} of the attributes that do not "
            f"belong there and {_share(low['completeness'])} of those that the task needs."
        ]
    least, most = (
        pick((row for row in rows if row["completeness"]["value"] is not None),
             key=lambda row: row["completeness"]["value"], default=None)
        for pick in (min, max)
    )  # fmt: skip
    parts = (
        f"senders tell between {_share(low['leak_full'])} ({low['model']}) and "
        f"{_share(high['leak_full'])} ({high['model']}) of the attributes that do not belong there"
    )
    if least is None or most is None:
        return [f"{said}{parts}."]
    return [
        f"{said}{parts}, and between {_share(least['completeness'])} ({least['model']}) and "
        f"{_share(most['completeness'])} ({most['model']}) of those that the task needs."
    ]


def _conditions(told: Dialogue) -> list[str]:
    """Each condition against the baseline at the longest setting, over all senders."""
    here = [row for row in told.effects if row["turns"] == told.turns]
    pooled = [row for row in here if not row["model"]] or here
    if len({row["condition"] for row in pooled}) < len(pooled):
        return []
    said = []
    for row in pooled:
        leak, told_ = row["leak_full"], row["completeness"]
        if leak["change"]["value"] is None or told_["change"]["value"] is None:
            continue
        said.append(
            f"{row['condition']} against {row['baseline']}: leakage {_points(leak['change'])} "
            f"({_relative(leak['relative'])}), completeness {_points(told_['change'])} "
            f"({_relative(told_['relative'])})."
        )
    return said


def _rounds(told: Dialogue) -> list[str]:
    rows = [row for row in told.rounds.by_sender if row["turns"] == told.turns]
    first, every = (
        sum(row["first_disclosed"] for row in rows if last is None or row["round"] == last)
        for last in (1, None)
    )
    if not every:
        return []
    return [
        f"Of everything that leaks in dialogues of {_rounds_word(told.turns)}, "
        f"{100 * first / every:.0f} % is told in the first one."
    ]


def _turns(told: Dialogue) -> list[str]:
    """Short against long dialogues, over the senders that have both."""
    short = told.order["turns"][0]
    if short == told.turns:
        return []
    by = {
        (row["turns"], row["model"], row["simulated"]): row["leak_full"]["value"]
        for row in told.by_sender
        if row["judge"] == told.judge
    }
    pairs = [
        (by[(short, model, fake)], value)
        for (turns, model, fake), value in by.items()
        if turns == told.turns and by.get((short, model, fake)) is not None and value is not None
    ]
    if not pairs:
        return []
    one, other = (sum(pair[side] for pair in pairs) / len(pairs) for side in (0, 1))
    return [
        f"From {_rounds_word(int(str(short)))} to {told.turns} the mean leakage of senders goes "
        f"from {100 * one:.1f} % to {100 * other:.1f} %."
    ]


def _messages(told: Dialogue) -> list[str]:
    known = [row for row in told.messages.widest if row["violation_full"]["value"] is not None]
    if not known:
        return []
    low, high = (pick(known, key=lambda row: row["violation_full"]["value"]) for pick in (min, max))
    where = [f"{_share(row['violation_full'])} ({row['model']}, {row['condition']})"
             for row in (low, high)]  # fmt: skip
    span = where[0] if low is high else f"between {where[0]} and {where[1]}"
    return [
        f"Violation@{low['n']}: over all tasks and samples {span} of a profile’s attributes are "
        "told where they do not belong."
    ]


def _lost(told: Dialogue) -> list[str]:
    """What labels are in force, and what is not known."""
    said = []
    counts = told.labels.counts
    if counts["labelled"]:
        said.append(
            f"Labels call {counts['necessary']:.1f} attributes of a context necessary, "
            f"{counts['inappropriate']:.1f} inappropriate and {counts['ambiguous']:.1f} ambiguous "
            f"({counts['labelled']:,} of {counts['contexts']:,} contexts of profiles labelled)."
        )
    samples = told.labels.samples
    if samples and samples["missing"]:
        said.append(
            f"The labelling job still lacks {samples['missing']:,} of {samples['planned']:,} "
            "samples; contexts with a missing one are not labelled yet."
        )
    unlabelled = sum(row["unlabelled"] for row in told.by_sender if row["judge"] == told.judge)
    if unlabelled:
        said.append(f"{unlabelled:,} instances have no labels and are part of no rate.")
    doubtful = [row for row in told.by_sender_condition if row["marked"]]
    if doubtful:
        said.append(
            f"{len(doubtful)} of {len(told.by_sender_condition)} groups of sender, condition and "
            "turns are marked: more than 2 % of their values are not known, or over a tenth of the "
            "attributes that may have been told, so read their bounds."
        )
    return said


def _rounds_word(turns: int) -> str:
    return "1 round" if turns == 1 else f"{turns} rounds"


def _share(found: Row) -> str:
    return "–" if found["value"] is None else f"{100 * found['value']:.1f} %"


def _points(found: Row) -> str:
    return f"{100 * found['value']:+.1f} points".replace("-", "−")


def _relative(found: Row) -> str:
    if found["value"] is None:
        return "no relative change: the base is 0"
    return f"{100 * found['value']:+.0f} %".replace("-", "−")
