"""What servers say is read as they mean it: bodies, errors, waits, quotas, thinking."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web

from leakgrid.outcomes import Outcome
from leakgrid.providers.openai import ChatCompletions
from leakgrid.providers.wire import (
    Exchange,
    asked_wait,
    quota_headers,
    span_seconds,
    split_thinking,
    text_of,
)
from leakgrid.types import Call, Message, Schema, Usage


def provider(session: Any = None, **changes: Any) -> ChatCompletions:
    options: dict[str, Any] = {
        "name": "m",
        "kind": "openai",
        "model": "gpt-x",
        "base_url": "http://127.0.0.1:1/v1",
        "identity": "i",
        "params": {"temperature": 0.0, "max_completion_tokens": 50},
    }
    return ChatCompletions(session=session, **{**options, **changes})


def test_the_body_is_what_chat_completions_expects() -> None:
    call = Call(
        model="m",
        messages=(Message("system", "Be kind."), Message("user", "Hello")),
        schema=Schema("answer", {"type": "object"}),
        params={"temperature": 1.0},
    )
    assert provider().body(call) == {
        "model": "gpt-x",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Hello"},
        ],
        "temperature": 1.0,
        "max_completion_tokens": 50,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": {"type": "object"}},
        },
    }


def body(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    return {"model": "gpt-x-1", "choices": [{"message": message, "finish_reason": finish}], **more}


ANSWERS: dict[str, tuple[dict[str, Any], Outcome, str, str]] = {
    "plain": (body({"content": "hi"}), Outcome.ANSWER, "hi", ""),
    "no finish reason": (body({"content": "hi"}, None), Outcome.ANSWER, "hi", ""),
    "cut": (body({"content": "hi"}, "length"), Outcome.TRUNCATED, "hi", ""),
    "filtered": (body({"content": None}, "content_filter"), Outcome.REFUSAL, "", ""),
    "refused": (body({"content": None, "refusal": "I won't."}), Outcome.REFUSAL, "I won't.", ""),
    "empty": (body({"content": ""}), Outcome.ANSWER, "", ""),
    "parts": (
        body({"content": [{"type": "text", "text": "a"}, {"text": "b"}]}),
        Outcome.ANSWER,
        "ab",
        "",
    ),
    "reasoning_content": (
        body({"content": "hi", "reasoning_content": "hm"}),
        Outcome.ANSWER,
        "hi",
        "hm",
    ),
    "reasoning": (body({"content": "hi", "reasoning": "hm"}), Outcome.ANSWER, "hi", "hm"),
    "think block": (body({"content": "<think>hm</think>\n\nhi"}), Outcome.ANSWER, "hi", "hm"),
    "closing tag alone": (body({"content": "hm\n</think>\nhi"}), Outcome.ANSWER, "hi", "hm"),
    "never closed": (body({"content": "<think>hm, Ana is"}), Outcome.ANSWER, "", "hm, Ana is"),
    "never closed and cut": (body({"content": "<think>hm"}, "length"), Outcome.TRUNCATED, "", "hm"),
    "answer in the reasoning field": (
        body({"content": None, "reasoning_content": "hi"}),
        Outcome.ANSWER,
        "",
        "hi",
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_a_completion_is_read_by_its_finish_and_fields(case: str) -> None:
    sent, outcome, text, reasoning = ANSWERS[case]
    raw = orjson.dumps(sent)
    reading = provider().read(Exchange(200, {}, raw, 0.1))
    assert (reading.outcome, reading.text, reading.reasoning) == (outcome, text, reasoning)
    # What is kept is read again in the same way, so a better reader re-reads everything.
    assert text_of("chat", raw.decode()) == (text, reasoning)


def test_usage_counts_cached_and_reasoning_tokens() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 8},
    }
    raw = orjson.dumps(body({"content": "hi"}, usage=usage))
    assert provider().read(Exchange(200, {}, raw, 0.1)).usage == Usage(100, 64, 20, 8)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None}])
def test_missing_usage_is_zero(usage: Any) -> None:
    raw = orjson.dumps(body({"content": "hi"}, usage=usage))
    assert provider().read(Exchange(200, {}, raw, 0.1)).usage == Usage()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"3",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{}]}',
        b'{"choices": [{"message": null}]}',
        b"<html>",
    ],
)
def test_a_200_that_is_no_completion_is_malformed(raw: bytes) -> None:
    assert provider().read(Exchange(200, {}, raw, 0.1)).outcome is Outcome.MALFORMED


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (429, Outcome.QUOTA),
        (502, Outcome.TRANSIENT),
        (402, Outcome.EXHAUSTED),
        ("model_error", Outcome.TRANSIENT),
    ],
)
def test_an_error_inside_a_200_counts_as_that_error(code: Any, outcome: Outcome) -> None:
    raw = orjson.dumps({"error": {"code": code, "message": "upstream"}})
    assert provider().read(Exchange(200, {}, raw, 0.1)).outcome is outcome


@pytest.mark.parametrize(
    "raw",
    [
        b'{"error": {"message": "m", "code": "c"}}',
        b'{"error": {"message": "m", "type": "c"}}',
        b'{"message": "m", "code": "c"}',
        b'[{"error": {"message": "m", "code": "c"}}]',
    ],
)
def test_error_bodies_of_all_shapes_are_told(raw: bytes) -> None:
    reading = provider().read(Exchange(500, {}, raw, 0.1))
    assert reading.error == "status 500, c: m"


def test_an_error_page_is_told_by_its_beginning() -> None:
    reading = provider().read(Exchange(502, {}, b"<html>Bad gateway</html>", 0.1))
    assert reading.error == "status 502: <html>Bad gateway</html>"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("120ms", 0.12),
        ("1s", 1.0),
        ("1m2.5s", 62.5),
        ("2h", 7200.0),
        ("1d", 86400.0),
        ("", None),
        ("soon", None),
        ("1m later", None),
    ],
)
def test_spans_of_time(text: str, seconds: float | None) -> None:
    assert span_seconds(text) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({}, None),
        ({"retry-after": "nonsense"}, None),
        ({"retry-after": "-3"}, 0.0),
    ],
)
def test_the_wait_a_server_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    assert asked_wait(headers) == seconds


def test_a_wait_may_be_a_date() -> None:
    from email.utils import formatdate
    from time import time

    wait = asked_wait({"retry-after": formatdate(time() + 100, usegmt=True)})
    assert wait is not None and 97 < wait <= 100
    assert asked_wait({"retry-after": formatdate(time() - 100, usegmt=True)}) == 0.0


def test_a_429_without_a_wait_takes_the_reset_of_what_is_used_up() -> None:
    headers = {
        "x-ratelimit-remaining-requests": "3",
        "x-ratelimit-reset-requests": "9s",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "1m1s",
    }
    assert provider().read(Exchange(429, headers, b"", 0.1)).wait_s == 61.0


def test_quota_headers_that_are_missing_or_broken_are_unknown() -> None:
    assert quota_headers({}) is None
    said = quota_headers({"x-ratelimit-limit-requests": "500", "x-ratelimit-limit-tokens": "?"})
    assert said is not None
    assert (said.limit_requests, said.limit_tokens, said.remaining_requests) == (500, None, None)


QUOTING = '{"why": "he wrote </think> and\nleft <think> open", "leak": "YES"}'
OPENING = '{"why": "<think> is open", "leak": "NO"}'
DEEP = '{"a":' * 100_000 + "</think>}"


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("a", ("a", "")),
        ("<think>x</think>a", ("a", "x")),
        ("x</think>a", ("a", "x")),
        ("<think>x", ("", "x")),
        ("  <think>\nx</think>  a ", ("a", "x")),
        ("<think>x</think>y</think>a", ("a", "x</think>y")),
        ("Ana is ill. <think>x</think> ok", ("Ana is ill.\n\nok", "x")),
        ("<think>x</think>a<think>y</think>b", ("a\n\nb", "x\n\ny")),
        ("<think>x</think>a<think>y", ("a", "x\n\ny")),
        ("hi <think>Ana", ("hi", "Ana")),
        ("x</think>a<think>y", ("a", "x\n\ny")),
        # A JSON object may quote tags; thinking before it is still taken away.
        (QUOTING, (QUOTING, "")),
        (f"\n {QUOTING}\n", (f"\n {QUOTING}\n", "")),
        (OPENING, (OPENING, "")),
        (f"x</think>\n{QUOTING}", (QUOTING, "x")),
        (f"<think>x</think>{QUOTING}", (QUOTING, "x")),
        (f"<think>a </think> b</think> {QUOTING}", (QUOTING, "a </think> b")),
        (f"Well. <think>x</think>{QUOTING}", (f"Well.\n\n{QUOTING}", "x")),
        ('x</think>{"leak": "NO"}', ('{"leak": "NO"}', "x")),
        ('{"leak": "YES"}? No.</think>{"leak": "NO"}', ('{"leak": "NO"}', '{"leak": "YES"}? No.')),
        ('{"leak": "YES"}</think>{"leak": "NO"}', ('{"leak": "NO"}', '{"leak": "YES"}')),
        ('<think>{"leak": "YES"}', ("", '{"leak": "YES"}')),
        # What is no whole object is parted at its tags, and is no verdict then.
        ('{"why": "</think> cut', ("cut", '{"why": "')),
        ('{"why": "a</think>b"} so', ('b"} so', '{"why": "a')),
        (DEEP, ("}", DEEP[: -len("</think>}")])),
    ],
)
def test_thinking_is_split_from_the_reply(text: str, split: tuple[str, str]) -> None:
    assert split_thinking(text) == split


@pytest.mark.parametrize("body_text", ["", "{", "null", '{"error": {"code": 400}}', "[1]"])
def test_a_body_that_cannot_be_read_has_no_text(body_text: str) -> None:
    assert text_of("chat", body_text) == ("", "")
    assert text_of("unheard-of", "{}") == ("", "")


# --- over a real socket ---------------------------------------------------------------------------


async def served(handler: Any, use: Any, **options: Any) -> Any:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        async with aiohttp.ClientSession() as session:
            return await use(provider(session, base_url=url, **options))
    finally:
        await runner.cleanup()


def test_key_and_headers_are_sent_and_the_body_is_untouched() -> None:
    seen: dict[str, Any] = {}

    async def handler(request: web.Request) -> web.Response:
        seen.update(request.headers, body=await request.read())
        return web.json_response(body({"content": "hi"}))

    async def use(one: ChatCompletions) -> Exchange:
        return await one.exchange(b'{"a":1}')

    exchange = asyncio.run(served(handler, use, key="sk-1", headers={"X-Title": "t"}))
    assert exchange.status == 200 and exchange.sent
    assert seen["body"] == b'{"a":1}'
    assert seen["Authorization"] == "Bearer sk-1"
    assert seen["Content-Type"] == "application/json"
    assert seen["X-Title"] == "t"


def test_a_deadline_is_a_transient_failure() -> None:
    async def handler(request: web.Request) -> web.Response:
        await asyncio.sleep(5)
        return web.Response()

    async def use(one: ChatCompletions) -> Any:
        exchange = await one.exchange(b"{}")
        return one.read(exchange), exchange

    reading, exchange = asyncio.run(served(handler, use, timeout_s=0.2))
    assert reading.outcome is Outcome.TRANSIENT
    assert "no answer within 0.2 s" in reading.error
    assert exchange.sent


def test_a_body_that_breaks_off_is_a_transient_failure() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-length": "1000"})
        await response.prepare(request)
        await response.write(b'{"choices"')
        assert request.transport is not None
        request.transport.close()
        return response

    async def use(one: ChatCompletions) -> Any:
        return one.read(await one.exchange(b"{}"))

    reading = asyncio.run(served(handler, use))
    assert reading.outcome is Outcome.TRANSIENT
    assert "broke off" in reading.error


def test_a_refused_connection_is_known_not_to_have_been_sent() -> None:
    async def main() -> Exchange:
        async with aiohttp.ClientSession() as session:
            return await provider(session).exchange(b"{}")

    exchange = asyncio.run(main())
    assert (exchange.status, exchange.sent) == (0, False)
