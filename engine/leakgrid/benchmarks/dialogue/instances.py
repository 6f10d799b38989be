"""Which instances there are: sender × context × receiver, and parts of all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import orjson

from leakgrid.benchmarks.dialogue.settings import Subset
from leakgrid.datasets.cimemories import Context, Profile, Profiles
from leakgrid.outcomes import DatasetError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Instance:
    """Who speaks to whom about what; without a receiver nobody answers (or nobody speaks).

    digest is 16 bytes: blake2b-128 over both profiles and the context.
    """

    id: str
    sender: Profile
    receiver: Profile | None
    context: Context
    digest: bytes = field(repr=False)


def dialogues(loaded: Profiles, subset: Subset, path: Path) -> tuple[Instance, ...]:
    """Every ordered pair of two profiles in each of the sender's contexts.

    Sender, then context, then receiver: what is said of a sender in a context is one piece.
    Raises DatasetError where there is one profile only.
    """
    profiles = _first(loaded.profiles, subset.profiles)
    if len(profiles) < 2:
        raise DatasetError(
            f"{path}: one profile alone has nobody to talk to; take two or more "
            "(subset.profiles), or turns = [0] for single messages"
        )
    return _part(
        (
            _instance(f"{sender.id}>{receiver.id}/{context.id}", sender, receiver, context)
            for sender in profiles
            for context in _contexts(loaded, sender, subset)
            for receiver in profiles
            if receiver is not sender
        ),
        subset,
    )


def alone(loaded: Profiles, subset: Subset) -> tuple[Instance, ...]:
    """Every profile in each of its contexts, with nobody on the other side."""
    return _part(
        (
            _instance(f"{sender.id}/{context.id}", sender, None, context)
            for sender in _first(loaded.profiles, subset.profiles)
            for context in _contexts(loaded, sender, subset)
        ),
        subset,
    )


def drawn(
    things: Sequence[T],
    count: int,
    seed: int,
    name: Callable[[T], str],
    stratum: Callable[[T], Hashable],
) -> tuple[T, ...]:
    """``count`` of ``things`` in their order, drawn by ``seed``, even over strata.

    No stratum gives two more than another that still has some. A smaller draw is part of a
    larger one, and the lots hang on names alone: more things change a draw as little as can be.
    """
    groups: dict[Hashable, list[tuple[bytes, int]]] = {}
    for place, thing in enumerate(things):
        lot = hashlib.blake2b(f"{seed}:{name(thing)}".encode(), digest_size=16).digest()
        groups.setdefault(stratum(thing), []).append((lot, place))
    order = sorted(
        (rank, lot, place)
        for group in groups.values()
        for rank, (lot, place) in enumerate(sorted(group))
    )
    chosen = sorted(place for _, _, place in order[:count])
    return tuple(things[place] for place in chosen)


def _part(instances: Iterable[Instance], subset: Subset) -> tuple[Instance, ...]:
    found = tuple(instances)
    if subset.instances is None or subset.instances >= len(found):
        return found
    return drawn(
        found,
        subset.instances,
        subset.seed,
        name=lambda one: one.id,
        stratum=lambda one: one.context.id,
    )


def _first(things: Sequence[T], count: int | None) -> Sequence[T]:
    return things[:count]


def _contexts(loaded: Profiles, profile: Profile, subset: Subset) -> tuple[Context, ...]:
    """The profile's contexts among the first ones of the file, in the profile's own order."""
    wanted = set(_first(loaded.contexts, subset.contexts))
    return tuple(one for one in loaded.contexts_of(profile.id) if one in wanted)


def _instance(name: str, sender: Profile, receiver: Profile | None, context: Context) -> Instance:
    content = [
        name,
        sender.digest.hex(),
        receiver.digest.hex() if receiver is not None else "",
        context.recipient,
        context.task,
    ]
    digest = hashlib.blake2b(orjson.dumps(content), digest_size=16).digest()
    return Instance(name, sender, receiver, context, digest)
