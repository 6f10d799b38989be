"""Simulated answers to questions of who knows what, right as often as planted.

The right answer is read from the request: a person knows what a private note says that names
them; what not everyone has been told may not go to all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from leakgrid.providers.simulated.planted import Coins
from leakgrid.providers.simulated.settings import Assistant
from leakgrid.providers.simulated.wire import Prompt, lines

SCHEMA = "knowledge_probe"


def answer(assistant: Assistant, prompt: Prompt, coins: Coins) -> Mapping[str, Any]:
    """YES or NO, right with probability ``knows`` of a person and ``boundaries`` of the group."""
    question = prompt.rest.rpartition("</information>")[2]
    target = _target(prompt, question)
    if target:
        # Notes call people by their first names, which are unique in a group.
        named = re.compile(rf"\b{re.escape(target.split()[0])}\b")
        truth = any(named.search(note) for note in lines(prompt.block("private_notes")))
        right = coins("probe") < assistant.knows
    else:
        truth = False
        right = coins("probe") < assistant.boundaries
    return {"answer": "YES" if truth is right else "NO"}


def _target(prompt: Prompt, question: str) -> str:
    """The member whom the question asks about; empty if it asks about the group."""
    members = (line.removeprefix("- ").split(",")[0] for line in prompt.system.splitlines())
    asked = (name for name in members if " " in name and f"does {name} know" in question)
    return next(asked, "")
