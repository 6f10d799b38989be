"""The body of a generateContent request: a call's messages and a job's parameters."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from leakgrid.types import Call, Message

_ALIASES = {
    "max_tokens": "maxOutputTokens",
    "max_completion_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "model_selection_config": "modelConfig",
}
"""Names that other APIs (or the SDK) use for a field of this one."""

_TOP = frozenset(
    {
        "safetySettings",
        "tools",
        "toolConfig",
        "labels",
        "cachedContent",
        "serviceTier",
        "modelArmorConfig",
        "store",
    }
)
"""Fields beside generationConfig; every other parameter goes into it."""

_VERBATIM = frozenset({"responseSchema", "responseJsonSchema", "labels", "tools"})
"""Fields whose keys are the user's own names and must not be renamed."""

_CAPITALS = frozenset({"thinkingLevel", "category", "threshold", "method", "mediaResolution"})
"""Fields whose value names a constant; the API writes those in capitals."""

_OWNED = frozenset({"model", "contents", "systemInstruction", "candidateCount", "n", "stream"})

Settings = tuple[dict[str, Any], dict[str, Any]]
"""Fields beside generationConfig, and those inside it, under the API's names."""


def mistakes(params: Mapping[str, Any]) -> list[str]:
    """What is wrong with a model's ``params``, one sentence each; empty if nothing is."""
    found = [
        f"{key!r} is set by leakgrid and cannot be a parameter"
        for key in params
        if _renamed(key) in _OWNED
    ]
    names: dict[str, str] = {}
    for key, value in params.items():
        if _renamed(key) == "generationConfig":
            found += mistakes(value)
        first = names.setdefault(_renamed(key), key)
        if first != key:
            found.append(f"{key!r} and {first!r} are the same parameter; keep one of them")
    return found


def shaped(params: Mapping[str, Any]) -> Settings:
    """Parameters in snake case, camel case or other APIs' names as this API's fields."""
    top: dict[str, Any] = {}
    inside: dict[str, Any] = {}
    for key, value in params.items():
        name = _renamed(key)
        if name == "generationConfig":
            more, deeper = shaped(value)
            top.update(more)
            inside.update(deeper)
            continue
        if key == "stop" and isinstance(value, str):
            value = [value]
        elif name not in _VERBATIM:
            value = _spelled(name, value)
        (top if name in _TOP else inside)[name] = value
    return top, inside


def body_of(call: Call, settings: Settings) -> dict[str, Any]:
    """The body: contents, system instruction, parameters (the call's override the job's).

    Messages of one role in a row become one turn of several parts. A response schema is sent as
    JSON Schema, with the MIME type that it needs.
    """
    top, inside = settings
    if call.params:
        more, deeper = shaped(call.params)
        top, inside = {**top, **more}, {**inside, **deeper}
    if call.schema is not None:
        inside = {
            **inside,
            "responseMimeType": "application/json",
            "responseJsonSchema": call.schema.definition,
        }
        inside.pop("responseSchema", None)
    system = [{"text": part.text} for part in call.messages if part.role == "system"]
    body: dict[str, Any] = {"contents": _turns(call.messages), **top}
    if system:
        body["systemInstruction"] = {"parts": system, "role": "user"}
    if inside:
        body["generationConfig"] = inside
    return body


def _turns(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            continue
        role = "model" if message.role == "assistant" else message.role
        if turns and turns[-1]["role"] == role:
            turns[-1]["parts"].append({"text": message.text})
        else:
            turns.append({"parts": [{"text": message.text}], "role": role})
    return turns


@functools.lru_cache(maxsize=1024)
def _renamed(key: str) -> str:
    """The API's name of a parameter: aliases resolved, snake case turned into camel case."""
    known = _ALIASES.get(key)
    if known is not None:
        return known
    head, *rest = key.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def _spelled(name: str, value: Any) -> Any:
    """``value`` with the API's names in it, however deep, and its constants in capitals."""
    if isinstance(value, Mapping):
        return {
            new: inner if new in _VERBATIM else _spelled(new, inner)
            for new, inner in ((_renamed(key), inner) for key, inner in value.items())
        }
    if isinstance(value, list | tuple):
        return [_spelled(name, part) for part in value]
    return value.upper() if name in _CAPITALS and isinstance(value, str) else value
