"""What a job of the dialogue benchmark may choose beyond the common keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PERSONAS = ("fundamentalist", "pragmatic", "unconcerned")

WESTIN_WEIGHTS: Mapping[str, float] = {
    "fundamentalist": 0.26,
    "pragmatic": 0.64,
    "unconcerned": 0.10,
}
"""Shares of the population by Westin's index, as CIMemories weighs its personas."""

PROMPT_CONDITIONS = ("pc0", "pc1", "pc2")
"""Dialogue: no system prompt, privacy-aware, task-maximising."""

MESSAGE_CONDITIONS = ("base", "avoid-unnecessary", "strict-minimum", "maximise-task")
"""A single message: the four task levels of CIMemories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRule:
    """Where labels come from and how they are weighed.

    Either a label file, or the name of a job of the benchmark ``ci-labels``. ``threshold``
    1.0 is the released rule: all samples of all personas agree, so that weights cannot matter.
    ``basics``: which attributes never count as inappropriate (name, address, sex, age):
    ``exact`` keys, or every key that contains one of these words, as released (``compat``).
    """

    file: Path | None = None
    job: str = ""
    weights: Mapping[str, float] = field(default_factory=lambda: dict(WESTIN_WEIGHTS))
    threshold: float = 1.0
    basics: str = "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subset:
    """A part of all instances; None is all. ``instances`` are drawn by seed, even over contexts."""

    profiles: int | None = None
    contexts: int | None = None
    instances: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The axes and options of a dialogue job; ``turns`` (0,) is the single message."""

    receivers: tuple[str, ...] = ()
    turns: tuple[int, ...] = (6,)
    early_end: bool = True
    labels: LabelRule = LabelRule()
    subset: Subset = Subset()
