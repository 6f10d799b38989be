"""Steps of a cell that do not need each other's results."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import TypeVar

from leakgrid.outcomes import Parked

Result = TypeVar("Result")


async def every(steps: Iterable[Awaitable[Result]]) -> list[Result]:
    """The results of all steps, one after the other.

    A step whose call is parked does not keep the others from being asked: a batch takes all of
    them at once, and not one in each of many batches. Raises Parked afterwards.
    """
    results: list[Result] = []
    parked: Parked | None = None
    for step in steps:
        try:
            results.append(await step)
        except Parked as waits:
            parked = parked or waits
    if parked is not None:
        raise parked
    return results
