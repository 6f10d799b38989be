"""Defences that let the model think on paper first: an analysis, a marker, the message."""

from __future__ import annotations

from leakgrid.benchmarks.defences.reply import MARKER, Reply, after_marker
from leakgrid.benchmarks.muppet.scene import Scene
from leakgrid.types import Ask


async def reply(ask: Ask, scene: Scene) -> Reply:
    """The message after the marker; ``form`` stands in place of the style, ``order`` at the end."""
    system = scene.system(form=scene.text("form", marker=MARKER))
    user = scene.user(scene.text("order", marker=MARKER))
    return after_marker(await ask(scene.call(system, user)))
