"""Fits a chat request to vLLM: a seed for every sample, and the system message where it may stand.

A response schema stays in ``response_format`` (vLLM guides its decoding by it), and
``chat_template_kwargs`` pass through as the job wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leakgrid.types import Json

SYSTEM_MODES = ("send", "fold")
"""What to do with system messages: send them, or fold them into the first user message."""

BETWEEN = "\n\n"


def shape(body: Mapping[str, Json], sample: int = 0, *, system: str = "send") -> dict[str, Json]:
    """A chat request body as vLLM needs it; the input is not changed.

    Where ``temperature`` is not 0 the request gets ``seed`` = the job's own seed (or 0) + sample:
    samples differ, and each is drawn again alike by the same server under the same load (vLLM
    promises no more than that). At temperature 0 all samples are the same reply, seed or not.
    """
    shaped = dict(body)
    if shaped.get("temperature") != 0:
        shaped["seed"] = (shaped.get("seed") or 0) + sample
    if system == "fold":
        shaped["messages"] = fold_system(shaped["messages"])
    return shaped


def fold_system(messages: Sequence[Mapping[str, Json]]) -> list[Mapping[str, Json]]:
    """The messages without system ones: their text heads the first user message.

    For templates that refuse a system message (Gemma 2, early Mistral). Where the conversation
    opens with the assistant, or has no other message, the text becomes a user message of its own,
    since such templates also want the user to begin. Empty system messages vanish.
    """
    rules = BETWEEN.join(
        str(one["content"])
        for one in messages
        if one["role"] == "system" and str(one["content"] or "").strip()
    )
    rest = [one for one in messages if one["role"] != "system"]
    if not rules:
        return rest
    if rest and rest[0]["role"] == "user":
        first = {**rest[0], "content": f"{rules}{BETWEEN}{rest[0]['content']}"}
        return [first, *rest[1:]]
    return [{"role": "user", "content": rules}, *rest]


def wants_thinking(params: Mapping[str, Json]) -> bool | None:
    """Whether a job's parameters turn thinking on or off; None where they say nothing."""
    options = params.get("chat_template_kwargs")
    if isinstance(options, Mapping):
        for name in ("enable_thinking", "thinking"):
            if isinstance(options.get(name), bool):
                return bool(options[name])
    if params.get("reasoning_effort") == "none":
        return False
    return None
