"""The chat-completions wire format: reading requests, shaping replies and errors.

Pure functions over decoded JSON. Tokens are ceil(characters / 4) everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# A fixed date, because the same request must get the very same bytes.
CREATED = 1_767_225_600


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model says: ``content`` or ``refusal``, and its thinking if it shows any."""

    content: str | None
    finish: str = "stop"
    refusal: str | None = None
    reasoning: str = ""


class BadRequest(ValueError):
    """The request is not one that chat completions allow; the message says why."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The texts of a request: all system messages, then all others, joined by newlines."""

    system: str
    rest: str

    def block(self, tag: str) -> str | None:
        """The text between <tag> and </tag>, the system's first; None where there is none."""
        # Prompts also speak of their tags in running text; a block's own tag ends its line.
        for opening in (f"<{tag}>\n", f"<{tag}>"):
            for text in (self.system, self.rest):
                start = text.find(opening)
                if start >= 0:
                    end = text.find(f"</{tag}>", start)
                    return text[start + len(opening) : end if end >= 0 else len(text)]
        return None


def read_prompt(request: Mapping[str, Any]) -> Prompt:
    """The texts of a decoded request. Raises BadRequest when it has no usable messages."""
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages: found no list of messages; allowed: at least one message")
    system: list[str] = []
    rest: list[str] = []
    for message in messages:
        if not isinstance(message, dict):
            raise BadRequest("messages: found an entry that is no object; allowed: {role, content}")
        into = system if message.get("role") in ("system", "developer") else rest
        into.append(text(message.get("content")))
    return Prompt("\n".join(system), "\n".join(rest))


def text(content: Any) -> str:
    """The text of a message: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def lines(block: str | None) -> tuple[str, ...]:
    """The notes of a block: one a line, without its leading dash."""
    stripped = (line.strip() for line in (block or "").split("\n"))
    return tuple(line.removeprefix("- ").strip() for line in stripped if line)


def tokens(characters: int) -> int:
    """Tokens of a text with so many characters."""
    return -(-characters // 4)


def schema_of(request: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Name and definition of the response schema that the request asks for, or None."""
    wanted = request.get("response_format")
    wrapper = wanted.get("json_schema") if isinstance(wanted, dict) else None
    if not isinstance(wrapper, dict):
        return None
    schema = wrapper.get("schema")
    return str(wrapper.get("name", "")), schema if isinstance(schema, dict) else {}


def limited(reply: Reply, request: Mapping[str, Any]) -> Reply:
    """The reply as the request's own token limit cuts it. Raises BadRequest for a bad limit."""
    limit = request.get("max_completion_tokens", request.get("max_tokens"))
    if limit is None:
        return reply
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise BadRequest("max_completion_tokens: found no whole number above 0; allowed: one")
    room = 4 * limit
    if len(reply.reasoning) + len(reply.content or "") <= room or reply.content is None:
        return reply
    reasoning = reply.reasoning[:room]
    return Reply(reply.content[: room - len(reasoning)], "length", None, reasoning)


def completion(model: str, fingerprint: str, prompt: Prompt, reply: Reply) -> dict[str, Any]:
    """The body of a 200; ``fingerprint`` (hex) makes its id."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": reply.content,
        "refusal": reply.refusal,
    }
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    thought = tokens(len(reply.reasoning))
    written = tokens(len(reply.content or "") + len(reply.refusal or "")) + thought
    read = tokens(len(prompt.system) + len(prompt.rest))
    return {
        "id": f"chatcmpl-simulated-{fingerprint[:24]}",
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "system_fingerprint": "simulated",
        "choices": [
            {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish}
        ],
        "usage": {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": thought},
        },
    }


def error(message: str, kind: str, code: str | None, param: str | None = None) -> dict[str, Any]:
    """The body of an error, in OpenAI's shape."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def models(names: Sequence[str]) -> dict[str, Any]:
    """The body of GET /v1/models."""
    data = [
        {"id": name, "object": "model", "created": CREATED, "owned_by": "simulated"}
        for name in names
    ]
    return {"object": "list", "data": data}
