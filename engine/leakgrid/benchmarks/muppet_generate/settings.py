"""What a job that writes items may choose, and the one kind of judge it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leakgrid.benchmarks.judges.kinds import Option

CONDITIONS = ("generate",)
"""Such a job has one condition, and the defence is none: nobody is tested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How many items are planned: sizes x groups_per_size x questions_per_group x 2 askers.

    ``sizes`` are people in a group, owner included. With the defaults: 33 groups, 330 items,
    every question at every size.
    """

    seed: int = 20261101
    sizes: tuple[int, ...] = (5, 10, 20)
    groups_per_size: int = 11
    questions_per_group: int = 5


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of judge as job files need to know it."""

    needs_model: bool = True
    options: tuple[Option, ...] = ()


JUDGES: Mapping[str, Kind] = {"quality": Kind()}
"""``quality`` reads a finished chat and says whether it is fit to be an item."""
