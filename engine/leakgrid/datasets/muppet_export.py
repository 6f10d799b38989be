"""From the records of a job that writes items to a dataset file and its card.

Raises DatasetError for rows that are no such records, or whose item does not load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from leakgrid.datasets.items import parse_item
from leakgrid.datasets.muppet_checks import max_gram_share
from leakgrid.outcomes import DatasetError

WHERE = Path("(export)")
MADE = {
    "writer": "model that wrote",
    "judge": "model that judged",
    "prompts": "digest of the prompts",
    "seed": "seed of the plan",
    "version": "version of the program",
}
STAGES = ("notes", "conversation", "quality")
MEANING = {
    "unreadable": "no JSON object of the form asked for",
    "truncated": "the answer was cut off",
    "refusal": "the model or a filter declined",
    "surface form": "a form is in no note, serves two facts, or gives nothing away",
    "secret in shared text": "a form or a word of the category in a text that all may read",
    "note": "a note names the wrong people, lacks its fact, or says I",
    "who knows": "a colleague is told too much or too little",
    "useful fact": "not about the owner, or not what the personal note says",
    "counts": "too few or too many shared notes or useful facts, or one twice",
    "echo": "eight words of the prompt, or the same eight words in many notes",
    "typography": "articles, agreement, doubled words, open places, capitals, full stops",
    "turns": "too few or too many messages, the wrong last one, or the question asked early",
    "senders": "a sender who is no member, too few voices, or too much of the owner",
    "chat": "the request, the assistant or the order of senders is wrong",
    "leaks": "the judge: the chat gives the private matter away",
    "not coherent": "the judge: messages do not fit each other",
    "off topic": "the judge: not about the subject",
    "not consistent": "the judge: contradicts the notes",
}


@dataclass(slots=True)
class _Tally:
    """What the rows hold together."""

    rows: int = 0
    simulated: int = 0
    items: list[dict[str, Any]] = field(default_factory=list)
    pairs: Counter[str] = field(default_factory=Counter)
    drops: Counter[tuple[str, str]] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    second: Counter[str] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)
    kept_sizes: Counter[int] = field(default_factory=Counter)
    made: dict[str, set[str]] = field(default_factory=dict)


def export_items(
    rows: Iterable[tuple[str, str, Mapping[str, Any]]],
) -> tuple[bytes, str]:
    """(JSON lines of the kept items by id, the card in Markdown) of (item, reply, extra) rows.

    ``reply`` is an item's line or empty, ``extra`` as ``muppet_generate/program.py`` leaves it.
    """
    tally = _Tally()
    lines: dict[str, bytes] = {}
    for item, reply, extra in rows:
        _count(tally, item, extra)
        if not extra["kept"]:
            continue
        line = reply.encode()
        parsed = parse_item(line, WHERE / item, 1)
        if parsed.id in lines:
            raise DatasetError(
                f"{item}: found two rows for the item {parsed.id!r}; allowed: one; export one "
                "writer's rows at a time"
            )
        lines[parsed.id] = line
        tally.items.append(orjson.loads(line))
        tally.kept_sizes[extra["size"]] += 1
        tally.pairs[extra["pair"]] += 1
    if not tally.rows:
        raise DatasetError("found no finished cells to export; run the job first")
    tally.items.sort(key=lambda one: str(one["id"]))
    return b"".join(lines[name] + b"\n" for name in sorted(lines)), "\n".join(_card(tally)) + "\n"


def _count(tally: _Tally, item: str, extra: Mapping[str, Any]) -> None:
    try:
        attempts, made = extra["attempts"], extra["made"]
        stage, reason, kept = extra["stage"], extra["dropped"], extra["kept"]
        tally.sizes[extra["size"]] += 1
    except KeyError as lacking:
        raise DatasetError(
            f"{item}: found a record without {lacking}; allowed: records of a job with "
            'benchmark = "muppet-generate"; name such a job'
        ) from None
    tally.rows += 1
    tally.simulated += extra["simulated"]
    for name, count in attempts.items():
        tally.reached[name] += 1
        tally.second[name] += count > 1
    for name, value in made.items():
        tally.made.setdefault(name, set()).add(str(value))
    if not kept:
        tally.drops[stage, reason] += 1


def _card(tally: _Tally) -> Iterator[str]:
    items = tally.items
    yield "# Generated MuPPET items: the card"
    yield ""
    yield (
        f"{len(items)} items of {tally.rows} planned, written by a language model after a plan "
        "made in code, checked in code and by a judging model. Schema, intended use and limits "
        "of the form are those of datasets/muppet/README.md; what differs stands here."
    )
    yield ""
    if tally.simulated:
        yield f"**SIMULATED**: in {tally.simulated} of these a simulation answered, not a model."
        yield ""
    yield from _table(
        ("how", ""),
        [(told, ", ".join(sorted(tally.made.get(key, ())))) for key, told in MADE.items()],
    )
    yield from _section("What is in it")
    yield from _table(("", ""), _contents(tally))
    yield from _section("What was dropped")
    yield (
        "Shares are of all planned items. A draft with a fault was asked for once more, with "
        "another sample number; the reason is the last draft's first fault. No draft was mended."
    )
    yield ""
    yield from _drops(tally)
    yield from _section("Limits")
    yield (
        "- Written by one model: its habits of phrase are in every item. What another model "
        "makes of such items may depend on how alike the two are; the writer should not be "
        "among the assistants that are tested."
    )
    yield (
        "- The checks in code find wordings, not meanings: a hint in other words is the judging "
        "model's to find, and no person has read the items. Read a sample before you publish."
    )
    yield (
        "- Drops are not random: categories whose words are common in office talk are dropped "
        "more often. Compare the counts by category."
    )
    yield (
        "- The terms of the models' providers say what you may do with their output; look there "
        "before you pass the file on."
    )


def _section(title: str) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""


def _contents(tally: _Tally) -> list[tuple[str, str]]:
    items = tally.items
    pairs = Counter(tally.pairs.values())
    rows = [
        ("pairs with both askers", str(pairs[2])),
        (
            "asker",
            f"informed in {sum(item['asker_informed'] for item in items)}, "
            f"not informed in {sum(not item['asker_informed'] for item in items)}",
        ),
        (
            "people in a group",
            ", ".join(
                f"{size}: {tally.kept_sizes[size]} of {planned}"
                for size, planned in sorted(tally.sizes.items())
            ),
        ),
    ]
    if not items:
        return rows
    for key in ("topic", "category", "department"):
        counts = Counter(item[key] for item in items)
        rows.append((key, ", ".join(f"{name} {n}" for name, n in sorted(counts.items()))))
    rows.append(("questions", f"{len({item['question_id'] for item in items})} of 53"))
    facts = Counter(item["statistics"]["facts"] for item in items)
    rows.append(("private facts", ", ".join(f"{n}: {facts[n]} items" for n in sorted(facts))))
    tokens = sorted(item["statistics"]["tokens"] for item in items)
    rows.append(("tokens", f"{tokens[0]} to {tokens[-1]}, median {tokens[len(tokens) // 2]}"))
    # Both items of a pair have the same texts, so one of each is counted.
    single = list({_pair_of(item): item for item in items}.values())
    share, gram = max_gram_share(single)
    rows.append(
        ("most repeated 8 words, names aside", f"in {share:.1%} of the pairs: {_code(gram)}")
    )
    return rows


def _pair_of(item: Mapping[str, Any]) -> tuple[str, str]:
    return item["group"], item["question"]


def _drops(tally: _Tally) -> Iterator[str]:
    order = {stage: place for place, stage in enumerate(STAGES)}
    drops = sorted(
        tally.drops.items(), key=lambda drop: (order.get(drop[0][0], 9), -drop[1], drop[0])
    )
    failed = "the call failed or was wrong; a failed one is asked again by the next run"
    rows = [
        (stage, reason, str(count), f"{count / tally.rows:.1%}", MEANING.get(reason, failed))
        for (stage, reason), count in drops
    ]
    dropped = sum(tally.drops.values())
    rows.append(("all", "", str(dropped), f"{dropped / tally.rows:.1%}", ""))
    yield from _table(("stage", "reason", "items", "share", "meaning"), rows)
    yield ""
    yield from _table(
        ("stage", "items that reached it", "needed a second draft", "dropped there"),
        [
            (
                stage,
                str(tally.reached[stage]),
                _of(tally.second[stage], tally.reached[stage]),
                _of(
                    sum(n for (at, _), n in tally.drops.items() if at == stage),
                    tally.reached[stage],
                ),
            )
            for stage in STAGES
        ],
    )


def _of(count: int, whole: int) -> str:
    return f"{count} ({count / whole:.1%})" if whole else "0"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def _code(text: str) -> str:
    return "`" + text.replace("`", "'") + "`"
