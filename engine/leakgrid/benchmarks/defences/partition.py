"""``partition``: the owner's notes are withheld, so nothing of them can be told; one call.

A ceiling for privacy and a floor for usefulness, by construction: no model can do better than
this on leaks, and a defence that is less useful than this helps nobody.
"""

from __future__ import annotations

from leakgrid.benchmarks.defences.reply import Reply, of_answer
from leakgrid.benchmarks.muppet.scene import Scene
from leakgrid.types import Ask

VERSION = 1
PROMPTS = {"withheld": ()}


async def reply(ask: Ask, scene: Scene) -> Reply:
    """The reply of an assistant that has no notes."""
    system = scene.system(scene.text("withheld"), notes=())
    return of_answer(await ask(scene.call(system, scene.user())))
