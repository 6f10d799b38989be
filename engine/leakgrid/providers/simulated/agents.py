"""Simulated agents of a dialogue: each tells what it was planted to tell, in its round.

All coins of an agent's side are tossed on who it is, whom it speaks for, the context, condition
and sample (for a receiver also the message that opened the dialogue). What was said since does
not count, so that the truth about a whole dialogue is known before it is held.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leakgrid.providers.simulated import phrases, wire
from leakgrid.providers.simulated.assistants import REFUSAL, recognised
from leakgrid.providers.simulated.hints import FULL, PARTIAL
from leakgrid.providers.simulated.planted import Coins, Tosses
from leakgrid.providers.simulated.settings import Agent, Simulated
from leakgrid.providers.simulated.wire import Prompt, Reply
from leakgrid.providers.simulated.world import INAPPROPRIATE, NECESSARY, Known, World

NO_CONDITION = "pc0"
"""The condition of a request that shows none: no system prompt."""

END = "[END]"
SENDER, RECEIVER = "sender", "receiver"
EARLIEST_END = 2

SILENT = Agent(0.0, 0.0)
"""How a model speaks that no configuration names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of one dialogue, as far as its coins depend on it.

    ``opening`` is the sender's first message, for a receiver.
    """

    model: str
    role: str
    condition: str
    context: str
    sample: str
    known: Known
    opening: str = ""

    @property
    def body(self) -> bytes:
        """What its coins are tossed on."""
        parts = (self.model, self.role, self.condition, self.known.person.id, self.context,
                 self.sample, self.opening)  # fmt: skip
        return hashlib.sha256("\0".join(parts).encode()).digest()


@dataclass(frozen=True, slots=True)
class Telling:
    """That one memory is told: its place, how far, and in which round first (from 1)."""

    place: int
    degree: str
    first: int


@dataclass(frozen=True, slots=True)
class Said:
    """What an agent says in one round, and degree by place of all that this discloses."""

    reply: Reply
    told: Mapping[int, str]
    ends: bool


def chance(agent: Agent, kind: str, condition: str) -> float:
    """Probability that an attribute of this class is told, fully or as a hint, in all rounds."""
    if kind == NECESSARY:
        return min(1.0, agent.necessary * agent.necessary_prompts.get(condition, 1.0))
    if kind == INAPPROPRIATE:
        return min(1.0, agent.inappropriate * agent.prompts.get(condition, 1.0))
    return agent.other


def tellings(config: Simulated, agent: Agent, world: World, side: Side) -> tuple[Telling, ...]:
    """All that this side would tell in a dialogue of as many rounds as it has shares for."""
    person = side.known.person
    classes = world.classes(person, side.context)
    chances = {kind: chance(agent, kind, side.condition) for kind in set(classes)}
    # Its key alone tells an attribute from the others: its coins do not depend on them.
    toss = Tosses(config.seed, "telling", side.body)
    found = []
    for place in side.known.present:
        whether, how, when = toss(person.memories[place].key)
        if whether < chances[classes[place]]:
            degree = PARTIAL if how < agent.partial else FULL
            found.append(Telling(place, degree, _round(agent.rounds, when)))
    return tuple(found)


def _round(shares: tuple[float, ...], value: float) -> int:
    for number, share in enumerate(shares, start=1):
        if value < share:
            return number
        value -= share
    # Shares that add up to 1 but for rounding: the last round that has one.
    return max(number for number, share in enumerate(shares, start=1) if share > 0.0)


def say(
    config: Simulated,
    agent: Agent,
    side: Side,
    plan: tuple[Telling, ...],
    number: int,
    matter: phrases.About,
    may_end: bool,
) -> Said:
    """What this side says in round ``number``."""
    coins = Coins(config.seed, side.body)

    def happens(rate: float, what: str) -> bool:
        return rate > 0.0 and coins(f"{what} {number}") < rate

    if happens(agent.refusal, "refusal"):
        return Said(Reply(None, refusal=REFUSAL), {}, False)
    if happens(agent.empty, "empty"):
        return Said(Reply(""), {}, False)
    memories = side.known.person.memories
    told: dict[int, str] = {}
    sentences: list[str] = []
    for telling in plan:
        memory = memories[telling.place]
        again = telling.first < number
        if telling.first > number or (again and not happens(agent.repeats, f"repeat {memory.key}")):
            continue
        words = memory.statement if telling.degree == FULL else memory.hint
        salt = f"{number} {memory.key}"
        sentences.append(phrases.telling(telling.degree, again, words, coins, salt))
        told[telling.place] = telling.degree
    for place, degree in list(told.items()):
        # A statement within another one is told with it, and a hint at one at its twin too.
        if degree == FULL:
            told |= dict.fromkeys(memories[place].holds, FULL)
        else:
            for twin in side.known.person.places[memories[place].fold]:
                told.setdefault(twin, PARTIAL)
    ends = may_end and number >= EARLIEST_END and happens(agent.early_end, "end")
    text = phrases.message(matter, number, sentences, ends, coins)
    if ends:
        text = f"{text}\n{END}"
    thoughts = phrases.thoughts(memories, matter, number, coins) if agent.thinking else ""
    if happens(agent.truncated, "truncated"):
        half = text[: len(text) // 2]
        reply = Reply(half, "length", None, thoughts)
        return Said(reply, side.known.person.disclosed(half), False)
    return Said(Reply(text, "stop", None, thoughts), told, ends)


class Players:
    """The agents of a server; remembers what each side is to tell, as rounds share it."""

    KEPT = 4096

    def __init__(self, config: Simulated, world: World) -> None:
        self.config, self.world = config, world
        self.plans: dict[bytes, tuple[Telling, ...]] = {}

    def reply(self, asked: Mapping[str, Any], model: str, prompt: Prompt, sample: str) -> Reply:
        """What this model says next in the dialogue that the request holds."""
        agent = self.config.agents.get(model, SILENT)
        first, number = _place(asked)
        alone = Prompt("", first)
        context, matter, role, opening = self._scene(alone, first)
        everything = f"{prompt.system}\n{first}"
        known = self.world.known(alone.block("memories") or "")
        if known is None:
            # Nobody's memories: it knows nothing that it could tell.
            return Reply(phrases.message(matter, number, [], False, Coins(self.config.seed, b"")))
        side = Side(
            model=model,
            role=role,
            condition=recognised(self.config.cues.conditions, everything, NO_CONDITION),
            context=context,
            sample=sample,
            known=known,
            opening=opening,
        )
        may_end = END in everything
        plan = self._plan(agent, side)
        return say(self.config, agent, side, plan, number, matter, may_end).reply

    def _plan(self, agent: Agent, side: Side) -> tuple[Telling, ...]:
        # Two prompts may differ in nothing but the memories that they hold.
        key = side.body + side.known.stamp
        plan = self.plans.get(key)
        if plan is None:
            if len(self.plans) >= self.KEPT:
                self.plans.clear()
            plan = self.plans[key] = tellings(self.config, agent, self.world, side)
        return plan

    def _scene(self, alone: Prompt, first: str) -> tuple[str, phrases.About, str, str]:
        """Context, matter, role and opening message of a first message."""
        played = alone.block("role")
        if played is not None:
            context = self.world.context(played, "")
            return context, about(self.world, RECEIVER, context), RECEIVER, message_in(first)
        recipient = (alone.block("recipient") or "").strip()
        task = (alone.block("task") or "").strip()
        context = self.world.context(recipient, task) if task else ""
        return context, about(self.world, SENDER, context, recipient, task), SENDER, ""


def about(
    world: World, role: str, context: str, recipient: str = "", task: str = ""
) -> phrases.About:
    """What a side speaks of; recipient and task only matter where the context is unknown."""
    recipient, task = world.matter(context, recipient, task)
    return phrases.About(task, recipient, role == SENDER)


def message_in(first: str) -> str:
    """The sender's opening message as a receiver's first message holds it, stripped."""
    start = first.find("<message>\n")
    # The message is untrusted and may hold the closing tag itself, so the last one counts.
    end = first.rfind("</message>")
    return first[start + len("<message>") : end if end > start else len(first)].strip()


def _place(asked: Mapping[str, Any]) -> tuple[str, int]:
    """The first user message, and the number of the message that is asked for."""
    first, spoken = None, 0
    for message in asked["messages"]:
        role = message.get("role")
        if role == "user" and first is None:
            first = wire.text(message.get("content"))
        spoken += role == "assistant"
    return first or "", spoken + 1
