"""Waits between attempts: never below the base nor above the most, and further apart each time."""

from __future__ import annotations

import itertools
import random
import re
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakgrid.lanes.retry import BASE_S, MOST_ATTEMPTS, MOST_S, backoff
from leakgrid.outcomes import Outcome
from tests.docs import README, ROOT


@pytest.fixture(autouse=True)
def _seeded() -> None:
    random.seed(7)


def chain(attempts: int) -> list[float]:
    """The waits of one call that fails so often."""
    waits = [0.0]
    for _ in range(attempts):
        waits.append(backoff(waits[-1]))
    return waits[1:]


@given(st.floats(0.0, 1e9), st.integers(0, 2**32))
def test_a_wait_is_between_the_base_and_three_times_the_one_before(
    previous: float, seed: int
) -> None:
    random.seed(seed)
    wait = backoff(previous)
    assert BASE_S <= wait <= min(MOST_S, 3 * max(previous, BASE_S))


def test_calls_that_failed_together_come_back_ever_further_apart() -> None:
    chains = [chain(5) for _ in range(4000)]
    spreads = [statistics.pstdev(waits) for waits in zip(*chains, strict=True)]
    means = [statistics.mean(waits) for waits in zip(*chains, strict=True)]
    for one, other in itertools.pairwise(spreads):
        assert other > 1.3 * one
    assert means == sorted(means)
    # The first wait too is drawn: evenly between the base and three times it.
    first = sorted(waits[0] for waits in chains)
    assert first[0] < 1.05 * BASE_S and first[-1] > 2.95 * BASE_S
    assert means[0] == pytest.approx(2 * BASE_S, rel=0.03)


def test_a_long_chain_stays_at_most_the_most_and_reaches_it() -> None:
    waits = [wait for _ in range(200) for wait in chain(20)]
    assert max(waits) == MOST_S and min(waits) >= BASE_S


@pytest.mark.parametrize("outcome", MOST_ATTEMPTS)
def test_the_pages_name_as_many_attempts_as_are_made(outcome: Outcome) -> None:
    told = f"at most {MOST_ATTEMPTS[outcome]} attempts"
    tree = (ROOT / "engine" / "leakgrid" / "outcomes.py").read_text("utf-8")
    (branch,) = (line for line in tree.splitlines() if f"── {outcome.value} " in line)
    assert told in branch
    (row,) = (
        line for line in README.read_text("utf-8").splitlines()
        if line.startswith(f"| {outcome.value} |")
    )  # fmt: skip
    assert told in row


def test_the_pages_name_the_same_statuses() -> None:
    tree = (ROOT / "engine" / "leakgrid" / "outcomes.py").read_text("utf-8")
    page = README.read_text("utf-8")
    for outcome in ("invalid", "overload", "transient"):
        (branch,) = re.findall(rf"── {outcome} +(.*)", tree)
        (row,) = re.findall(rf"^\| {outcome} \| ([^|]*)", page, re.M)
        assert re.findall(r"\b\d{3}\b", branch) == re.findall(r"\b\d{3}\b", row), outcome
