"""What we send to Google and read from it equals what its own SDK sends and reads.

Both are pointed at one recording server. The SDK sends the same JSON as we do, but for four
habits that mean nothing to the API (its JSON takes either form): it writes whole numbers of
floating-point fields as ``40.0``, leaves keys inside thinkingConfig and propertyOrdering in snake
case, sends an empty generationConfig beside fields that do not belong into it, and orders keys in
its own way. The cases that show the first three are named in DIFFERS; all others are byte-equal
once keys are sorted.
It also adds headers that name the SDK and its version.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import aiohttp
import orjson
import pytest

from leakgrid.outcomes import Outcome
from leakgrid.providers.google import GenerateContent
from leakgrid.providers.google_credentials import AccessTokens, Token
from leakgrid.providers.google_read import FINISHES
from leakgrid.providers.wire import Exchange
from leakgrid.types import Call, Message, Schema, Usage

# What holds the loop here is the SDK beside ours: its first answer of a kind builds its models.
pytestmark = pytest.mark.may_block

genai = pytest.importorskip("google.genai", reason="google-genai is in the extra 'dev'")

MODEL = "gemini-x"
KINDS = ("gemini", "vertex")


@dataclass
class Recorder:
    """A server that notes each request and gives the same answer to all."""

    url: str = ""
    answer: tuple[int, bytes] = (200, b"{}")
    path: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        self.path, self.body = path, body
        self.headers = {name.lower(): value for name, value in headers.items()}
        return self.answer


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    one = Recorder()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, answer = one.take(self.path, dict(self.headers), body)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        one.url = f"http://127.0.0.1:{server.server_port}"
        yield one
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def clients(recorder: Recorder) -> Mapping[str, Any]:
    from google.oauth2 import credentials

    signed_in: Any = credentials.Credentials  # it has no types

    def options(version: str) -> Any:
        return genai.types.HttpOptions(base_url=recorder.url, api_version=version)

    return {
        "gemini": genai.Client(api_key="k-1", http_options=options("v1beta")),
        "vertex": genai.Client(
            vertexai=True,
            project="proj",
            location="europe-west4",
            credentials=signed_in(token="tok-1"),
            http_options=options("v1"),
        ),
    }


def ours(recorder: Recorder, kind: str, call: Call, params: Mapping[str, Any]) -> Exchange:
    """Send one call through our client."""
    place: dict[str, Any] = {"base_url": f"{recorder.url}/v1beta", "key": "k-1"}
    if kind == "vertex":
        place = {
            "base_url": f"{recorder.url}/v1/projects/proj/locations/europe-west4",
            "tokens": AccessTokens(lambda: Token("tok-1")),
        }

    async def main() -> Exchange:
        async with aiohttp.ClientSession() as session:
            one = GenerateContent(
                name="m",
                kind=kind,
                model=MODEL,
                session=session,
                identity="i",
                params=params,
                **place,
            )
            return await one.exchange(orjson.dumps(one.body(call)))

    return asyncio.run(main())


# --- requests -------------------------------------------------------------------------------------

ASK = (Message("user", "Who knows of it?"),)
TALK = (
    Message("system", "Be brief."),
    Message("user", "Hello"),
    Message("assistant", "Good day"),
    Message("user", "Who knows — «naïve» 😀?"),
)
SCHEMA = Schema(
    "verdict",
    {
        "type": "object",
        "properties": {
            "leaked_it": {"type": "boolean"},
            "any_of_it": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["leaked_it", "any_of_it"],
        "additionalProperties": False,
    },
)
OPENAPI = {
    "type": "OBJECT",
    "properties": {"is_ok": {"type": "BOOLEAN"}, "why": {"type": "STRING"}},
    "propertyOrdering": ["is_ok", "why"],
    "required": ["is_ok"],
}
HARMS = ("HARASSMENT", "HATE_SPEECH", "SEXUALLY_EXPLICIT", "DANGEROUS_CONTENT")


@dataclass(frozen=True)
class Case:
    """Our parameters, and the SDK's where they are spelled differently."""

    params: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] | None = None
    messages: tuple[Message, ...] = ASK
    schema: Schema | None = None
    call: Mapping[str, Any] = field(default_factory=dict)


CASES: dict[str, Case] = {
    "nothing": Case(),
    "temperature zero": Case({"temperature": 0.0}),
    "temperature": Case({"temperature": 0.7}),
    "whole temperature": Case({"temperature": 1}),
    "top_p": Case({"top_p": 0.95}),
    "topP": Case({"topP": 0.95}, {"top_p": 0.95}),
    "top_k": Case({"top_k": 40}),
    "max_output_tokens": Case({"max_output_tokens": 400}),
    "maxOutputTokens": Case({"maxOutputTokens": 400}, {"max_output_tokens": 400}),
    "max_tokens": Case({"max_tokens": 400}, {"max_output_tokens": 400}),
    "max_completion_tokens": Case({"max_completion_tokens": 400}, {"max_output_tokens": 400}),
    "seed": Case({"seed": 7}),
    "seed zero": Case({"seed": 0}),
    "stop_sequences": Case({"stop_sequences": ["END", "\n\n"]}),
    "stop": Case({"stop": "END"}, {"stop_sequences": ["END"]}),
    "presence penalty": Case({"presence_penalty": 0.5}),
    "frequency penalty": Case({"frequencyPenalty": -0.5}, {"frequency_penalty": -0.5}),
    "logprobs": Case({"response_logprobs": True, "logprobs": 3}),
    "budget": Case({"thinking_config": {"thinking_budget": 512}}),
    "no thinking": Case({"thinking_config": {"thinking_budget": 0}}),
    "any thinking": Case({"thinking_config": {"thinking_budget": -1, "include_thoughts": True}}),
    "thinkingConfig": Case(
        {"thinkingConfig": {"thinkingBudget": 512, "includeThoughts": False}},
        {"thinking_config": {"thinking_budget": 512, "include_thoughts": False}},
    ),
    "thinking level": Case({"thinking_config": {"thinking_level": "low"}}),
    "THINKING LEVEL": Case({"thinking_config": {"thinking_level": "HIGH"}}),
    "mime type": Case({"response_mime_type": "application/json"}),
    "OpenAPI schema": Case(
        {"response_mime_type": "application/json", "response_schema": OPENAPI},
    ),
    "JSON schema": Case(
        {"response_mime_type": "application/json", "response_json_schema": SCHEMA.definition},
    ),
    "a call's schema": Case(
        {"temperature": 0.5},
        {
            "temperature": 0.5,
            "response_mime_type": "application/json",
            "response_json_schema": SCHEMA.definition,
        },
        schema=SCHEMA,
    ),
    "a call's schema comes first": Case(
        {"responseMimeType": "text/plain", "responseSchema": OPENAPI},
        {
            "response_mime_type": "application/json",
            "response_json_schema": SCHEMA.definition,
        },
        schema=SCHEMA,
    ),
    "one safety setting": Case(
        {
            "safety_settings": [
                {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"},
            ]
        }
    ),
    "all safety settings": Case(
        {
            "safetySettings": [
                {"category": f"harm_category_{harm.lower()}", "threshold": "off"} for harm in HARMS
            ]
        },
        {
            "safety_settings": [
                {"category": f"HARM_CATEGORY_{harm}", "threshold": "OFF"} for harm in HARMS
            ]
        },
    ),
    "modalities": Case({"response_modalities": ["TEXT"]}),
    "resolution": Case({"media_resolution": "media_resolution_low"}),
    "tier": Case({"service_tier": "flex"}),
    "labels": Case({"labels": {"cost_centre": "a_b"}}),
    "a conversation": Case({}, messages=TALK),
    "a conversation with parameters": Case(
        {"temperature": 0.2, "max_output_tokens": 64, "seed": 1}, messages=TALK
    ),
    "two system messages": Case(
        {"temperature": 0.5},
        messages=(Message("system", "One."), Message("system", "Two."), *ASK),
    ),
    "two in a row": Case({}, messages=(Message("user", "One."), Message("user", "Two."))),
    "the model speaks first": Case({}, messages=(Message("assistant", "Well?"), *ASK)),
    "an empty message": Case({}, messages=(Message("user", ""),)),
    "a call's parameters come first": Case(
        {"temperature": 0.2, "max_tokens": 10},
        {"temperature": 0.9, "max_output_tokens": 20},
        call={"temperature": 0.9, "max_output_tokens": 20},
    ),
    "a nested table": Case(
        {"generation_config": {"top_p": 0.5}, "seed": 3}, {"top_p": 0.5, "seed": 3}
    ),
    "everything": Case(
        {
            "temperature": 0.3,
            "top_p": 0.9,
            "top_k": 20,
            "max_output_tokens": 100,
            "seed": 11,
            "stop_sequences": ["x"],
            "thinking_config": {"thinking_budget": 128, "include_thoughts": True},
            "safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
        },
        messages=TALK,
    ),
}

DIFFERS = {
    "whole temperature": "1 is sent as 1.0",
    "top_k": "40 is sent as 40.0",
    "budget": "snake case",
    "no thinking": "snake case",
    "any thinking": "snake case",
    "thinkingConfig": "snake case",
    "thinking level": "snake case",
    "THINKING LEVEL": "snake case",
    "a conversation": "an empty generationConfig",
    "OpenAPI schema": "snake case",
    "everything": "20.0 and snake case",
    "one safety setting": "an empty generationConfig",
    "all safety settings": "an empty generationConfig",
    "tier": "an empty generationConfig",
    "labels": "an empty generationConfig",
}


def sdk_contents(messages: tuple[Message, ...]) -> list[Any]:
    """The turns as a user of the SDK writes them: one Content a turn, one Part a message."""
    types = genai.types
    turns: list[Any] = []
    for message in messages:
        if message.role == "system":
            continue
        role = {"assistant": "model"}.get(message.role, message.role)
        part = types.Part(text=message.text)
        if turns and turns[-1].role == role:
            turns[-1].parts.append(part)
        else:
            turns.append(types.Content(role=role, parts=[part]))
    return turns


def sdk_call(client: Any, case: Case) -> Any:
    config = dict(case.params if case.config is None else case.config)
    system = [message.text for message in case.messages if message.role == "system"]
    if system:
        config["system_instruction"] = system
    return client.models.generate_content(
        model=MODEL,
        contents=sdk_contents(case.messages),
        config=genai.types.GenerateContentConfig(**config) if config else None,
    )


def plain(value: Any, key: str = "") -> Any:
    """``value`` without the SDK's habits: see the head of this file."""
    if isinstance(value, dict):
        snaky = set(value) if key == "thinkingConfig" else {"property_ordering"}
        names = {
            name: re.sub(r"_(.)", lambda found: found[1].upper(), name) if name in snaky else name
            for name in value
        }
        kept = {names[name]: plain(inner, names[name]) for name, inner in value.items()}
        if kept.get("generationConfig") == {}:
            del kept["generationConfig"]
        return kept
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_requests_equal_the_sdks(
    recorder: Recorder, clients: Mapping[str, Any], kind: str, name: str
) -> None:
    case = CASES[name]
    recorder.answer = (200, orjson.dumps(answer("fine")))
    sdk_call(clients[kind], case)
    path, headers, theirs = recorder.path, recorder.headers, orjson.loads(recorder.body)
    call = Call(model="m", messages=case.messages, schema=case.schema, params=case.call)
    assert ours(recorder, kind, call, case.params).status == 200
    mine = orjson.loads(recorder.body)
    assert recorder.path == path
    for header in ("content-type", "x-goog-api-key", "authorization"):
        assert recorder.headers.get(header) == headers.get(header), header
    assert canonical(plain(mine)) == canonical(plain(theirs))
    assert (canonical(mine) == canonical(theirs)) is (name not in DIFFERS)
    assert plain(mine) == mine or name == "whole temperature"  # the habits are the SDK's


def test_there_are_enough_cases_and_each_sends_a_body_of_its_own() -> None:
    assert len(CASES) >= 30
    assert set(DIFFERS) <= set(CASES)


# --- answers --------------------------------------------------------------------------------------


def answer(text: str | None = None, finish: str | None = "STOP", **more: Any) -> dict[str, Any]:
    """A response body with one candidate."""
    parts = [] if text is None else [{"text": text}]
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-x-001", **more}


def parts(*given: dict[str, Any], finish: str = "STOP") -> dict[str, Any]:
    body = answer("", finish)
    body["candidates"][0]["content"]["parts"] = list(given)
    return body


def usage(**counts: int) -> dict[str, Any]:
    return answer("hi", usageMetadata={f"{name}TokenCount": n for name, n in counts.items()})


BODIES: dict[str, dict[str, Any]] = {
    "plain": answer("hi"),
    "unicode": answer("naïve «ok» 😀 \u2028 end"),
    "several parts": parts({"text": "a"}, {"text": "b"}, {"text": ""}),
    "thoughts": parts({"text": "hm", "thought": True}, {"text": "hi", "thoughtSignature": "QQ=="}),
    "two thoughts": parts(
        {"text": "h", "thought": True}, {"text": "m", "thought": True}, {"text": "hi"}
    ),
    "thought is false": parts({"text": "hi", "thought": False}),
    "only thoughts": parts({"text": "hm", "thought": True}),
    "cut in thought": parts({"text": "hm", "thought": True}, finish="MAX_TOKENS"),
    "cut without content": {"candidates": [{"content": {}, "finishReason": "MAX_TOKENS"}]},
    "cut without parts": {
        "candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}]
    },
    "stopped without content": {"candidates": [{"finishReason": "SAFETY", "index": 0}]},
    "a tool call": parts({"functionCall": {"name": "f", "args": {}}}, {"text": "hi"}),
    "two candidates": {"candidates": [*answer("one")["candidates"], *answer("two")["candidates"]]},
    "no finish reason": answer("hi", None),
    "usage": usage(prompt=100, candidates=20, total=120),
    "cached usage": usage(prompt=100, cachedContent=64, candidates=20, total=120),
    "thought usage": usage(prompt=100, candidates=20, thoughts=300, total=420),
    "tool usage": usage(prompt=100, toolUsePrompt=7, candidates=20, total=127),
    "empty usage": usage(),
    "prompt blocked": {"promptFeedback": {"blockReason": "SAFETY"}, "modelVersion": "g"},
    "prompt prohibited": {
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
    },
    "prompt blocked for other reasons": {"promptFeedback": {"blockReason": "OTHER"}},
    "prompt on the list": {"promptFeedback": {"blockReason": "BLOCKLIST"}, "candidates": []},
    "prompt is a jailbreak": {"promptFeedback": {"blockReason": "JAILBREAK"}},
    "ratings": answer(
        "hi",
        promptFeedback={
            "safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "LOW"}]
        },
    ),
    **{f"finish {name}": answer("hi", name) for name in FINISHES if name},
    "finish OTHER": answer("hi", "OTHER"),
    "finish NO_IMAGE": answer("hi", "NO_IMAGE"),
    "finish IMAGE_OTHER": answer("hi", "IMAGE_OTHER"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BODIES)
def test_answers_are_read_as_the_sdk_reads_them(
    recorder: Recorder, clients: Mapping[str, Any], kind: str, name: str
) -> None:
    recorder.answer = (200, orjson.dumps(BODIES[name]))
    theirs = sdk_call(clients[kind], CASES["nothing"])
    exchange = ours(recorder, kind, Call(model="m", messages=ASK), {})
    reading = reader().read(exchange)
    candidate = theirs.candidates[0] if theirs.candidates else None
    given = candidate.content.parts if candidate and candidate.content else None
    thoughts = "".join(part.text or "" for part in given or () if part.thought)
    assert reading.text == (theirs.text or "")
    assert reading.reasoning == thoughts
    assert reading.model == (theirs.model_version or "")
    if candidate is None:
        assert reading.finish == f"PROMPT_{theirs.prompt_feedback.block_reason.value}"
        assert reading.outcome is Outcome.REFUSAL
    else:
        assert reading.finish == (candidate.finish_reason.value if candidate.finish_reason else "")
    counts = theirs.usage_metadata
    if counts is None:
        assert reading.usage == Usage()
        return
    read = reading.usage
    assert read.cached == (counts.cached_content_token_count or 0)
    assert read.reasoning == (counts.thoughts_token_count or 0)
    assert read.output == (counts.candidates_token_count or 0) + read.reasoning
    assert read.input + read.output == (counts.total_token_count or 0)


def reader() -> GenerateContent:
    """A client that only reads."""
    session: Any = None
    return GenerateContent(
        name="m", kind="gemini", model=MODEL, session=session, identity="i", params={}
    )


ERRORS: dict[str, tuple[int, Any]] = {
    "invalid": (400, {"code": 400, "message": "Bad field.", "status": "INVALID_ARGUMENT"}),
    "quota": (429, {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED"}),
    "overload": (503, {"code": 503, "message": "Busy.", "status": "UNAVAILABLE"}),
}


@pytest.mark.parametrize("wrapped", [False, True], ids=["alone", "in an array"])
@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_read_as_the_sdk_reads_them(
    recorder: Recorder, clients: Mapping[str, Any], name: str, wrapped: bool
) -> None:
    status, error = ERRORS[name]
    body: Any = {"error": error}
    recorder.answer = (status, orjson.dumps([body] if wrapped else body))
    with pytest.raises(genai.errors.APIError) as caught:
        sdk_call(clients["gemini"], CASES["nothing"])
    reading = reader().read(ours(recorder, "gemini", Call(model="m", messages=ASK), {}))
    assert (caught.value.code, caught.value.status) == (status, reading.finish)
    assert reading.error == f"status {status}, {error['status']}: {caught.value.message}"
