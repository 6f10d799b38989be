"""Write the shipped MuPPET items from the seed material; the same seed gives the same bytes.

Run: python -m leakgrid.datasets.muppet_generate [--out PATH] [--seed N] [--per-question N]
Raises DatasetError (printed, exit code 2) when an item cannot be written without a fault.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from leakgrid.datasets.items import parse_item
from leakgrid.datasets.muppet_checks import max_gram_share, reasons
from leakgrid.datasets.muppet_plan import make_plan
from leakgrid.datasets.muppet_seeds import MATERIAL, Seeds, load_seeds
from leakgrid.datasets.muppet_write import Writer
from leakgrid.outcomes import DatasetError

SEED = 20260622
PER_QUESTION = 6
TRIES = 40


@dataclass(slots=True)
class Made:
    """Items as JSON objects, and how many drafts were dropped for which reason."""

    items: list[dict[str, Any]] = field(default_factory=list)
    drops: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)


def make_items(seeds: Seeds, seed: int = SEED, per_question: int = PER_QUESTION) -> Made:
    """All items. A draft with a fault is dropped, counted and written anew."""
    rng = random.Random(seed)
    writer = Writer(seeds, rng)
    made = Made()
    for number, plan in enumerate(make_plan(seeds, per_question, rng), start=1):
        for _ in range(TRIES):
            draft = writer.write(plan, number)
            faults = reasons(draft, plan.category.words)
            if not faults:
                break
            for name, texts in faults.items():
                made.drops[name] += 1
                made.examples.setdefault(texts[0], name)
        else:
            raise DatasetError(
                f"item {number} ({plan.question.id}, {plan.detail.key}): found faults in all "
                f"{TRIES} drafts, the last: {faults}; allowed: none; correct the seed phrases"
            )
        made.items.append(draft)
    return made


def item_lines(items: Sequence[dict[str, Any]]) -> bytes:
    """Items as JSON lines, one object a line in schema order."""
    return b"".join(orjson.dumps(item) + b"\n" for item in items)


def summary(made: Made) -> str:
    """Counts by reason, size, category and department, and the most repeated 8-gram."""
    items = made.items
    share, gram = max_gram_share(items)
    tokens = sorted(item["statistics"]["tokens"] for item in items)
    sizes = Counter(item["statistics"]["parties"] for item in items)
    informed = sum(item["asker_informed"] for item in items)
    lines = [
        f"items {len(items)}, groups {len({item['group'] for item in items})}, "
        f"asker informed {informed}, not informed {len(items) - informed}",
        f"drafts dropped {sum(made.drops.values())}: "
        + (", ".join(f"{name} {n}" for name, n in sorted(made.drops.items())) or "none"),
        "people: " + ", ".join(f"{size}: {n}" for size, n in sorted(sizes.items())),
        f"tokens: min {tokens[0]}, median {tokens[len(tokens) // 2]}, max {tokens[-1]}",
        f"most frequent 8-gram (names aside): {share:.2%} of items, {gram!r}",
    ]
    for key in ("topic", "category", "department"):
        counts = Counter(item[key] for item in items)
        lines.append(f"{key}: " + ", ".join(f"{name} {n}" for name, n in sorted(counts.items())))
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Generate, check and write the file; prints the summary. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="muppet_generate", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=MATERIAL / "items.jsonl")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--per-question", type=int, default=PER_QUESTION)
    parser.add_argument("--show-drops", action="store_true", help="print one example a fault")
    options = parser.parse_args(argv)
    try:
        made = make_items(load_seeds(), options.seed, options.per_question)
        data = item_lines(made.items)
        for number, line in enumerate(data.splitlines(), start=1):
            parse_item(line, options.out, number)
    except DatasetError as error:
        print(error, file=sys.stderr)
        return 2
    # A reader must never meet half a file.
    temporary = options.out.with_name(options.out.name + ".part")
    temporary.write_bytes(data)
    os.replace(temporary, options.out)
    print(summary(made))
    if options.show_drops:
        print("\n".join(f"  {name}: {text}" for text, name in made.examples.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
