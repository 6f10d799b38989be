"""``none`` and every defence that is a paragraph of the system prompt: one call."""

from __future__ import annotations

from leakgrid.benchmarks.defences.reply import Reply, of_answer
from leakgrid.benchmarks.muppet.scene import Scene
from leakgrid.types import Ask

VERSION = 1


async def reply(ask: Ask, scene: Scene) -> Reply:
    """The assistant's reply, asked with the paragraph of the defence where it has one."""
    paragraphs = [scene.text(name) for name in scene.own]
    return of_answer(await ask(scene.call(scene.system(*paragraphs), scene.user())))
