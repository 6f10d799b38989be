"""Which servers are up together, and in which order: the fewest loads of shared GPUs.

A shift is a set of models that are up at once. Every column's speakers (its assistant, or both
sides of a dialogue) need a shift that holds them all; models that are only asked afterwards
(judges) come in shifts of their own at the end, unless they fit beside the speakers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TypeAlias

EXACT = 9
"""Groups up to which every order is tried; beyond, each next shift is the one that loads least."""

FULL = 1 + 1e-9
"""All of a GPU, and what adding up shares gets wrong."""

Shares: TypeAlias = Mapping[str, Mapping[str, float]]
"""By model, what it takes of which GPU's memory: 1 is all of it."""


def shifts(
    groups: Iterable[frozenset[str]], later: Iterable[str], share: Shares
) -> list[frozenset[str]]:
    """Sets of models in the order in which they are up, given the ``share`` of each.

    ``groups`` must be up together, ``later`` one by one after all of them. Models stay up while
    they are needed again and there is room. Raises ValueError naming a group that never fits.
    """
    wanted = list(dict.fromkeys(groups))
    for group in wanted:
        for gpu, used in _used(group, share).items():
            if used > FULL:
                on = {name: share[name][gpu] for name in sorted(group) if gpu in share[name]}
                told = ", ".join(f"{name} {part:g}" for name, part in on.items())
                raise ValueError(f"do not fit on GPU {gpu} together ({told}; their sum is above 1)")
    ends = [frozenset({name}) for name in dict.fromkeys(later)]
    order = _least_loads(wanted, ends, share)
    return _merged(_rolled(order, share), frozenset().union(*ends), share)


def needed(
    shift: frozenset[str], waited: Iterable[str], columns: Iterable[tuple[str, frozenset[str]]]
) -> frozenset[str]:
    """Which of a shift to load when calls wait for ``waited``: these, and whom they will ask next.

    ``columns`` are (who is asked first, all who are asked). Where the first of a column is waited
    for, the others have their turn soon. Where it is not, it has spoken, perhaps for good: it is
    loaded when a call waits for it again.
    """
    now = frozenset(waited)
    return shift & now.union(*(everyone for first, everyone in columns if first in now))


def loads(order: Sequence[frozenset[str]]) -> int:
    """How many times a server is started in this order of shifts."""
    up: frozenset[str] = frozenset()
    count = 0
    for shift in order:
        count += len(shift - up)
        up = shift
    return count


def _least_loads(
    groups: list[frozenset[str]], ends: list[frozenset[str]], share: Shares
) -> list[frozenset[str]]:
    # Groups that another one holds need no shift of their own.
    groups = [group for group in groups if not any(group < other for other in groups)]
    if len(groups) <= EXACT:
        return [*_exact(tuple(groups), tuple(ends), share), *ends]
    return [*_nearest(groups, ends), *ends]


def _exact(
    groups: tuple[frozenset[str], ...], ends: tuple[frozenset[str], ...], share: Shares
) -> list[frozenset[str]]:
    """The order whose rolled shifts load least; every order is tried, with what is up kept."""
    whole = (1 << len(groups)) - 1

    @cache
    def best(done: int, up: frozenset[str]) -> tuple[int, tuple[int, ...]]:
        if done == whole:
            count, held = 0, up
            for position, end in enumerate(ends):
                now = _kept(end, held, frozenset().union(*ends[position:]), share)
                count += len(now - held)
                held = now
            return count, ()
        found = (1 << 30, ())  # type: tuple[int, tuple[int, ...]]
        for place, group in enumerate(groups):
            if done >> place & 1:
                continue
            rest = [g for n, g in enumerate(groups) if not done >> n & 1]
            now = _kept(group, up, frozenset().union(*rest, *ends), share)
            more, order = best(done | 1 << place, now)
            found = min(found, (more + len(now - up), (place, *order)))
        return found

    return [groups[place] for place in best(0, frozenset())[1]]


def _nearest(groups: list[frozenset[str]], ends: list[frozenset[str]]) -> list[frozenset[str]]:
    """Each next group is one that shares most with what is up, a rarer model first."""
    left = list(groups)
    last = frozenset().union(*ends)
    order: list[frozenset[str]] = []
    up: frozenset[str] = frozenset()
    while left:

        def cost(group: frozenset[str], up: frozenset[str] = up) -> tuple[int, int, int]:
            others = sum(bool(group & up & other) for other in left)
            return (len(group - up), len(group & last), others)

        chosen = min(left, key=cost)
        left.remove(chosen)
        order.append(chosen)
        up = chosen
    return order


def _rolled(order: Sequence[frozenset[str]], share: Shares) -> list[frozenset[str]]:
    """Every shift with what is up already, wanted again and has room."""
    rolled: list[frozenset[str]] = []
    up: frozenset[str] = frozenset()
    for place, group in enumerate(order):
        up = _kept(group, up, frozenset().union(*order[place:]), share)
        if not rolled or rolled[-1] != up:
            rolled.append(up)
    return rolled


def _merged(
    order: Sequence[frozenset[str]], last: frozenset[str], share: Shares
) -> list[frozenset[str]]:
    """Shifts that fit together as one: it loads no more, and more is under way.

    They are neighbours, but one whose models have no other shift may also go to an earlier one,
    unless they are of the ``last``, which must come after all others.
    """
    merged: list[frozenset[str]] = []
    for shift in order:
        alone = not shift & last and sum(bool(shift & other) for other in order) == 1
        places = range(0 if alone else max(0, len(merged) - 1), len(merged))
        place = next((one for one in places if fits(merged[one] | shift, share)), None)
        if place is None:
            merged.append(shift)
        else:
            merged[place] |= shift
    return merged


def _kept(
    group: frozenset[str], up: frozenset[str], again: frozenset[str], share: Shares
) -> frozenset[str]:
    """``group`` and those of ``up`` that are needed ``again``, as far as they fit."""
    kept = group
    for name in sorted(up - group):
        if name in again and fits(kept | {name}, share):
            kept = kept | {name}
    return kept


def fits(group: Iterable[str], share: Shares) -> bool:
    """Whether models may be up together."""
    return all(used <= FULL for used in _used(group, share).values())


def _used(group: Iterable[str], share: Shares) -> dict[str, float]:
    """How much of each GPU's memory a group takes."""
    used: dict[str, float] = {}
    for name in group:
        for gpu, part in share[name].items():
            used[gpu] = used.get(gpu, 0.0) + part
    return used
