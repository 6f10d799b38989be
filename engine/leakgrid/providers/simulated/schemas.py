"""The smallest value that a JSON schema allows, for judges that nobody planted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DEPTH = 32


def smallest(schema: Any) -> Any:
    """A minimal value valid for the schema: required properties only, first enum member.

    Follows type, enum, const, properties, items, bounds, anyOf/oneOf/allOf and local $ref;
    patterns and formats are not looked at.
    """
    return _walk(schema, schema, _DEPTH)


def _walk(schema: Any, root: Any, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth == 0:
        return {}
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    if isinstance(ref := schema.get("$ref"), str):
        return _walk(_target(ref, root), root, depth - 1)
    for choice in ("anyOf", "oneOf"):
        if schema.get(choice):
            return _walk(schema[choice][0], root, depth - 1)
    if schema.get("allOf"):
        merged: dict[str, Any] = {}
        for part in schema["allOf"]:
            value = _walk(part, root, depth - 1)
            if not isinstance(value, dict):
                return value
            merged |= value
        return merged
    kind = schema.get("type", "object" if "properties" in schema else None)
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    return _of_type(kind, schema, root, depth)


def _of_type(kind: str | None, schema: Mapping[str, Any], root: Any, depth: int) -> Any:
    if kind == "string":
        return "x" * int(schema.get("minLength", 0))
    if kind in ("integer", "number"):
        return _number(schema, kind == "integer")
    if kind == "boolean":
        return False
    if kind == "array":
        count = int(schema.get("minItems", 0))
        return [_walk(schema.get("items", {}), root, depth - 1) for _ in range(count)]
    if kind == "null":
        return None
    properties = schema.get("properties", {})
    names = schema.get("required", ())
    return {name: _walk(properties.get(name, {}), root, depth - 1) for name in names}


def _number(schema: Mapping[str, Any], whole: bool) -> int | float:
    low = schema.get("minimum")
    if low is None and "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"] + 1
    high = schema.get("maximum")
    if low is None:
        low = 0 if high is None else min(0, high)
    return -int(-low // 1) if whole else low


def _target(ref: str, root: Any) -> Any:
    node = root
    for step in ref.removeprefix("#").strip("/").split("/"):
        node = node.get(step.replace("~1", "/").replace("~0", "~")) if step and node else node
    return node
