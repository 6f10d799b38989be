"""Lines of batch files in the two ways of asking: OpenAI's and Google's.

Both are asked as chat completions of the simulated models, so that what is planted holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import orjson

from leakgrid.providers.simulated import wire
from leakgrid.providers.simulated.batch_store import GEMINI, OPENAI_CHAT, Batch

CANONICAL = {400: 3, 401: 16, 403: 7, 404: 5, 429: 8, 500: 13, 503: 14}
"""HTTP status to the canonical code that stands in Google's result lines."""


class Lines(Protocol):
    """One way of asking. ``key`` names the field of a request's id."""

    key: str

    def asked(self, line: Mapping[str, Any], batch: Batch) -> bytes:
        """The chat completion that a line asks for. Raises KeyError, TypeError or ValueError."""

    def answer(self, id: object, status: int, request: str, body: bytes) -> bytes:
        """The result line of a request that was carried out, without its newline."""

    def undone(self, id: object, status: str) -> bytes:
        """The result line of a request that was not, or nothing."""

    def fits(self, line: Mapping[str, Any], endpoint: str) -> str:
        """What is wrong with an input line, or nothing."""


class OpenAILines:
    """A custom_id, a URL and a body; a request that was not carried out is an error."""

    key = "custom_id"

    def asked(self, line: Mapping[str, Any], batch: Batch) -> bytes:
        """The body, byte for byte as it would go online when it was made compact."""
        return orjson.dumps(line["body"])

    def answer(self, id: object, status: int, request: str, body: bytes) -> bytes:
        """The response with its status."""
        response = {"status_code": status, "request_id": request, "body": orjson.Fragment(body)}
        return self._line(id, response, None)

    def undone(self, id: object, status: str) -> bytes:
        """An error with the batch's own end."""
        error = {"code": f"batch_{status}", "message": f"This request was not made: {status}."}
        return self._line(id, None, error)

    def _line(self, id: object, response: Any, error: Any) -> bytes:
        told = {"id": "batch_req_simulated", "custom_id": id, "response": response, "error": error}
        return orjson.dumps(told)

    def fits(self, line: Mapping[str, Any], endpoint: str) -> str:
        """A line must be for the batch's endpoint."""
        if line.get("method") != "POST" or line.get("url") != endpoint:
            return "invalid_url"
        return "" if isinstance(line.get("body"), dict) else "invalid_request"


class GeminiLines:
    """A key and a generateContent request; what was not carried out has no line."""

    key = "key"

    def asked(self, line: Mapping[str, Any], batch: Batch) -> bytes:
        """The request as a chat completion."""
        return orjson.dumps(as_chat(batch.model, line["request"]))

    def answer(self, id: object, status: int, request: str, body: bytes) -> bytes:
        """The response, or a status."""
        told = orjson.loads(body)
        if status == 200:
            return orjson.dumps({"key": id, "response": as_gemini(told)})
        error = {"code": CANONICAL.get(status, 2), "message": told["error"]["message"]}
        return orjson.dumps({"key": id, "error": error})

    def undone(self, id: object, status: str) -> bytes:
        """Nothing."""
        return b""

    def fits(self, line: Mapping[str, Any], endpoint: str) -> str:
        """A line must hold a request."""
        return "" if isinstance(line.get("request"), dict) else "INVALID_ARGUMENT"


LINES: Mapping[str, Lines] = {OPENAI_CHAT: OpenAILines(), GEMINI: GeminiLines()}


def as_chat(model: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """A generateContent request as a chat completion.

    Raises KeyError, TypeError or AttributeError where it is none.
    """
    messages = []
    system = request.get("systemInstruction")
    if system:
        messages += [{"role": "system", "content": part["text"]} for part in system["parts"]]
    for turn in request["contents"]:
        role = "assistant" if turn.get("role") == "model" else "user"
        messages += [{"role": role, "content": part["text"]} for part in turn["parts"]]
    asked: dict[str, Any] = {"model": model, "messages": messages}
    settings = request.get("generationConfig") or {}
    if "maxOutputTokens" in settings:
        asked["max_tokens"] = settings["maxOutputTokens"]
    if "responseJsonSchema" in settings:
        schema = {"name": "response", "schema": settings["responseJsonSchema"]}
        asked["response_format"] = {"type": "json_schema", "json_schema": schema}
    return asked


def as_gemini(completion: Mapping[str, Any]) -> dict[str, Any]:
    """A chat completion of the simulation as a generateContent response."""
    (choice,) = completion["choices"]
    message, usage = choice["message"], completion["usage"]
    finish = {"stop": "STOP", "length": "MAX_TOKENS"}[choice["finish_reason"]]
    if message.get("refusal"):
        finish = "SAFETY"
    parts: list[dict[str, Any]] = []
    if message.get("reasoning_content"):
        parts.append({"text": message["reasoning_content"], "thought": True})
    if message["content"] is not None:
        parts.append({"text": message["content"]})
    thought = usage["completion_tokens_details"]["reasoning_tokens"]
    return {
        "candidates": [
            {"content": {"parts": parts, "role": "model"}, "finishReason": finish, "index": 0}
        ],
        "usageMetadata": {
            "promptTokenCount": usage["prompt_tokens"],
            "candidatesTokenCount": usage["completion_tokens"] - thought,
            "thoughtsTokenCount": thought,
            "totalTokenCount": usage["total_tokens"],
        },
        "modelVersion": completion["model"],
    }


def failure(status: int) -> bytes:
    """The body of a request that a fault makes fail with this status."""
    codes = {400: "bad_value", 401: "invalid_api_key", 429: "rate_limit_exceeded"}
    kind = "invalid_request_error" if status < 429 else "server_error"
    told = wire.error(f"Failed with {status} (simulated fault).", kind, codes.get(status))
    return orjson.dumps(told)
