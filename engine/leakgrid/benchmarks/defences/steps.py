"""Steps on the way to a reply: what a later call needs from an earlier one, or Unfit.

Whatever cannot be read without guessing ends the defence: a list of what is private that
cannot be read must never count as "nothing is private".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from leakgrid.benchmarks.defences.reply import Reply, Unfit
from leakgrid.benchmarks.judges.parsing import objects
from leakgrid.outcomes import Outcome
from leakgrid.types import Answer, Ask, Call, Json, Schema


def numbered(lines: Sequence[str]) -> str:
    """Lines as a list that is numbered from 1."""
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, start=1))


def schema(name: str, **properties: Json) -> Schema:
    """A response schema: one object with these properties, all of them required."""
    return Schema(
        name,
        {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        },
    )


async def step(ask: Ask, call: Call) -> Answer:
    """The complete answer to an intermediate call. Raises Unfit for a refusal or half an answer."""
    name = call.role.removeprefix("defence:")
    answer = await ask(call)
    if answer.outcome is not Outcome.ANSWER:
        fail(name, answer, f"ended as {answer.outcome}")
    if not answer.text.strip():
        fail(name, answer, f"is empty ({answer.finish or answer.outcome})")
    return answer


async def listed(
    ask: Ask, call: Call, key: str, fits: Callable[[Any], bool], count: int | None = None
) -> list[Any]:
    """The list under ``key`` of the one JSON object that answers a call.

    Raises Unfit when there is no such object, two that differ, an entry that does not fit, or
    not ``count`` entries where that is given.
    """
    name = call.role.removeprefix("defence:")
    answer = await step(ask, call)
    found = [value for value in objects(answer.text) if key in value]
    if not found:
        fail(name, answer, f"holds no JSON object with {key!r}")
    entries = found[0][key]
    if any(other[key] != entries for other in found):
        fail(name, answer, "holds two JSON objects that differ")
    if not isinstance(entries, list) or not all(fits(entry) for entry in entries):
        fail(name, answer, f"has no usable list under {key!r}")
    if count is not None and len(entries) != count:
        fail(name, answer, f"has {len(entries)} entries under {key!r}, not {count}")
    return entries


def fail(name: str, answer: Answer, why: str) -> NoReturn:
    """End the defence: the step ``name`` gave nothing to go on with."""
    raise Unfit(
        Reply(
            text="",
            outcome=answer.outcome,
            unfit=f"the step {name!r} {why}",
            steps={name: answer.text},
        )
    )
