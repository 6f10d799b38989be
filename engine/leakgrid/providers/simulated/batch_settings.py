"""How the simulated batch service is to behave: its pace, and the rates of its faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from leakgrid.providers.simulated.fields import Table

STEPS = ("upload", "files", "create", "list", "status", "cancel", "results")
"""The requests that a client makes, in the order in which a batch needs them."""

ENDS = ("queue_full", "expired", "stuck", "early", "hidden", "torn")
"""What may be wrong with a batch as a whole, in the order in which its coin is dealt out.

It fails before it ran as too much is queued; expires when only a part is done; runs until it is
cancelled; is called completed before it has files; is missing from the first listing; its output
ends in the middle of a line.
"""

LINES = ("line_500", "line_429", "line_missing", "line_repeated", "line_strange",
         "line_wrong_id", "line_no_id", "line_torn")  # fmt: skip
"""What may be wrong with one line, in the same way.

The first three are not carried out. The last three are, and their answers are lost: they come
under another custom_id, under none, or as half a line.
"""


@dataclass(frozen=True, slots=True)
class Batching:
    """``turnaround_s``: seconds from a batch's creation to its end.

    ``fails`` and ``lost``: rates by step; of a failure (500) of a request, and of one that is
    carried out while its answer never arrives. ``ends`` and ``lines``: rates of the faults above.
    At most ``max_per_request`` faults in a row meet one step, and as many one line.
    """

    turnaround_s: float = 1.0
    max_per_request: int = 2
    fails: Mapping[str, float] = field(default_factory=dict)
    lost: Mapping[str, float] = field(default_factory=dict)
    ends: Mapping[str, float] = field(default_factory=dict)
    lines: Mapping[str, float] = field(default_factory=dict)


def read(table: Table) -> Batching:
    """The table ``[simulated.batches]``; mistakes are noted in it."""
    table.only("turnaround_s", "max_per_request", "fails", "lost", *ENDS, *LINES)
    ends, lines = (
        {name: table.number(name, 0.0, 0.0, 1.0) for name in names} for names in (ENDS, LINES)
    )
    table.at_most_one(ends, " of batches")
    table.at_most_one(lines, " of lines")
    return Batching(
        turnaround_s=table.number("turnaround_s", 1.0, 0.0, 1e6),
        max_per_request=table.integer("max_per_request", 2, 0, 1_000_000),
        fails=_steps(table.table("fails")),
        lost=_steps(table.table("lost")),
        ends=ends,
        lines=lines,
    )


def _steps(table: Table) -> Mapping[str, float]:
    table.only(*STEPS)
    return {step: table.number(step, 0.0, 0.0, 1.0) for step in STEPS if step in table.values}
