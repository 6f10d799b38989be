"""What the batches of a lane brought in, and the lane's numbers with those of its online calls."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from leakgrid.batches.harvest import Harvest
from leakgrid.lanes.values import LaneStatistics

SUMS = (
    "sent", "answered", "in_flight", "waiting", "input_tokens", "output_tokens", "usd", "unpriced",
)  # fmt: skip
"""Statistics that add up over batches and online calls."""


@dataclass(slots=True)
class Tally:
    """What a lane's batches brought in during this run."""

    kept: int = 0
    usd: float = 0.0
    unpriced: int = 0
    input: int = 0
    output: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)

    def add(self, harvest: Harvest) -> None:
        """Count what a harvest brought, and begin it anew."""
        self.kept += harvest.kept
        self.usd += harvest.usd
        self.unpriced += harvest.unpriced
        self.input += harvest.input
        self.output += harvest.output
        for outcome, count in harvest.outcomes.items():
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + count
        harvest.kept = harvest.unpriced = harvest.input = harvest.output = 0
        harvest.usd = 0.0
        harvest.outcomes.clear()

    def statistics(
        self,
        name: str,
        *,
        sent: int,
        in_flight: int,
        waiting: int,
        tokens_per_byte: float,
        stopped: str,
    ) -> LaneStatistics:
        """The numbers of a lane that sends batches only; a batch has no limit and no latency."""
        return LaneStatistics(
            name=name,
            sent=sent,
            answered=self.kept,
            outcomes=dict(self.outcomes),
            in_flight=in_flight,
            waiting=waiting,
            limit=0,
            gated_s=0.0,
            input_tokens=self.input,
            output_tokens=self.output,
            usd=self.usd,
            unpriced=self.unpriced,
            latency_mean_s=0.0,
            latency_p95_s=0.0,
            tokens_per_byte=tokens_per_byte,
            allowed_per_s=None,
            stopped=stopped,
        )


def together(batched: LaneStatistics, online: LaneStatistics) -> LaneStatistics:
    """Batches and the online calls that followed them, as the numbers of one lane."""
    both = Counter(batched.outcomes) + Counter(online.outcomes)
    return replace(
        online,
        name=batched.name,
        outcomes=dict(both),
        stopped=batched.stopped,
        **{name: getattr(batched, name) + getattr(online, name) for name in SUMS},
    )
