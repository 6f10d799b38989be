"""What lanes learned in earlier runs: limits, latency, tokens per byte."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Any

import orjson

from leakgrid.jobs.models import ModelSpec

MEMORY = "lanes.json"


def lane_id(spec: ModelSpec) -> str:
    """What one quota covers: provider, account and model, as a short name without secrets."""
    account = (str(spec.options.get(key, "")) for key in ("organization", "project", "location"))
    data = "\n".join((spec.provider, spec.endpoint, spec.key_env, spec.model, *account))
    return hashlib.sha256(data.encode()).hexdigest()[:16]


def read_memory(cache: Path) -> dict[str, Any]:
    """What lanes learned in earlier runs; empty if nothing usable is there."""
    try:
        found = orjson.loads((cache / MEMORY).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def write_memory(cache: Path, memory: dict[str, Any]) -> None:
    """Keep what lanes learned; it only speeds up the next run, so a full disk is no error."""
    draft = cache / f"{MEMORY}.{os.getpid()}.draft"
    with contextlib.suppress(OSError):
        draft.write_bytes(orjson.dumps(memory, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2))
        os.replace(draft, cache / MEMORY)
