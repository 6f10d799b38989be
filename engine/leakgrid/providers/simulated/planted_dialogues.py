"""The planted truth of simulated dialogues: what a configuration makes each agent tell, and when.

Everything here is exact for dialogues whose messages were not cut by a token limit of the
request. A condition without a cue cannot be recognised and counts as pc0, as on the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leakgrid.providers.simulated import agents, labellers
from leakgrid.providers.simulated.hints import FULL
from leakgrid.providers.simulated.settings import Simulated
from leakgrid.providers.simulated.world import World, known_of, load

_WORLDS: dict[tuple[object, ...], World] = {}


@dataclass(frozen=True, slots=True)
class Rate:
    """Probabilities that an attribute is told in full, or only as a hint; ``total`` is either."""

    full: float
    partial: float

    @property
    def total(self) -> float:
        """Probability that it is told at all."""
        return self.full + self.partial


def planted_labels(config: Simulated, profile: str, context: str) -> dict[str, str]:
    """necessary, inappropriate or other by attribute. Raises KeyError for an unknown profile."""
    world = _world(config)
    person = world.persons[profile]
    classes = world.classes(person, context)
    return {memory.key: kind for memory, kind in zip(person.memories, classes, strict=True)}


def planted_messages(
    config: Simulated,
    model: str,
    condition: str,
    profile: str,
    context: str,
    sample: int,
    rounds: int,
    *,
    role: str = agents.SENDER,
    opening: str = "",
    may_end: bool = True,
) -> tuple[dict[str, str], ...]:
    """Degree by attribute of all that each of an agent's messages discloses, repeats included.

    ``rounds`` are those held. There are fewer messages where the agent ends the dialogue by
    itself and ``may_end`` (the job's early_end). A receiver's truth also follows from the
    ``opening`` that it was sent, and ``profile`` is its own. Raises KeyError for an unknown one.
    """
    world = _world(config)
    person = world.persons[profile]
    if role == agents.RECEIVER:
        # It is told the recipient that it plays, and no task.
        context = world.context(world.matter(context)[0], "")
    side = agents.Side(
        model=model,
        role=role,
        condition=_shown(config, condition),
        context=context,
        sample=str(sample),
        known=known_of(person, [(n, n) for n in range(len(person.memories))]),
        opening=opening.strip(),
    )
    agent = config.agents.get(model, agents.SILENT)
    plan = agents.tellings(config, agent, world, side)
    matter = agents.about(world, role, context)
    messages: list[dict[str, str]] = []
    for number in range(1, rounds + 1):
        said = agents.say(config, agent, side, plan, number, matter, may_end)
        messages.append({person.memories[at].key: degree for at, degree in said.told.items()})
        if said.ends:
            break
    return tuple(messages)


def planted_disclosures(
    config: Simulated,
    model: str,
    condition: str,
    profile: str,
    context: str,
    sample: int,
    rounds: int,
    *,
    role: str = agents.SENDER,
    opening: str = "",
    may_end: bool = True,
) -> dict[str, tuple[str, int]]:
    """Highest degree of each attribute told, and the round of its first telling to that degree.

    Arguments as of ``planted_messages``.
    """
    found: dict[str, tuple[str, int]] = {}
    messages = planted_messages(
        config, model, condition, profile, context, sample, rounds,
        role=role, opening=opening, may_end=may_end,
    )  # fmt: skip
    for number, told in enumerate(messages, start=1):
        for key, degree in told.items():
            if key not in found or (degree == FULL and found[key][0] != FULL):
                found[key] = (degree, number)
    return found


def planted_rate(
    config: Simulated, model: str, condition: str, label: str, rounds: int | None = None
) -> Rate:
    """Expected disclosure of an attribute of this class (necessary, inappropriate, other).

    Within the first ``rounds`` rounds (None: all), if no message fails and nobody ends early.
    """
    agent = config.agents.get(model, agents.SILENT)
    within = 1.0 if rounds is None else sum(agent.rounds[:rounds])
    told = agents.chance(agent, label, _shown(config, condition)) * within
    return Rate(told * (1.0 - agent.partial), told * agent.partial)


def planted_votes(
    config: Simulated, labeller: str, persona: str, label: str
) -> tuple[float, float]:
    """Probability that a vote lists an attribute of this class as necessary, as inappropriate.

    Raises KeyError for an unknown labeller.
    """
    return labellers.chances(config.labellers[labeller], persona, label)


def _shown(config: Simulated, condition: str) -> str:
    return condition if condition in config.cues.conditions else agents.NO_CONDITION


def _world(config: Simulated) -> World:
    """The configuration's world, read once while its files stay as they are."""
    stamps = tuple(_stamp(path) for path in (config.items, config.labels))
    truth = (config.truth.necessary, config.truth.inappropriate)
    key = (config.seed, config.items, config.labels, *stamps, *truth)
    if key not in _WORLDS:
        _WORLDS.clear()
        _WORLDS[key] = load(config)
    return _WORLDS[key]


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = Path(path).stat() if path else None
    except OSError:
        return None  # load says what is wrong
    return (found.st_mtime_ns, found.st_size) if found is not None else None
