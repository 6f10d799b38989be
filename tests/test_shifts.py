"""Models that share a GPU are loaded as seldom as can be."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakgrid.jobs.shifts import _rolled, loads, shifts

ONE, HALF, THIRD = 1.0, 0.5, 0.33


def up(*names: str) -> frozenset[str]:
    return frozenset(names)


def order_of(groups: list[frozenset[str]], later: list[str], share: float) -> list[frozenset[str]]:
    names = frozenset().union(*groups, later)
    return shifts(groups, later, dict.fromkeys(names, share))


def test_assistants_come_one_by_one_and_the_judge_last() -> None:
    order = order_of([up("a"), up("b"), up("c")], ["judge"], ONE)
    assert order[-1] == up("judge")
    assert loads(order) == 4


def test_a_judge_that_also_speaks_is_loaded_once() -> None:
    order = order_of([up("judge"), up("a"), up("b")], ["judge"], ONE)
    assert order[-1] == up("judge")
    assert loads(order) == 3


def test_what_fits_beside_stays_up() -> None:
    order = order_of([up("a"), up("b"), up("c")], ["judge"], HALF)
    assert loads(order) == 4
    assert all(len(shift) <= 2 for shift in order)


def test_all_that_fits_together_is_loaded_once() -> None:
    groups = [up("a", "b"), up("a", "c"), up("b", "c")]
    assert loads(order_of(groups, [], THIRD)) == 3


def test_dialogue_pairs_change_one_side_at_a_time() -> None:
    senders, receivers = [f"s{n}" for n in range(7)], [f"r{n}" for n in range(5)]
    pairs = [up(sender, receiver) for sender in senders for receiver in receivers]
    order = order_of(pairs, ["judge"], HALF)
    # 35 pairs on a GPU for two: two loads for the first, one for each other, one for the judge.
    assert loads(order) == 2 + 34 + 1
    assert set(pairs) <= set(order)


def test_all_models_are_up_at_once_where_they_fit() -> None:
    assert order_of([up("a"), up("b")], ["judge"], THIRD) == [up("a", "b", "judge")]


def test_a_group_that_never_fits_is_named() -> None:
    with pytest.raises(ValueError, match=r"a 0\.7, b 0\.7"):
        shifts([up("a", "b")], [], {"a": 0.7, "b": 0.7})


NAMES = st.sampled_from("abcd")
GROUPS = st.lists(st.frozensets(NAMES, min_size=1, max_size=2), min_size=1, max_size=4)


@settings(deadline=None, max_examples=60)
@given(GROUPS, st.lists(NAMES, max_size=2, unique=True), st.sampled_from([HALF, THIRD]))
def test_no_order_of_the_groups_loads_less(
    groups: list[frozenset[str]], later: list[str], share: float
) -> None:
    shares = dict.fromkeys("abcd", share)
    found = shifts(groups, later, shares)
    ends = [frozenset({name}) for name in later]
    best = min(
        loads(_rolled([*order, *ends], shares)) for order in permutations(dict.fromkeys(groups))
    )
    assert loads(found) <= best
    assert all(any(group <= shift for shift in found) for group in groups)
