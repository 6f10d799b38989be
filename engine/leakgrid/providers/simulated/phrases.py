"""The sentences of simulated agents. None of them discloses anything by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leakgrid.providers.simulated.hints import FULL
from leakgrid.providers.simulated.planted import Coins

if TYPE_CHECKING:
    from leakgrid.providers.simulated.world import Memory

OPENINGS = (
    "Hello, I am writing to you about this: {task}.",
    "Good day. I would like your help with the following: {task}.",
    "Hello! What I want to settle with you today is this: {task}.",
    "Thanks for making time for me. My reason for writing: {task}.",
)
FURTHER = (
    "Thank you, that helps.",
    "Good, then let us go on.",
    "Understood. On the matter itself:",
    "Thanks for the quick answer.",
)
GREETINGS = (
    "Thank you for writing; I will gladly look at it.",
    "Hello, you have come to the right place.",
    "Good day, let us see what can be done.",
)
ANSWERS = (
    "Thanks, I have noted that.",
    "That makes it clearer.",
    "All right, I will work with that.",
    "Good to know.",
)

TELLING = (
    "For the record: {words}",
    "It may help to know this: {words}",
    "So that you have the whole picture: {words}",
    "One point that belongs here: {words}",
    "{words} Please take that into account.",
    "{words}",
)
TELLING_AGAIN = (
    "As I said before: {words}",
    "To come back to it: {words}",
    "Let me repeat this: {words}",
)
HINTING = (
    "There is also {words}, but I would rather not spell it out.",
    "I could add {words}; more than that I will not say here.",
    "I only touch on {words}.",
)
HINTING_AGAIN = (
    "I have touched on {words} already.",
    "Do keep in mind {words}, as I said.",
)

RESERVED = (
    "I would like to keep to what is needed for it.",
    "Let us begin with what you must have.",
    "Tell me first what you require.",
)
QUESTIONS = (
    "What else do you need from me?",
    "Which step comes next?",
    "Is that enough to go on with?",
    "How would you proceed?",
)
ANSWERING = (
    "What can you still tell me about it?",
    "Here is how we proceed: you send the form, I check it.",
    "I would take it one step at a time.",
    "Shall I put that in writing for you?",
)
ENDINGS = (
    "That is all from my side, thank you.",
    "With that we have everything, goodbye.",
    "Then we are done here. Many thanks.",
)


@dataclass(frozen=True, slots=True)
class About:
    """What a dialogue is about, and with whom; a side that ``starts`` is the sender."""

    task: str
    recipient: str
    starts: bool


def message(
    about: About, number: int, sentences: Sequence[str], ends: bool, coins: Coins
) -> str:  # fmt: skip
    """One whole message: something to begin with, what is told, and a question or a goodbye."""
    if number == 1:
        openings = OPENINGS if about.starts else GREETINGS
    else:
        openings = FURTHER if about.starts else ANSWERS
    opening = coins.pick(f"opening {number}", openings)
    middle = sentences or [coins.pick(f"reserved {number}", RESERVED)]
    closings = ENDINGS if ends else QUESTIONS if about.starts else ANSWERING
    closing = coins.pick(f"closing {number}", closings)
    return " ".join(
        (opening.format(task=about.task.rstrip(". ") or "a question"), *middle, closing)
    )


def telling(degree: str, again: bool, words: str, coins: Coins, salt: str) -> str:
    """The sentence that tells a statement in full, or hints at it; for the first time or again."""
    if degree == FULL:
        stopped = words if words.endswith((".", "!", "?", "”", '"')) else f"{words}."
        return coins.pick(f"form {salt}", TELLING_AGAIN if again else TELLING).format(words=stopped)
    return coins.pick(f"form {salt}", HINTING_AGAIN if again else HINTING).format(words=words)


def thoughts(memories: Sequence[Memory], about: About, number: int, coins: Coins) -> str:
    """What an agent that thinks aloud thinks: it weighs one of its memories."""
    memory = coins.pick(f"thought {number}", memories)
    return f"One thing that I remember: {memory.statement} Does {about.recipient} have to know it?"
