"""Journal rows for tests, complete in every column."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson


def key_of(number: int) -> bytes:
    """A 32-byte key."""
    return hashlib.sha256(b"%d" % number).digest()


def completion(text: str, **more: Any) -> str:
    """The body of a chat completion that says ``text``."""
    return orjson.dumps(
        {
            "model": "m-1",
            "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5},
            **more,
        }
    ).decode()


def answer_row(number: int, **changes: Any) -> dict[str, Any]:
    """An ``answers`` row of call ``number``."""
    row = {
        "kind": "answer", "key": key_of(number).hex(), "run": "r", "job": "j",
        "role": "assistant", "lane": "l", "provider": "openai", "family": "chat", "model": "m",
        "returned": "m-1", "sample": 0, "outcome": "answer", "status": 200, "attempt": 1,
        "finish": "stop", "error": "", "input": 10, "cached": 0, "output": 5,
        "reasoning_tokens": 0, "usd": 0.001, "latency_ms": 12.5, "wait_ms": 0.1,
        "ts": 1000.0 + number, "tier": "online", "simulated": False,
        "body": completion(f"text {number}"),
    }  # fmt: skip
    return {**row, **changes}


def record_row(number: int, column: str = "c" * 32, **changes: Any) -> dict[str, Any]:
    """A ``records`` row of item ``number`` in ``column``."""
    row = {
        "column_id": column, "digest": key_of(number).hex()[:32], "run": "r",
        "benchmark": "muppet", "item": f"item-{number}", "model": "m", "defence": "none",
        "condition": "group", "sample": 0, "settled": True, "simulated": False,
        "reply": "hello", "reply_outcome": "answer", "reasoning": "", "verdicts": [],
        "calls": [], "extra": "{}", "ts": 1000.0,
    }  # fmt: skip
    return {**row, **changes}
