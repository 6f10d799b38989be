"""Models that share a GPU are loaded as seldom as can be."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakgrid.jobs import gpu
from leakgrid.jobs.shifts import _rolled, loads, needed, shifts

ONE, HALF, THIRD = {"0": 1.0}, {"0": 0.5}, {"0": 0.33}


def up(*names: str) -> frozenset[str]:
    return frozenset(names)


def order_of(
    groups: list[frozenset[str]], later: list[str], share: Mapping[str, float]
) -> list[frozenset[str]]:
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
        shifts([up("a", "b")], [], {"a": {"0": 0.7}, "b": {"0": 0.7}})


def test_models_with_gpus_of_their_own_are_up_together() -> None:
    own = {name: {str(place): 0.9} for place, name in enumerate("abcd")}
    pairs = [up(sender, receiver) for sender in "ab" for receiver in "cd"]
    assert shifts(pairs, ["a"], own) == [up("a", "b", "c", "d")]
    # Two GPUs for one model, of which another needs one.
    wide = {"a": {"0": 0.9, "1": 0.9}, "b": {"1": 0.9}, "c": {"2": 0.9}}
    order = shifts([up("a"), up("b"), up("c")], [], wide)
    assert loads(order) == 3 and not any(up("a", "b") <= shift for shift in order)
    with pytest.raises(ValueError, match=r"GPU 1 together \(a 0\.9, b 0\.9;"):
        shifts([up("a", "b", "c")], [], wide)


def test_what_stands_alone_fills_gpus_that_would_be_idle() -> None:
    on = {name: {str(int(name) // 2): 0.9} for name in "01234567"}
    order = shifts([up(name) for name in on], [], on)
    assert order == [up("0", "2", "4", "6"), up("1", "3", "5", "7")]
    # The judge comes after all it judges, though it would fit beside the first.
    judged = shifts([up("0"), up("1")], ["j"], {**on, "j": {"0": 0.1}, "1": {"0": 1.0}})
    assert judged == [up("0"), up("1"), up("j")]


@pytest.mark.parametrize(
    ("judge", "order"),
    [
        ({"4": 0.9}, [up("a", "b", "c", "d", "j")]),  # on a GPU of its own
        ({"0": 0.1}, [up("a", "b", "c", "d", "j")]),  # beside another model
        ({"0": 0.9}, [up("a", "b", "c", "d"), up("j")]),  # after it: three GPUs do not wait
    ],
)
def test_four_assistants_on_four_gpus_and_their_judge(
    judge: dict[str, float], order: list[frozenset[str]]
) -> None:
    share = {name: {str(place): 0.9} for place, name in enumerate("abcd")} | {"j": judge}
    columns = [(up(name), up(name, "j")) for name in "abcd"]
    names = {name: name for name in share}
    assert gpu.order_of(columns, names, share) == order
    # One model under two names, and a judge that is no server of ours.
    assert gpu.order_of(columns, {**names, "b": "a"}, share)[0] >= up("a", "c", "d")
    elsewhere = {name: name for name in "abcd"}
    assert gpu.order_of(columns, elsewhere, share) == [up("a", "b", "c", "d")]


PAIRS = [("s", up("s", "r1", "j")), ("s", up("s", "r2", "j")), ("r1", up("r1", "j"))]


@pytest.mark.parametrize(
    ("shift", "waited", "loaded"),
    [
        (up("s", "r1", "j"), up("s"), up("s", "r1", "j")),  # it speaks first, the others soon
        (up("s", "r1", "j"), up("j"), up("j")),  # all is said, and only judged
        (up("s", "r2", "j"), up("r2"), up("r2")),  # the sender may have spoken for good
        (up("s", "r1", "j"), up("r1"), up("r1", "j")),  # it is also asked first
        (up("s", "r1"), up("s", "j"), up("s", "r1")),  # what is not of the shift waits
    ],
)
def test_only_what_is_waited_for_or_soon_is_loaded(
    shift: frozenset[str], waited: frozenset[str], loaded: frozenset[str]
) -> None:
    assert needed(shift, waited, PAIRS) == loaded


NAMES = st.sampled_from("abcd")
GROUPS = st.lists(st.frozensets(NAMES, min_size=1, max_size=2), min_size=1, max_size=4)


@settings(deadline=None, max_examples=60)
@given(GROUPS, st.lists(NAMES, max_size=2, unique=True), st.sampled_from([HALF, THIRD]))
def test_no_order_of_the_groups_loads_less(
    groups: list[frozenset[str]], later: list[str], share: dict[str, float]
) -> None:
    shares = dict.fromkeys("abcd", share)
    found = shifts(groups, later, shares)
    ends = [frozenset({name}) for name in later]
    best = min(
        loads(_rolled([*order, *ends], shares)) for order in permutations(dict.fromkeys(groups))
    )
    assert loads(found) <= best
    assert all(any(group <= shift for shift in found) for group in groups)
