"""``leakgrid data``: what a dataset file or a released folder holds, and its conversion.

Raises DatasetError for a file or folder that cannot be used at all.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TextIO

import orjson

from leakgrid.datasets.cimemories import load_profiles
from leakgrid.datasets.cimemories_statistics import statistic_lines as profile_lines
from leakgrid.datasets.items import Item, load_items
from leakgrid.datasets.muppet_parties_match import condition_table
from leakgrid.datasets.muppet_released import (
    UNUSABLE,
    load_released,
    released_lines,
    report_lines,
)
from leakgrid.outcomes import DatasetError


def check(path: Path, out: TextIO) -> None:
    """Print statistics and oddities: of a file of items or profiles, or of a released folder.

    A name that ends in .json is a file of CIMemories profiles.
    """
    if path.suffix == ".json" and not path.is_dir():
        profiles = load_profiles(path)
        odd = [f"oddity: {line}" for line in profiles.oddities] or ["oddities: none"]
        print("\n".join([*profile_lines(profiles), *odd]), file=out)
        return
    if path.is_dir():
        released = load_released(path)
        print("\n".join([*statistic_lines(released.items), *report_lines(released)]), file=out)
        return
    items = load_items(path)
    print("\n".join(statistic_lines(items)), file=out)
    if missing := sorted({part for item in items for part in item.missing}):
        print("\n".join([f"items lack {', '.join(missing)}:", *UNUSABLE]), file=out)
    if all(item.variant for item in items):
        lines = path.read_bytes().split(b"\n")
        print(condition_table([orjson.loads(line) for line in lines if line.strip()]), file=out)


def import_muppet(folder: Path, target: Path, out: TextIO) -> None:
    """Convert a released folder into a file of items and print the report."""
    released = load_released(folder)
    temporary = target.with_name(target.name + ".part")
    try:
        # A reader must never meet half a file.
        temporary.write_bytes(released_lines(released.objects))
        os.replace(temporary, target)
    except OSError as error:
        raise DatasetError(
            f"{target}: cannot be written ({error.strerror}); allowed: a file in an existing "
            "folder; correct --out"
        ) from error
    print("\n".join(report_lines(released)), file=out)
    print(f"{len(released.items)} items written to {target}", file=out)


def import_labels(source: Path, profiles: Path | None, target: Path, out: TextIO) -> None:
    """Convert labels in the released form into a label file and print the report."""
    from leakgrid.datasets import cimemories_released

    if profiles is None:
        raise DatasetError("labels belong to profiles: give their file with --profiles FILE")
    report = cimemories_released.import_labels(source, load_profiles(profiles), target)
    print("\n".join(report), file=out)


def statistic_lines(items: Sequence[Item]) -> list[str]:
    """Counts and ranges over the items."""
    informed = sum(item.asker_informed for item in items)
    numbers: dict[str, Sequence[float]] = {
        "people": [item.statistics.parties for item in items],
        "informed": [len(item.informed) for item in items],
        "private facts": [item.statistics.facts for item in items],
        "notes": [len(item.notes) for item in items],
        "turns": [len(item.transcript) for item in items],
        "tokens": [item.statistics.tokens for item in items],
        "density (facts per 1000 tokens)": [item.statistics.density for item in items],
    }
    lines = [
        f"items {len(items)}, groups {len({item.group for item in items})}, "
        f"asker informed {informed}, not informed {len(items) - informed}"
    ]
    lines += [
        f"{name}: min {min(values):g}, median {median(values):g}, max {max(values):g}"
        for name, values in numbers.items()
    ]
    for name, found in (
        ("topic", [item.topic for item in items]),
        ("category", [item.category for item in items]),
    ):
        counts = sorted(Counter(found).items())
        lines.append(f"{name}: " + ", ".join(f"{value} {count}" for value, count in counts))
    return lines
