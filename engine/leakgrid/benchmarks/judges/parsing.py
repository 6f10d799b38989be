"""From a judge's text to a verdict, or to a stated reason why it is unknown.

A model's text is never trusted to be clean JSON: it may stand in prose or a code fence, or be
several objects. What cannot be read without guessing is unknown, never "no leak".
"""

from __future__ import annotations

from typing import Any

import orjson

LONGEST = 20_000
"""Characters that are searched for JSON in prose: a text full of braces must not hold the loop."""


def objects(text: str) -> list[dict[str, Any]]:
    """All JSON objects that stand in ``text`` at the outermost level, in order."""
    whole = text.strip()
    try:
        parsed = orjson.loads(whole)
    except orjson.JSONDecodeError:
        pass
    else:
        return [parsed] if isinstance(parsed, dict) else []
    found: list[dict[str, Any]] = []
    position = 0
    text = text[-LONGEST:]
    while (start := text.find("{", position)) >= 0:
        end = _object_end(text, start)
        if end < 0:
            # Not an object from here: an inner brace may still begin one.
            position = start + 1
            continue
        try:
            parsed = orjson.loads(text[start:end])
        except orjson.JSONDecodeError:
            position = start + 1
            continue
        found.append(parsed)
        position = end
    return found


def _object_end(text: str, start: int) -> int:
    """Where the brace at ``start`` is closed, strings respected; -1 if it never is."""
    depth, quoted, escaped = 0, False, False
    for place in range(start, len(text)):
        character = text[place]
        if escaped:
            escaped = False
        elif quoted:
            escaped = character == "\\"
            quoted = character != '"'
        elif character == '"':
            quoted = True
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return place + 1
    return -1


def yes_or_no(text: str, key: str) -> tuple[bool | None, str, str]:
    """(value, reason it is unknown, rationale) of a verdict object with ``key`` YES or NO.

    Exactly one value must be stated: two objects that disagree are unknown.
    """
    if not text.strip():
        return None, "the judge said nothing", ""
    candidates = [found for found in objects(text) if key in found]
    if not candidates:
        return None, f"no JSON object with {key!r} in the judge's text", ""
    values = set()
    for found in candidates:
        value = _as_bool(found[key])
        if value is None:
            return None, f"{key!r} is {found[key]!r}, neither YES nor NO", ""
        values.add(value)
    if len(values) > 1:
        return None, "the judge gave two objects that disagree", ""
    return values.pop(), "", str(candidates[-1].get("rationale", ""))[:500]


def _as_bool(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        word = value.strip().strip(".\"'").casefold()
        return {"yes": True, "no": False}.get(word)
    return None
