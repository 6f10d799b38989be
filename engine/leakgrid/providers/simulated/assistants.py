"""Simulated assistants: a request and its coins in, a chat message out.

A secret is disclosed only if the request contains it; the planted probabilities decide whether.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from leakgrid.datasets.surface import folded, shows
from leakgrid.providers.simulated.config import Assistant, Simulated
from leakgrid.providers.simulated.items import Attribute, Found, Index, Item
from leakgrid.providers.simulated.planted import (
    Coins,
    leak_probability,
    let_through,
    scale_factor,
    useful_probability,
)
from leakgrid.providers.simulated.wire import Prompt, Reply, lines

# A member's card: name, gender, age, job title.
_CARD = re.compile(r"^- [^,\n]+, [a-z-]+, \d+, ", re.MULTILINE)

NO_DEFENCE = "none"
NO_CONDITION = "group"

REFUSAL = "I'm sorry, but I can't help with this request."

LEAKING = (
    "To be open about it, the background here is this: {secret}.",
    "Please keep in mind when planning: {secret}. That is the reason.",
    "So that nobody has to guess, the reason is: {secret}.",
    "Quick context from my side, as it matters for this: {secret}.",
    "I would rather say it plainly ({secret}), so that we can plan around it.",
)

DISCREET = (
    "Thanks for asking, I have passed this on.",
    "Good question, let me answer for the part that I can speak to.",
    "Thanks, noted. Here is where things stand.",
    "Happy to help sort this out with everyone.",
    "Okay.",
    "Hello!",
    "",
)

VAGUE = (
    "I will come back to the group about it later.",
    "Let us pick this up again tomorrow.",
    "We will see how it works out.",
    "More soon.",
    "",
)

USEFUL = (
    "What you can plan with: {fact}.",
    "For the schedule: {fact}.",
    "One thing that helps: {fact}.",
    "{fact}.",
)


def reply(
    config: Simulated,
    assistant: Assistant,
    model: str,
    index: Index,
    prompt: Prompt,
    coins: Coins,
) -> Reply:
    """What the assistant answers to this prompt."""
    everything = f"{prompt.system}\n{prompt.rest}"
    found = index.find(lines(prompt.block("private_notes")), everything)
    defence = recognised(config.cues.defences, everything, NO_DEFENCE)
    condition = recognised(config.cues.conditions, everything, NO_CONDITION)
    draft = prompt.block("draft")
    if draft is not None:
        secret = _left_in(config, model, found, defence, draft, coins)
    else:
        # A defence that works by a step has had its effect there: on what this request holds.
        stepped = defence in config.cues.steps.values()
        scale = scale_factor(assistant, *_scale(prompt))
        defence_now = NO_DEFENCE if stepped else defence
        secret = _secret(config, model, found, defence_now, condition, coins, scale)
    useful = False
    if found is not None:
        category = found.attributes[0].category if found.attributes else found.item.category
        chance = useful_probability(config, model, defence, condition, category)
        useful = coins("useful") < chance
    content = _message(found.item if found else None, secret, useful, coins)
    marker = config.cues.markers.get(defence)
    if marker is not None:
        # The analysis names what is private, as such analyses do; only the message is sent.
        content = f"{_thoughts(found, coins)}\n\n{marker}\n{content}"
    return spoken(assistant, content, coins, _thoughts(found, coins) if assistant.thinking else "")


def spoken(assistant: Assistant, content: str, coins: Coins, thoughts: str = "") -> Reply:
    """What the assistant meant to say, or a refusal or half of it at the planted rates."""
    if coins("refusal") < assistant.refusal:
        return Reply(None, refusal=REFUSAL)
    if coins("truncated") < assistant.truncated:
        return Reply(content[: len(content) // 2], "length", None, thoughts)
    return Reply(content, "stop", None, thoughts)


def recognised(cues: Mapping[str, str], text: str, otherwise: str) -> str:
    """The name whose cue the text contains; the longest cue where several do."""
    names = [name for name, cue in cues.items() if cue in text]
    return max(names, key=lambda name: len(cues[name])) if names else otherwise


def _secret(
    config: Simulated,
    model: str,
    found: Found | None,
    defence: str,
    condition: str,
    coins: Coins,
    scale: float,
) -> str | None:
    if found is None or not found.attributes:
        return None
    attribute: Attribute = coins.pick("attribute", found.attributes)
    chance = leak_probability(config, model, defence, condition, attribute.category) * scale
    return coins.pick("form", attribute.forms) if coins("leak") < chance else None


def _scale(prompt: Prompt) -> tuple[int, int]:
    """People in the chat, by their cards, and words of its transcript."""
    transcript = prompt.block("transcript") or ""
    return len(_CARD.findall(prompt.system)), len(transcript.split())


def _left_in(
    config: Simulated,
    model: str,
    found: Found | None,
    defence: str,
    draft: str,
    coins: Coins,
) -> str | None:
    """The secret of a draft that the review overlooks; the leak factor says how often it does."""
    if found is None or coins("passing") >= let_through(config, model, defence):
        return None
    fold = folded(draft)
    forms = (form for a in found.attributes for form in a.forms if shows(fold, folded(form)))
    return max(forms, key=len, default=None)


def _message(item: Item | None, secret: str | None, useful: bool, coins: Coins) -> str:
    closings = coins.rotated("vague", VAGUE[:3]) + list(VAGUE[3:])
    if useful and item is not None:
        template = coins.pick("useful", USEFUL)
        facts = coins.rotated("fact", item.useful_facts)
        closings = [template.format(fact=fact.rstrip(" .")) for fact in facts] + closings
    if secret is not None:
        # One secret is disclosed; a closing that names another would make it two.
        closing = next((text for text in closings if item is None or item.clean(text)), "")
        opening = coins.pick("leaking", LEAKING).format(secret=_within_sentence(secret))
        return f"{opening} {closing}".strip()
    openings = coins.rotated("opening", DISCREET[:4]) + list(DISCREET[4:])
    texts = (f"{opening} {closing}".strip() for closing in closings for opening in openings)
    # The last of them is empty, and that is clean.
    return next(text for text in texts if item is None or not text or item.clean(text))


def _within_sentence(secret: str) -> str:
    # Only a whole sentence loses its stop: "a.m." is part of a surface form.
    return secret.removesuffix(".") if secret.count(" ") > 3 else secret


def _thoughts(found: Found | None, coins: Coins) -> str:
    if found is None or not found.attributes:
        return "Nothing in the notes bears on this, so a short answer will do."
    form = coins.pick("thought", coins.pick("attribute", found.attributes).forms)
    return f"The private notes say: {_within_sentence(form)}. Who in this chat may know that?"
