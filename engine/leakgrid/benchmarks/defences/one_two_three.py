"""``one-two-three``: extract what could be said, check each piece, answer; three calls.

After the 1-2-3 Check (arXiv 2508.07667): the checker sees the extracted pieces and the audience
but not the notes they come from, and the last call sees only the pieces it has cleared.
"""

from __future__ import annotations

from leakgrid.benchmarks.defences.reply import Reply, of_answer
from leakgrid.benchmarks.defences.steps import listed, numbered, schema
from leakgrid.benchmarks.muppet.scene import Scene
from leakgrid.types import Ask

VERSION = 1
LABELS = ("PUBLIC", "PRIVATE")
EXTRACT = schema("one_two_three_extract", facts={"type": "array", "items": {"type": "string"}})
CHECK = schema(
    "one_two_three_check",
    labels={"type": "array", "items": {"type": "string", "enum": list(LABELS)}},
)
PROMPTS = {"extract": (), "check": ("facts",), "answer": ()}
STEPS = (EXTRACT.name, CHECK.name)


async def reply(ask: Ask, scene: Scene) -> Reply:
    """The reply of an assistant that holds the cleared pieces only."""
    extract = scene.call(
        scene.system(form=""), scene.text("extract"), schema=EXTRACT, step="extract"
    )
    facts = await listed(ask, extract, "facts", lambda entry: isinstance(entry, str))

    check = scene.call(
        scene.system(notes=(), form=""),
        scene.text("check", facts=numbered(facts)),
        schema=CHECK,
        step="check",
    )
    labels = await listed(ask, check, "labels", lambda entry: entry in LABELS, len(facts))
    cleared = [fact for fact, label in zip(facts, labels, strict=True) if label == "PUBLIC"]
    answer = await ask(scene.call(scene.system(scene.text("answer"), notes=cleared), scene.user()))
    return of_answer(answer, {"facts": facts, "cleared": cleared})
