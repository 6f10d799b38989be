"""Gemini and Vertex: bodies, readings, places, and access tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web

from leakgrid.outcomes import JobError, Outcome
from leakgrid.providers.google import GEMINI_URL, GenerateContent, vertex_url
from leakgrid.providers.google_body import mistakes
from leakgrid.providers.google_credentials import (
    AccessTokens,
    NoToken,
    Token,
)
from leakgrid.providers.google_read import FINISHES
from leakgrid.providers.wire import Exchange, Reading, text_of
from leakgrid.types import Call, Message, Schema, Usage


def provider(session: Any = None, **changes: Any) -> GenerateContent:
    options: dict[str, Any] = {
        "name": "m",
        "kind": "gemini",
        "model": "gemini-x",
        "identity": "i",
        "params": {"temperature": 0.0, "max_tokens": 50},
    }
    return GenerateContent(session=session, **{**options, **changes})


def read(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Reading:
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    return provider().read(Exchange(status, headers or {}, raw, 0.1))


# --- bodies ---------------------------------------------------------------------------------------


def test_the_body_is_what_generate_content_expects() -> None:
    call = Call(
        model="m",
        messages=(
            Message("system", "Be kind."),
            Message("user", "Hello"),
            Message("assistant", "Hi"),
            Message("user", "So"),
            Message("user", "who?"),
        ),
        schema=Schema("answer", {"type": "object", "properties": {"a_b": {"type": "string"}}}),
        params={"temperature": 1.0},
        sample=3,
    )
    assert provider().body(call) == {
        "contents": [
            {"parts": [{"text": "Hello"}], "role": "user"},
            {"parts": [{"text": "Hi"}], "role": "model"},
            {"parts": [{"text": "So"}, {"text": "who?"}], "role": "user"},
        ],
        "systemInstruction": {"parts": [{"text": "Be kind."}], "role": "user"},
        "generationConfig": {
            "temperature": 1.0,
            "maxOutputTokens": 50,
            "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object", "properties": {"a_b": {"type": "string"}}},
        },
    }


def test_a_body_does_not_change_what_the_next_one_says() -> None:
    one = provider(params={"response_schema": {"type": "OBJECT"}})
    plain = Call(model="m", messages=(Message("user", "Hi"),))
    before = one.body(plain)
    one.body(Call(model="m", messages=plain.messages, schema=Schema("s", {}), params={"seed": 1}))
    assert one.body(plain) == before
    assert before["generationConfig"] == {"responseSchema": {"type": "OBJECT"}}


def test_the_sample_number_is_no_part_of_the_body() -> None:
    messages = (Message("user", "Hi"),)
    bodies = [provider().body(Call(model="m", messages=messages, sample=n)) for n in (0, 1)]
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"contents": []}, "'contents' is set by leakgrid"),
        ({"candidate_count": 2}, "'candidate_count' is set by leakgrid"),
        ({"candidateCount": 2}, "'candidateCount' is set by leakgrid"),
        ({"generation_config": {"candidate_count": 2}}, "'candidate_count' is set by leakgrid"),
        ({"system_instruction": "x"}, "'system_instruction' is set by leakgrid"),
        ({"max_tokens": 1, "maxOutputTokens": 2}, "are the same parameter"),
    ],
)
def test_parameters_that_cannot_be_given_are_told(params: dict[str, Any], told: str) -> None:
    assert any(told in mistake for mistake in mistakes(params))
    with pytest.raises(JobError, match=r"models\.m: params: "):
        provider(params=params)


def test_parameters_that_can_be_given_are_not() -> None:
    assert mistakes({"temperature": 1, "topP": 1, "thinking_config": {}, "unheard_of": 1}) == []


# --- readings -------------------------------------------------------------------------------------


def answer(*parts: dict[str, Any], finish: str | None = "STOP", **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-x-001", **more}


THOUGHT = {"text": "hm", "thought": True}
HI = {"text": "hi"}

ANSWERS: dict[str, tuple[dict[str, Any], Outcome, str, str]] = {
    "plain": (answer(HI), Outcome.ANSWER, "hi", ""),
    "thoughts apart": (answer(THOUGHT, HI), Outcome.ANSWER, "hi", "hm"),
    "thoughts alone": (answer(THOUGHT), Outcome.ANSWER, "", "hm"),
    "an empty text": (answer({"text": ""}), Outcome.ANSWER, "", ""),
    "no part": (answer(), Outcome.MALFORMED, "", ""),
    "no content": ({"candidates": [{"finishReason": "STOP"}]}, Outcome.MALFORMED, "", ""),
    "cut": (answer(HI, finish="MAX_TOKENS"), Outcome.TRUNCATED, "hi", ""),
    "cut in thought": (answer(THOUGHT, finish="MAX_TOKENS"), Outcome.TRUNCATED, "", "hm"),
    "cut at once": (
        {"candidates": [{"content": {}, "finishReason": "MAX_TOKENS"}]},
        Outcome.TRUNCATED,
        "",
        "",
    ),
    "filtered half-way": (answer(HI, finish="SAFETY"), Outcome.REFUSAL, "hi", ""),
    "no reason": (answer(HI, finish=None), Outcome.MALFORMED, "hi", ""),
    "some reason": (answer(HI, finish="OTHER"), Outcome.UNKNOWN, "hi", ""),
    "a reason of tomorrow": (answer(HI, finish="TOO_GOOD"), Outcome.UNKNOWN, "hi", ""),
    "prompt blocked": ({"promptFeedback": {"blockReason": "SAFETY"}}, Outcome.REFUSAL, "", ""),
    "prompt blocked, no candidate": (
        {"promptFeedback": {"blockReason": "OTHER"}, "candidates": []},
        Outcome.REFUSAL,
        "",
        "",
    ),
    "prompt blocked, no reason": ({"promptFeedback": {}}, Outcome.REFUSAL, "", ""),
    **{
        f"finish {name}": (answer(HI, finish=name), outcome, "hi", "")
        for name, outcome in FINISHES.items()
    },
}


@pytest.mark.parametrize("case", ANSWERS)
def test_a_response_is_read_by_its_finish_and_parts(case: str) -> None:
    body, outcome, text, reasoning = ANSWERS[case]
    reading = read(200, body)
    assert (reading.outcome, reading.text, reading.reasoning) == (outcome, text, reasoning)
    # What is kept is read again in the same way, so a better reader re-reads everything.
    assert text_of("gemini", orjson.dumps(body).decode()) == (text, reasoning)


def test_only_a_whole_reply_is_an_answer() -> None:
    whole = {name for name, outcome in FINISHES.items() if outcome is Outcome.ANSWER}
    assert whole == {"STOP"}


@pytest.mark.parametrize(
    ("body", "finish", "error"),
    [
        (answer(HI, finish="SPII"), "SPII", "finish reason SPII"),
        ({"promptFeedback": {"blockReason": "BLOCKLIST"}}, "PROMPT_BLOCKLIST", "BLOCKLIST"),
        ({"promptFeedback": {}}, "PROMPT_UNSPECIFIED", "the prompt was blocked"),
        (answer(), "STOP", "without any part"),
        (
            {
                "candidates": [
                    {"finishReason": "UNEXPECTED_TOOL_CALL", "finishMessage": "undeclared: f"}
                ]
            },
            "UNEXPECTED_TOOL_CALL",
            "finish reason UNEXPECTED_TOOL_CALL: undeclared: f",
        ),
    ],
)
def test_what_is_no_answer_says_why(body: dict[str, Any], finish: str, error: str) -> None:
    reading = read(200, body)
    assert reading.finish == finish
    assert error in reading.error


def test_thoughts_count_as_output() -> None:
    usage = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 64,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 300,
        "toolUsePromptTokenCount": 5,
    }
    assert read(200, answer(HI, usageMetadata=usage)).usage == Usage(105, 64, 320, 300)


@pytest.mark.parametrize("usage", [None, {}, {"promptTokenCount": None}])
def test_missing_usage_is_zero(usage: Any) -> None:
    assert read(200, answer(HI, usageMetadata=usage)).usage == Usage()


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none_do_not_hide_a_reply(word: str) -> None:
    raw = orjson.dumps(answer(HI)).replace(b'"modelVersion"', b'"avgLogprobs":%b,"modelVersion"')
    raw = raw.replace(b"%b", word.encode())
    assert read(200, raw).text == "hi"
    assert text_of("gemini", raw.decode()) == ("hi", "")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"[1]",
        b'"x"',
        b"3",
        b"{}",
        b'{"candidates": []}',
        b'{"candidates": {}}',
        b'{"candidates": [3]}',
        b'{"candidates": [{"content": {"parts": [3]}, "finishReason": "STOP"}]}',
        b'{"usageMetadata": {"promptTokenCount": 3}}',
        b'{"usageMetadata": 3, "candidates": [{}]}',
        b"<html>",
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_200_that_is_no_response_is_malformed(raw: bytes) -> None:
    assert read(200, raw).outcome is Outcome.MALFORMED


@pytest.mark.parametrize("body_text", ["", "{", "null", '{"error": {"code": 400}}', "[1]", "{}"])
def test_a_body_that_cannot_be_read_has_no_text(body_text: str) -> None:
    assert text_of("gemini", body_text) == ("", "")


@pytest.mark.parametrize(
    ("details", "headers", "message", "seconds"),
    [
        ([{"retryDelay": "34.074824224s"}], {}, "", 34.074824224),
        ([{"retryDelay": "0s"}], {}, "", 0.0),
        ([{"retryDelay": {"seconds": 3, "nanos": 500_000_000}}], {}, "", 3.5),
        ([{"retryDelay": "5s"}], {"retry-after": "60"}, "Please retry in 9s.", 5.0),
        ([{"retryDelay": "soon"}], {"retry-after": "60"}, "", 60.0),
        ([], {"retry-after": "60"}, "Please retry in 9s.", 60.0),
        ([], {}, "Please retry in 38.535911024s.", 38.535911024),
        ([], {}, "Please retry in 1m2.5s.", 62.5),
        ([], {}, "Please retry later.", None),
    ],
)
def test_the_wait_is_what_the_server_asks_for(
    details: list[Any], headers: dict[str, str], message: str, seconds: float | None
) -> None:
    error = {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED", "details": details}
    assert read(429, {"error": error}, headers).wait_s == seconds


# --- places ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("us-central1", "us-central1-aiplatform.googleapis.com"),
        ("global", "aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
    ],
)
def test_vertex_has_a_place_for_each_location(location: str, host: str) -> None:
    assert vertex_url("p", location) == f"https://{host}/v1/projects/p/locations/{location}"


@pytest.mark.parametrize(
    ("model", "vertex", "path"),
    [
        ("gemini-x", False, "models/gemini-x"),
        ("models/gemini-x", False, "models/gemini-x"),
        ("tunedModels/mine", False, "tunedModels/mine"),
        ("gemini-x", True, "publishers/google/models/gemini-x"),
        ("meta/llama", True, "publishers/meta/models/llama"),
        ("publishers/google/models/gemini-x", True, "publishers/google/models/gemini-x"),
        ("endpoints/123", True, "endpoints/123"),
    ],
)
def test_a_model_is_asked_at_its_path(model: str, vertex: bool, path: str) -> None:
    tokens = AccessTokens(lambda: Token("t-1")) if vertex else None
    seen = asyncio.run(served(ok, once, model=model, tokens=tokens))[1]
    assert seen.path == f"/base/{path}:generateContent"


@pytest.mark.parametrize("model", ["../x", "x?key=1", "a&b", "a#b"])
def test_a_model_that_would_change_the_address_is_refused(model: str) -> None:
    with pytest.raises(JobError, match="is no model's name"):
        provider(model=model)


def test_the_gemini_api_is_where_calls_go_by_default() -> None:
    assert GEMINI_URL == "https://generativelanguage.googleapis.com/v1beta"


# --- over a real socket ---------------------------------------------------------------------------


class Seen:
    """What the stand-in server saw last, and how often it was asked."""

    def __init__(self) -> None:
        self.path = ""
        self.headers: Mapping[str, str] = {}
        self.body = b""
        self.times = 0


Handler = Callable[[web.Request, Seen], Any]


async def ok(request: web.Request, seen: Seen) -> web.Response:
    return web.json_response(answer(HI))


async def once(one: GenerateContent) -> Reading:
    return one.read(await one.exchange(b'{"a":1}'))


async def served(handler: Handler, use: Any, **options: Any) -> Any:
    """(what ``use`` returns, what the server saw)."""
    seen = Seen()

    async def handle(request: web.Request) -> Any:
        seen.path, seen.headers, seen.body = request.path, request.headers, await request.read()
        seen.times += 1
        return await handler(request, seen)

    app = web.Application()
    app.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    options.setdefault("base_url", f"http://127.0.0.1:{runner.addresses[0][1]}/base/")
    try:
        async with aiohttp.ClientSession() as session:
            return await use(provider(session, **options)), seen
    finally:
        await runner.cleanup()


def test_the_key_goes_into_a_header_and_the_body_is_untouched() -> None:
    reading, seen = asyncio.run(served(ok, once, key="AIza-1", headers={"X-Title": "t"}))
    assert reading.text == "hi"
    assert seen.body == b'{"a":1}'
    assert seen.headers["x-goog-api-key"] == "AIza-1"
    assert seen.headers["Content-Type"] == "application/json"
    assert seen.headers["X-Title"] == "t"
    assert "Authorization" not in seen.headers


@pytest.mark.parametrize("vertex", [False, True])
def test_a_server_that_repeats_the_secret_does_not_get_it_kept(vertex: bool) -> None:
    async def echo(request: web.Request, seen: Seen) -> web.Response:
        return web.json_response(answer({"text": f"you sent {dict(request.headers)}"}))

    async def use(one: GenerateContent) -> Exchange:
        return await one.exchange(b"{}")

    way: dict[str, Any] = {"key": "secret-1"}
    if vertex:
        way = {"tokens": AccessTokens(lambda: Token("secret-1"))}
    exchange, _ = asyncio.run(served(echo, use, **way))
    assert b"[redacted]" in exchange.body
    assert b"secret-1" not in exchange.body


def test_a_quota_project_is_billed() -> None:
    tokens = AccessTokens(lambda: Token("t-1", quota_project="payer"))
    _, seen = asyncio.run(served(ok, once, tokens=tokens))
    assert seen.headers["Authorization"] == "Bearer t-1"
    assert seen.headers["x-goog-user-project"] == "payer"


def test_a_rejected_token_is_renewed_once_and_the_call_answered() -> None:
    given = iter(["old", "new"])

    async def picky(request: web.Request, seen: Seen) -> web.Response:
        if request.headers["Authorization"] == "Bearer new":
            return web.json_response(answer(HI))
        return web.json_response({"error": {"code": 401, "status": "UNAUTHENTICATED"}}, status=401)

    async def use(one: GenerateContent) -> list[Reading]:
        return [await once(one), await once(one)]

    tokens = AccessTokens(lambda: Token(next(given)))
    readings, seen = asyncio.run(served(picky, use, tokens=tokens))
    assert [reading.text for reading in readings] == ["hi", "hi"]
    assert seen.times == 3


def test_a_token_that_stays_rejected_stops_the_lane() -> None:
    async def never(request: web.Request, seen: Seen) -> web.Response:
        error = {"code": 401, "message": "Request had invalid credentials.", "status": "X"}
        return web.json_response({"error": error}, status=401)

    reading, seen = asyncio.run(served(never, once, tokens=AccessTokens(lambda: Token("t-1"))))
    assert reading.outcome is Outcome.AUTH
    assert "invalid credentials" in reading.error
    assert seen.times == 2


@pytest.mark.parametrize(("passing", "outcome"), [(False, Outcome.AUTH), (True, Outcome.TRANSIENT)])
def test_without_a_token_nothing_is_sent(passing: bool, outcome: Outcome) -> None:
    def fetch() -> Token:
        raise NoToken("no credentials here; log in", passing=passing)

    async def use(one: GenerateContent) -> tuple[Exchange, Reading]:
        exchange = await one.exchange(b"{}")
        return exchange, one.read(exchange)

    (exchange, reading), seen = asyncio.run(served(ok, use, tokens=AccessTokens(fetch)))
    assert (reading.outcome, reading.error) == (outcome, "no credentials here; log in")
    assert not exchange.sent
    assert seen.times == 0
