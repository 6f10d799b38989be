"""The seam between the engine and a benchmark: items, texts, and one program per cell."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from leakgrid.types import Ask, Call, Json, Message, Record, Schema


class Item(Protocol):
    """What the engine knows of an item: its name and the digest of its content (16 bytes)."""

    @property
    def id(self) -> str:
        """The item's name, unique in its dataset."""

    @property
    def digest(self) -> bytes:
        """16 bytes that change with anything in the item."""


@dataclass(frozen=True, slots=True)
class JudgeUse:
    """A judge of a job: its [judges.NAME] table.

    ``model`` is empty for a judge that asks none. ``options`` holds those that its kind takes.
    ``temperature`` goes with its calls; None leaves that to the parameters of its model.
    """

    name: str
    kind: str
    model: str
    options: Mapping[str, Json] = field(default_factory=dict)
    temperature: float | None = None

    def call(self, system: str, user: str, schema: Schema, sample: int, step: str = "") -> Call:
        """A call to this judge's model; ``step`` names one on the way to what it says."""
        return Call(
            model=self.model,
            messages=(Message("system", system), Message("user", user)),
            schema=schema,
            params={} if self.temperature is None else {"temperature": self.temperature},
            sample=sample,
            role=f"judge:{self.name}:{step}" if step else f"judge:{self.name}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Where a cell stands in the grid, but for its item.

    ``receiver`` is the model of the other side in a dialogue of ``turns`` rounds; empty and 0
    where there is none.
    """

    model: str
    defence: str
    condition: str
    sample: int
    receiver: str = ""
    turns: int = 0


class Benchmark(Protocol):
    """What a job's ``benchmark`` names. It speaks to models through ``ask`` only."""

    @property
    def version(self) -> str:
        """Part of every cell's fingerprint."""

    @property
    def items(self) -> Sequence[Any]:
        """Every item of the dataset (see ``Item``)."""

    def texts(self, defence: str, condition: str) -> Any:
        """Every text and version (JSON) that goes into cells of this defence and condition."""

    def attributes(self) -> Sequence[tuple[str, ...]]:
        """(item, attribute key, sensitive category[, hash of its text]) of all that may leak."""

    def facts(self) -> Mapping[str, Json]:
        """What tables need beyond items and attributes: more keys of the plan that is kept."""

    def cues(self) -> Mapping[str, Mapping[str, str]]:
        """Sentences by which a simulated server tells defences and conditions apart."""

    def example(self, call: Call) -> str | None:
        """A usual answer to one of its calls, for forecasts; None where any that fits will do."""

    def cell(self, ask: Ask, item: Any, point: Point) -> Coroutine[Any, Any, Record]:
        """Run one cell."""
