"""Which parameters OpenAI's models take: told before a cent is spent, never changed silently.

Reasoning models (o-series, GPT-5 and later) refuse ``max_tokens`` and, while they reason, every
sampling parameter but its default. The rules below follow the API's error messages and what users
measured (community.openai.com/t/1371738, the table of efforts; Azure's page on reasoning models).
They are OpenAI's and Azure's own: other hosts take what they like.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from leakgrid.providers.openai_responses import LIMIT, SAME_LIMIT

OWNED: Mapping[str, frozenset[str]] = {
    "chat": frozenset({"model", "messages", "response_format", "stream", "stream_options", "n"}),
    "responses": frozenset(
        {
            "model",
            "input",
            "stream",
            "stream_options",
            "background",
            "conversation",
            "previous_response_id",
            "prompt",
        }
    ),
}
"""By API, the fields that leakgrid sets itself or cannot do with; no job may give them."""

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
SUMMARIES = ("auto", "concise", "detailed")
DEFAULTS: Mapping[str, Any] = {
    "temperature": 1,
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "logprobs": False,
    "top_logprobs": 0,
    "logit_bias": {},
}
"""The sampling parameters and the only value that a model at its reasoning takes."""

_NAME = re.compile(r"(?:models/)?(?:openai/)?(?:(o)(\d)|gpt-(\d+)(?:\.(\d+))?)(?![\d.])(.*)")
_NOT_IN_CHAT = {
    "reasoning": 'write reasoning_effort = "..."; summaries need api = "responses"',
    "max_output_tokens": "write max_completion_tokens",
    "text": 'write verbosity = "..."',
    "instructions": "put it into the prompts",
}
_NOT_IN_RESPONSES = {
    "reasoning_effort": 'write reasoning = { effort = "..." }',
    "verbosity": 'write text = { verbosity = "..." }',
    "presence_penalty": "leave it out",
    "frequency_penalty": "leave it out",
    "logit_bias": "leave it out",
    "logprobs": "write top_logprobs and include",
    "seed": "leave it out",
    "stop": "leave it out",
}


def unfit_params(model: str, params: Mapping[str, Any], api: str = "chat") -> list[str]:
    """What OpenAI would refuse of ``params``: one sentence a mistake, with what to write instead.

    ``api`` is chat or responses. A model whose name says nothing of its family is not judged.
    """
    other = _NOT_IN_RESPONSES if api == "responses" else _NOT_IN_CHAT
    told = [
        f"{key!r} is no parameter of api = {api!r}: {advice}"
        for key, advice in other.items()
        if key in params
    ]
    limits = [key for key in (LIMIT, *SAME_LIMIT) if key in params]
    if len(limits) > 1:
        told.append(f"{' and '.join(map(repr, limits))} mean the same: write one of them")
    effort, mistakes = _effort(params)
    told += mistakes
    family = _family(model)
    if family is None:
        return told
    reasons, minor, tail = family
    if not reasons:
        if effort is not None:
            told.append(f"{model} does not reason: leave the reasoning effort out")
        return told
    if api == "chat" and "max_tokens" in params:
        told.append(f"{model} does not take 'max_tokens': write max_completion_tokens")
    if effort == "none" and minor == 0:
        told.append(
            f"{model} cannot but reason: 'none' is no effort of it; the least is {_least(model)}"
        )
    if effort == "minimal" and model.removeprefix("openai/").startswith("o"):
        told.append(f"{model} does not know the effort 'minimal': the least is 'low'")
    if not _samples(minor, tail, effort):
        told += [
            f"{model} takes no {key!r} but {default!r} while it reasons: leave it out"
            + _way_out(minor, tail)
            for key, default in DEFAULTS.items()
            if key in params and key not in other and not _is(params[key], default)
        ]
    return told


def _family(model: str) -> tuple[bool, int, str] | None:
    """(reasons, minor version, rest of the name); None where the name says nothing.

    GPT-6 and later count as the newest minor version of GPT-5.
    """
    found = _NAME.fullmatch(model)
    if found is None:
        return None
    tail = found[5]
    if found[1]:
        return True, 0, tail
    # Azure spells GPT-3.5 without its dot.
    major, minor = 3 if found[3] == "35" else int(found[3]), int(found[4] or 0)
    if major < 5 or (major == 5 and minor == 0 and tail.startswith("-chat")):
        return False, minor, tail
    return True, minor if major == 5 else 100 + minor, tail


def _effort(params: Mapping[str, Any]) -> tuple[str | None, list[str]]:
    """(the effort asked for, mistakes in how it is asked)."""
    told = []
    reasoning = params.get("reasoning")
    effort = params.get("reasoning_effort")
    if isinstance(reasoning, Mapping):
        effort = reasoning.get("effort", effort)
        summary = reasoning.get("summary")
        if summary is not None and summary not in SUMMARIES:
            told.append(f"summary {summary!r} is none of {', '.join(SUMMARIES)}")
    elif reasoning is not None:
        told.append(
            f"'reasoning' is a table, not {reasoning!r}: reasoning = {{ effort = \"low\" }}"
        )
    if effort is not None and effort not in EFFORTS:
        told.append(f"effort {effort!r} is none of {', '.join(EFFORTS)}")
    return effort, told


def _samples(minor: int, tail: str, effort: str | None) -> bool:
    """Whether the model takes sampling parameters: GPT-5.1 and later, when they do not reason.

    GPT-5.1 to 5.4 do not unless asked; later ones reason unless the effort is ``none``.
    """
    if minor == 0 or re.search(r"-(chat|codex|pro)", tail):
        return False
    return effort == "none" or (effort is None and minor <= 4)


def _way_out(minor: int, tail: str) -> str:
    can = _samples(minor, tail, "none")
    return ", or set the reasoning effort to 'none'" if can else ""


def _least(model: str) -> str:
    return "'low'" if model.removeprefix("openai/").startswith("o") else "'minimal'"


def _is(value: Any, default: Any) -> bool:
    return bool(value == default) or value is None
