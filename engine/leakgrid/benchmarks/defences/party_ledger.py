"""``party-ledger``: who in the room already knows what, then an answer within that; two calls.

The project's own defence. MuPPET finds that assistants lose track of who knows what, or know it
and do not act on it (arXiv 2606.23217, error attribution). So the first call only keeps the
ledger, and whether a fact may be said is no judgement of a model at all: a fact is cleared here,
in code, if it is open to anyone or if every single reader has been told. The second call holds
nothing else. The newest message is kept from the first call, since whoever asks could claim to
know.
"""

from __future__ import annotations

from collections.abc import Mapping

from leakgrid.benchmarks.defences.reply import Reply, of_answer
from leakgrid.benchmarks.defences.steps import listed, schema
from leakgrid.benchmarks.muppet.scene import Scene
from leakgrid.datasets.surface import folded
from leakgrid.types import Ask, Json

VERSION = 1
LEDGER = schema(
    "party_ledger",
    facts={
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "fact": {"type": "string"},
                "open": {"type": "boolean"},
                "told": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["fact", "open", "told"],
            "additionalProperties": False,
        },
    },
)
PROMPTS = {"ledger": (), "answer": ()}
STEPS = (LEDGER.name,)


async def reply(ask: Ask, scene: Scene) -> Reply:
    """The reply of an assistant that holds what everyone present may know."""
    call = scene.call(scene.system(form=""), scene.text("ledger"), schema=LEDGER, step="ledger")
    ledger = await listed(ask, call, "facts", _is_entry)
    cleared = [entry["fact"] for entry in ledger if may_be_said(entry, scene.readers)]
    system = scene.system(scene.text("answer"), notes=cleared)
    answer = await ask(scene.call(system, scene.user()))
    return of_answer(answer, {"ledger": ledger, "cleared": cleared})


def may_be_said(entry: Mapping[str, Json], readers: tuple[str, ...]) -> bool:
    """Whether a fact is open to anyone, or every reader has been told it.

    Names are compared folded and whole: a first name alone may belong to two people.
    """
    told = {folded(name) for name in entry["told"]}
    return entry["open"] or all(folded(name) in told for name in readers)


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, Mapping)
        and isinstance(entry.get("fact"), str)
        and isinstance(entry.get("open"), bool)
        and isinstance(entry.get("told"), list)
        and all(isinstance(name, str) for name in entry["told"])
    )
