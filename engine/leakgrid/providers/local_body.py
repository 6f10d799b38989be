"""Fits a chat request to the embedded model: bounded JSON, stops, a seed, no hidden state.

llama.cpp's own conversion of ``response_format`` lets the model spend every token it has on white
space or on a long string, so a small model rarely closes its JSON. Its ``grammar`` field with an
llguidance text does better: white space off, strings no longer than the tokens that are left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from leakgrid.types import Json

STOPS = ("\n\nInstructions:", "\n\nMessage:", "\n\nReply:")
"""Headings of local_prompt.jinja: a base model would write the user's next message itself."""

REPEAT_PENALTY = 1.1
"""Enough to break the loops of a 270M model at temperature 0; 1.0 turns it off."""

# Any one of these characters costs at most one token, which makes characters a bound on tokens;
# others may take six (an escape) or four (an emoji in byte pieces).
_PLAIN = r"[ !#-\[\]-~]"


def fit_body(body: Mapping[str, Json], *, sample: int = 0) -> dict[str, Json]:
    """A chat request body with what this server needs; fields that the caller set stay.

    ``response_format`` with a JSON schema becomes ``grammar``, whose property order is the
    schema's. The reply closes within the request's token limit whenever the schema is bounded
    (objects, arrays with maxItems, enums, strings without a pattern, integers with both limits)
    and the limit leaves room for it. The input is not changed. Raises nothing.
    """
    fitted = dict(body)
    fitted.setdefault("seed", sample)
    fitted.setdefault("repeat_penalty", REPEAT_PENALTY)
    fitted.setdefault("cache_prompt", False)
    form = fitted.get("response_format")
    if isinstance(form, Mapping) and form.get("type") == "json_schema":
        limit = fitted.get("max_completion_tokens", fitted.get("max_tokens"))
        schema = _bounded(form["json_schema"]["schema"], limit)
        guided = {**schema, "x-guidance": {"whitespace_flexible": False}}
        fitted["grammar"] = "%llguidance {}\nstart: %json " + json.dumps(guided)
        del fitted["response_format"]
    else:
        fitted.setdefault("stop", list(STOPS))
    return fitted


def _bounded(schema: Mapping[str, Json], limit: int | None) -> dict[str, Json]:
    """The schema with its strings cut to what the token limit leaves; as it was if unbounded."""
    skeleton = _width(schema)
    strings = _strings(schema)
    if limit is None or skeleton is None:
        return dict(schema)
    share = max(1, (limit - 1 - skeleton) // max(1, strings))  # one token ends the reply
    return _cut(schema, share)


def _width(schema: Mapping[str, Json]) -> int | None:
    """Most characters of compact JSON that the schema allows, strings empty; None: no bound."""
    if "const" in schema:
        return len(json.dumps(schema["const"]))
    if "enum" in schema:
        return max(len(json.dumps(value)) for value in schema["enum"])
    kind = schema.get("type")
    if kind == "object" and schema.get("additionalProperties") is False:
        total = 2
        for name, inner in schema.get("properties", {}).items():
            width = _width(inner)
            if width is None:
                return None
            total += len(json.dumps(name)) + 2 + width
        return total
    if kind == "array" and "maxItems" in schema and "items" in schema:
        width = _width(schema["items"])
        return None if width is None else 2 + schema["maxItems"] * (width + 1)
    if kind == "integer" and "minimum" in schema and "maximum" in schema:
        return max(len(str(schema["minimum"])), len(str(schema["maximum"])))
    if kind == "string" and not schema.keys() & {"pattern", "format"}:
        return 2
    return {"boolean": 5, "null": 4}.get(kind) if isinstance(kind, str) else None


def _strings(schema: Mapping[str, Json]) -> int:
    """How many free strings one reply may hold."""
    if "enum" in schema or "const" in schema:
        return 0
    match schema.get("type"):
        case "object":
            return sum(_strings(inner) for inner in schema.get("properties", {}).values())
        case "array":
            return int(schema.get("maxItems", 1)) * _strings(schema.get("items", {}))
        case "string":
            return 1
    return 0


def _cut(schema: Mapping[str, Json], share: int) -> dict[str, Json]:
    cut: dict[str, Any] = dict(schema)
    if "enum" in schema or "const" in schema:
        return cut
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            cut["properties"] = {name: _cut(inner, share) for name, inner in properties.items()}
        case "array":
            cut["items"] = _cut(schema["items"], share)
        case "string":
            least = int(cut.pop("minLength", 0))
            most = max(least, min(int(cut.pop("maxLength", share)), share))
            cut["pattern"] = f"^{_PLAIN}{{{least},{most}}}$"
    return cut
