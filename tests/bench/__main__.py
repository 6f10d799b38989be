"""``python -m tests.bench``: measure everything, print one table, write it into the README."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from tests.bench import commands, prefix, quota, scale, throughput
from tests.bench.children import say
from tests.bench.table import PARTS, README, Row, render, written


def rows(parts: list[str], *, quick: bool, full: list[str]) -> Iterator[Row]:
    """The rows of these parts, as they are measured."""
    if "throughput" in parts:
        yield from throughput.measure(throughput.QUICK if quick else throughput.USUAL)
    if "quota" in parts:
        whole = quota.FULL if "quota" in full else quota.USUAL
        yield from quota.measure(quota.QUICK if quick else whole)
    if "scale" in parts:
        whole_scale = scale.FULL if "scale" in full else scale.USUAL
        yield from scale.measure(scale.QUICK if quick else whole_scale)
    if "commands" in parts:
        yield from commands.measure()
    if "prefix" in parts:
        yield from prefix.measure(prefix.QUICK if quick else prefix.USUAL)


def names(text: str) -> list[str]:
    """A list of parts."""
    given = text.split(",")
    for name in given:
        if name not in PARTS:
            raise argparse.ArgumentTypeError(f"{name!r}: choose from {', '.join(PARTS)}")
    return given


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", type=names, default=list(PARTS), metavar="PART,...")
    parser.add_argument("--quick", action="store_true", help="small sizes; never written")
    parser.add_argument(
        "--full", type=names, default=[], metavar="PART,...",
        help="run quota in real time (16 minutes), scale with 1,000,000 calls (5 minutes)",
    )  # fmt: skip
    parser.add_argument("--scale", choices=("full",), help="short for --full scale")
    parser.add_argument("--write", action="store_true", help="put the table into the README")
    given = parser.parse_args()
    began = time.monotonic()
    full = [*given.full, "scale"] if given.scale else given.full
    found = []
    for row in rows(given.only, quick=given.quick, full=full):
        say(f"{row.measure.what}: {row.value} [{row.measure.bar}: {row.reached}]")
        found.append(row)
    say(f"done in {time.monotonic() - began:.0f} s")
    print(render(found, given.only))
    if given.write and given.quick:
        say("--quick: the README stays as it is")
    elif given.write:
        README.write_text(written(README.read_text("utf-8"), found), "utf-8")


if __name__ == "__main__":
    main()
