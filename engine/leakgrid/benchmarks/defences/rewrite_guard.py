"""``rewrite-guard``: draft as ever, then review the draft with its readers in mind; two calls.

The draft is word for word the call of ``none``, so a job that has both pays for it once.
"""

from __future__ import annotations

from leakgrid.benchmarks.defences.reply import Reply, of_answer
from leakgrid.benchmarks.defences.steps import step
from leakgrid.benchmarks.muppet.scene import Scene
from leakgrid.types import Ask

VERSION = 1
PROMPTS = {"review": ("draft",)}


async def reply(ask: Ask, scene: Scene) -> Reply:
    """The draft as the review leaves it."""
    system = scene.system()
    draft = await step(ask, scene.call(system, scene.user(), step="draft"))
    answer = await ask(scene.call(system, scene.text("review", draft=draft.text.strip())))
    return of_answer(answer, {"draft": draft.text})
