"""``minimiser``: what may be needed is chosen before any third party's words are seen; two calls.

After AirGapAgent (arXiv 2405.05175): the first call knows the task and the owner's data only, so
nothing that others write can talk it into a larger choice; the second call has the conversation
and the chosen subset.
"""

from __future__ import annotations

from leakgrid.benchmarks.defences.reply import Reply, of_answer
from leakgrid.benchmarks.defences.steps import listed, numbered, schema
from leakgrid.benchmarks.muppet.scene import Scene
from leakgrid.types import Ask

VERSION = 1
CHOICE = schema(
    "minimiser_choose", keep={"type": "array", "items": {"type": "integer", "minimum": 1}}
)
PROMPTS = {"choose": ("candidates",), "answer": ()}
STEPS = (CHOICE.name,)


async def reply(ask: Ask, scene: Scene) -> Reply:
    """The reply of an assistant that holds the chosen notes only."""
    notes = scene.notes

    def is_number(entry: object) -> bool:
        return type(entry) is int and 1 <= entry <= len(notes)

    choose = scene.text("choose", candidates=numbered(notes))
    call = scene.call(scene.system(form=""), choose, schema=CHOICE, step="choose")
    keep = set(await listed(ask, call, "keep", is_number))
    kept = [note for number, note in enumerate(notes, start=1) if number in keep]
    answer = await ask(scene.call(scene.system(scene.text("answer"), notes=kept), scene.user()))
    return of_answer(answer, {"kept": kept})
