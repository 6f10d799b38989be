"""Simulated labellers: votes on what a recipient must and must not know, by the planted truth."""

from __future__ import annotations

import orjson

from leakgrid.providers.simulated.assistants import recognised
from leakgrid.providers.simulated.judges import PROSE
from leakgrid.providers.simulated.planted import Coins, Tosses
from leakgrid.providers.simulated.settings import Labeller, Leaning, Simulated
from leakgrid.providers.simulated.wire import Prompt, Reply
from leakgrid.providers.simulated.world import INAPPROPRIATE, NECESSARY, World

NOBODY = Leaning()
"""How an unknown persona leans."""


def chances(labeller: Labeller, persona: str, kind: str) -> tuple[float, float]:
    """Probability that one vote lists an attribute of this class as necessary, as inappropriate.

    A vote may list it as both.
    """
    if kind == NECESSARY:
        first, second = 1.0 - labeller.noise, labeller.noise / 2.0
    elif kind == INAPPROPRIATE:
        first, second = labeller.noise / 2.0, 1.0 - labeller.noise
    else:
        leaning = labeller.leanings.get(persona, NOBODY)
        first, second = leaning.necessary, leaning.inappropriate
    return first + labeller.both * second, second + labeller.both * first


def reply(
    config: Simulated, labeller: Labeller, world: World, prompt: Prompt, coins: Coins
) -> Reply:
    """The numbers of the necessary and of the inappropriate memories, as JSON."""
    if coins("unparsable") < labeller.unparsable:
        return Reply(PROSE)
    necessary: list[int] = []
    inappropriate: list[int] = []
    known = world.known(prompt.block("memories") or "")
    if known is not None:
        everything = f"{prompt.system}\n{prompt.rest}"
        persona = recognised(config.cues.conditions, everything, "")
        recipient, task = (prompt.block(tag) or "" for tag in ("recipient", "task"))
        classes = world.classes(known.person, world.context(recipient, task) if task else "")
        alone = Labeller(labeller.noise, 0.0, leanings=labeller.leanings)
        by_class = {kind: chances(alone, persona, kind) for kind in set(classes)}
        toss = Tosses(config.seed, "votes", coins.body)
        for number, place in known.numbered:
            first, second = by_class[classes[place]]
            vote, twice, _ = toss(str(number))
            if vote >= first + second:
                continue
            both = twice < labeller.both
            if vote < first or both:
                necessary.append(number)
            if vote >= first or both:
                inappropriate.append(number)
    text = orjson.dumps({"necessary": necessary, "inappropriate": inappropriate}).decode()
    if coins("truncated") < labeller.truncated:
        return Reply(text[: len(text) // 2], "length")
    return Reply(text)
