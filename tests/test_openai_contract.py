"""What we send and read equals what OpenAI's own SDK sends and reads at the same server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from leakgrid.outcomes import Outcome
from leakgrid.providers.openai import ChatCompletions
from leakgrid.providers.openai_endpoint import account_headers
from leakgrid.providers.openai_responses import Responses
from leakgrid.types import Call, Message, Schema, Usage
from tests.openai_recorder import Recorder, recording, send

openai = pytest.importorskip("openai", reason="the contract is with OpenAI's SDK (extra 'dev')")
# What holds the loop here is the SDK beside ours: its first answer of a kind builds its models.
pytestmark = pytest.mark.may_block

KEY = "sk-contract"
SCHEMA = Schema(
    "verdict",
    {
        "type": "object",
        "properties": {"leaked": {"type": "boolean"}, "why": {"type": ["string", "null"]}},
        "required": ["leaked", "why"],
        "additionalProperties": False,
    },
)
SHORT = (Message("user", "Hello"),)
SYSTEM = (Message("system", "Be kind."), Message("user", "Hello"))
DEVELOPER = (Message("developer", "Be kind."), Message("user", "Hello"))
DIALOGUE = (*SYSTEM, Message("assistant", "Hi."), Message("user", "Who knows?"))
ODD = (
    Message("user", 'A "quote",\nzero\u0000, ünïcödé 😀 \u2028, and \\ more'),
    Message("user", ""),
)


@pytest.fixture(scope="module")
def server() -> Iterator[Recorder]:
    with recording() as recorder:
        yield recorder


@pytest.fixture
def sdk(server: Recorder) -> Iterator[Any]:
    server.status, server.headers = 200, {}
    with openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1", max_retries=0) as client:
        yield client


def chat(server: Recorder, params: dict[str, Any], **more: Any) -> Any:
    def make(session: Any) -> ChatCompletions:
        return ChatCompletions(
            name="m", kind="openai", model="gpt-x", base_url=f"{server.url}/v1", session=session,
            identity="i", params=params, key=KEY, **more,
        )  # fmt: skip

    return make


def responses(server: Recorder, params: dict[str, Any], **more: Any) -> Any:
    def make(session: Any) -> Responses:
        return Responses(
            name="m", kind="openai", model="gpt-x", base_url=f"{server.url}/v1", session=session,
            identity="i", params=params, key=KEY, **more,
        )  # fmt: skip

    return make


# --- what is sent ---------------------------------------------------------------------------------

CHAT: list[tuple[tuple[Message, ...], dict[str, Any], Schema | None]] = [
    (SHORT, {}, None),
    (SYSTEM, {}, None),
    (DEVELOPER, {}, None),
    (DIALOGUE, {}, None),
    (ODD, {}, None),
    (SHORT, {}, SCHEMA),
    (DIALOGUE, {"temperature": 0.0}, SCHEMA),
    (SHORT, {"temperature": 0}, None),
    (SHORT, {"temperature": 0.7, "top_p": 0.95}, None),
    (SHORT, {"temperature": 1.0, "max_tokens": 400}, None),
    (SHORT, {"max_completion_tokens": 400}, None),
    (SHORT, {"max_completion_tokens": 4000, "reasoning_effort": "minimal"}, None),
    (SHORT, {"reasoning_effort": "none", "temperature": 0.0}, None),
    (SHORT, {"reasoning_effort": "xhigh", "verbosity": "low"}, SCHEMA),
    (SHORT, {"verbosity": "high"}, None),
    (SHORT, {"seed": 7}, None),
    (SHORT, {"seed": 2**53, "temperature": 0.1 + 0.2}, None),
    (SHORT, {"stop": "END"}, None),
    (SHORT, {"stop": ["END", "\n\n"]}, None),
    (SHORT, {"presence_penalty": 0.5, "frequency_penalty": -0.5}, None),
    (SHORT, {"logprobs": True, "top_logprobs": 5}, None),
    (SHORT, {"logit_bias": {"50256": -100, "198": 5}}, None),
    (SHORT, {"logprobs": None}, None),
    (SHORT, {"response_format": {"type": "json_object"}}, None),
    (SHORT, {"store": False}, None),
    (SHORT, {"store": True, "metadata": {"study": "leaks"}}, None),
    (SHORT, {"user": "lab-3"}, None),
    (SHORT, {"safety_identifier": "lab-3", "service_tier": "flex"}, None),
    (SHORT, {"service_tier": "priority", "temperature": 0.0}, SCHEMA),
    (SYSTEM, {"prompt_cache_key": "job-1"}, SCHEMA),
    (SYSTEM, {"prompt_cache_key": "job-1", "prompt_cache_retention": "24h"}, None),
    (SHORT, {"prompt_cache_options": {"ttl": "30m"}}, None),
    (SHORT, {"modalities": ["text"]}, None),
    (SHORT, {"prediction": {"type": "content", "content": "Hi."}}, None),
    (SHORT, {"tools": [], "parallel_tool_calls": False}, None),
    (SHORT, {"web_search_options": {"search_context_size": "low"}}, None),
]

RESPONSES: list[tuple[tuple[Message, ...], dict[str, Any], Schema | None]] = [
    (SHORT, {}, None),
    (SYSTEM, {}, None),
    (DEVELOPER, {}, None),
    (DIALOGUE, {}, None),
    (ODD, {}, None),
    (SHORT, {}, SCHEMA),
    (DIALOGUE, {"temperature": 0.0}, SCHEMA),
    (SHORT, {"temperature": 0}, None),
    (SHORT, {"temperature": 0.7, "top_p": 0.95}, None),
    (SHORT, {"max_output_tokens": 400}, None),
    (SHORT, {"max_output_tokens": 16, "temperature": 1.0}, SCHEMA),
    (SHORT, {"reasoning": {"effort": "minimal"}}, None),
    (SHORT, {"reasoning": {"effort": "none"}, "temperature": 0.0}, None),
    (SHORT, {"reasoning": {"effort": "high", "summary": "auto"}}, None),
    (SHORT, {"reasoning": {"effort": "low", "summary": "detailed"}}, SCHEMA),
    (SHORT, {"reasoning": {"effort": None, "summary": "concise"}}, None),
    (SHORT, {"reasoning": {"effort": "max", "mode": "pro"}}, None),
    (SHORT, {"text": {"verbosity": "low"}}, None),
    (SHORT, {"text": {"verbosity": "high"}}, SCHEMA),
    (SHORT, {"text": {"format": {"type": "json_object"}}}, None),
    (SHORT, {"truncation": "auto"}, None),
    (SHORT, {"truncation": "disabled", "max_output_tokens": 40}, None),
    (SHORT, {"include": ["reasoning.encrypted_content"]}, None),
    (SHORT, {"include": ["message.output_text.logprobs"], "top_logprobs": 3}, None),
    (SHORT, {"instructions": "Be brief."}, None),
    (SHORT, {"store": True}, None),
    (SHORT, {"store": True, "metadata": {"study": "leaks"}}, None),
    (SHORT, {"user": "lab-3"}, None),
    (SHORT, {"safety_identifier": "lab-3", "service_tier": "flex"}, None),
    (SHORT, {"service_tier": "priority", "temperature": 0.0}, SCHEMA),
    (SYSTEM, {"prompt_cache_key": "job-1"}, SCHEMA),
    (SYSTEM, {"prompt_cache_key": "job-1", "prompt_cache_retention": "24h"}, None),
    (SHORT, {"prompt_cache_options": {"mode": "explicit", "ttl": "12h"}}, None),
    (SHORT, {"tools": [], "parallel_tool_calls": False}, None),
    (SHORT, {"background": False, "max_tool_calls": 1}, None),
]


def asked(messages: tuple[Message, ...], schema: Schema | None) -> Call:
    return Call(model="m", messages=messages, schema=schema)


def plain(messages: tuple[Message, ...]) -> list[dict[str, str]]:
    return [{"role": part.role, "content": part.text} for part in messages]


@pytest.mark.parametrize("case", range(len(CHAT)))
def test_a_chat_completion_is_asked_as_the_sdk_asks_it(
    case: int, server: Recorder, sdk: Any
) -> None:
    messages, params, schema = CHAT[case]
    server.answer = orjson.dumps(COMPLETIONS[0])
    send(chat(server, params), asked(messages, schema))
    ours = server.last()
    theirs = dict(params)
    if schema is not None:
        form = {"name": schema.name, "strict": True, "schema": schema.definition}
        theirs["response_format"] = {"type": "json_schema", "json_schema": form}
    sdk.chat.completions.create(model="gpt-x", messages=plain(messages), **theirs)
    same(ours, server.last())


@pytest.mark.parametrize("case", range(len(RESPONSES)))
def test_a_response_is_asked_as_the_sdk_asks_it(case: int, server: Recorder, sdk: Any) -> None:
    messages, params, schema = RESPONSES[case]
    server.answer = orjson.dumps(RESPONDED[0])
    send(responses(server, params), asked(messages, schema))
    ours = server.last()
    theirs = {"store": False, **params}
    if schema is not None:
        form = {
            "type": "json_schema", "name": schema.name, "strict": True, "schema": schema.definition,
        }  # fmt: skip
        theirs["text"] = {**theirs.get("text", {}), "format": form}
    sdk.responses.create(model="gpt-x", input=plain(messages), **theirs)
    same(ours, server.last())


def same(ours: Any, theirs: Any) -> None:
    """Path, body and the headers that say who asks are equal."""
    assert ours.path == theirs.path
    assert ours.sorted_body == theirs.sorted_body
    for header in (
        "authorization", "content-type", "openai-organization", "openai-project", "api-key",
    ):  # fmt: skip
        assert ours.headers.get(header) == theirs.headers.get(header), header


def test_the_tables_are_as_large_as_promised() -> None:
    for table in (CHAT, RESPONSES):
        distinct = {orjson.dumps([plain(m), p, s and s.name]) for m, p, s in table}
        assert len(distinct) == len(table) >= 30


def test_organisation_and_project_are_sent_as_the_sdk_sends_them(
    server: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    import os

    server.status, server.headers = 200, {}
    server.answer = orjson.dumps(COMPLETIONS[0])
    send(chat(server, {}, headers=account_headers(os.environ)), asked(SHORT, None))
    ours = server.last()
    with openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1", max_retries=0) as client:
        client.chat.completions.create(model="gpt-x", messages=plain(SHORT))
    same(ours, server.last())
    assert ours.headers["openai-organization"] == "org-1"
    assert ours.headers["openai-project"] == "proj-1"


# --- what is read ---------------------------------------------------------------------------------


def completion(message: dict[str, Any], finish: str, **more: Any) -> dict[str, Any]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "refusal": None, **message},
        "finish_reason": finish,
        "logprobs": None,
    }
    usage = {
        "prompt_tokens": 120,
        "completion_tokens": 30,
        "total_tokens": 150,
        "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 16, "audio_tokens": 0},
    }
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-x-2026-01-01",
        "choices": [choice], "usage": usage, "service_tier": "default", **more,
    }  # fmt: skip


COMPLETIONS = [
    completion({"content": "Hi there."}, "stop"),
    completion({"content": "Hi the"}, "length"),
    completion({"content": ""}, "length"),
    completion({"content": None, "refusal": "I can't say."}, "stop"),
    completion({"content": None}, "content_filter"),
    completion({"content": "Part of"}, "content_filter"),
    completion({"content": '{"leaked":true,"why":null}'}, "stop"),
    completion({"content": "ünïcödé 😀\n"}, "stop"),
    completion({"content": "Hi."}, "stop", usage=None),
    completion({"content": "Hi.", "annotations": []}, "stop", system_fingerprint="fp"),
    completion(
        {"content": "Hi."}, "stop",
        usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(COMPLETIONS)))
def test_a_completion_is_read_as_the_sdk_reads_it(case: int, server: Recorder, sdk: Any) -> None:
    server.answer = orjson.dumps(COMPLETIONS[case])
    provider, exchange = send(chat(server, {}), asked(SHORT, None))
    ours = provider.read(exchange)
    theirs = sdk.chat.completions.create(model="gpt-x", messages=plain(SHORT))
    choice = theirs.choices[0]
    assert ours.text == (choice.message.content or choice.message.refusal or "")
    assert (ours.finish, ours.model) == (choice.finish_reason, theirs.model)
    refused = bool(choice.message.refusal) or choice.finish_reason == "content_filter"
    assert (ours.outcome is Outcome.REFUSAL) == refused
    assert (ours.outcome is Outcome.TRUNCATED) == (choice.finish_reason == "length")
    usage = theirs.usage
    if usage is None:
        assert ours.usage == Usage()
        return
    inside, outside = usage.prompt_tokens_details, usage.completion_tokens_details
    assert ours.usage == Usage(
        usage.prompt_tokens,
        inside.cached_tokens if inside else 0,
        usage.completion_tokens,
        outside.reasoning_tokens if outside else 0,
    )


def response(*output: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    usage = {
        "input_tokens": 120,
        "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 32},
        "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 16},
        "total_tokens": 150,
    }
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-x-2026-01-01",
        "status": status, "error": None, "incomplete_details": None, "instructions": None,
        "output": list(output), "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "usage": usage, "metadata": {}, "temperature": 1.0, "top_p": 1.0, **more,
    }  # fmt: skip


def said(*content: dict[str, Any], status: str = "completed") -> dict[str, Any]:
    return {
        "type": "message", "id": "msg_1", "role": "assistant", "status": status,
        "content": list(content),
    }  # fmt: skip


def words(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


NO = {"type": "refusal", "refusal": "I can't say."}


def thought(*summaries: str) -> dict[str, Any]:
    parts = [{"type": "summary_text", "text": text} for text in summaries]
    return {"type": "reasoning", "id": "rs_1", "summary": parts, "encrypted_content": "gAAA"}


def broken(reason: str, *output: dict[str, Any]) -> dict[str, Any]:
    return response(*output, status="incomplete", incomplete_details={"reason": reason})


def failed(code: str) -> dict[str, Any]:
    error = {"code": code, "message": "It failed."}
    return response(status="failed", error=error, usage=None)


RESPONDED = [
    response(said(words("Hi there."))),
    response(said(words("Hi "), words("there."))),
    response(thought(), said(words("Hi."))),
    response(thought("First this.", "Then that."), said(words("Hi."))),
    response(thought("a"), said(words("One. ")), thought("b"), said(words("Two."))),
    response(said(NO)),
    response(said(words('{"leaked":false,"why":"no"}'))),
    response(said(words("ünïcödé 😀\n")), usage=None),
    broken("max_output_tokens", thought(), said(words("Hi the"), status="incomplete")),
    broken("max_output_tokens", thought()),
    broken("content_filter"),
    broken("content_filter", said(words("Part of"), status="incomplete")),
    failed("server_error"),
    failed("rate_limit_exceeded"),
    failed("invalid_prompt"),
]


@pytest.mark.parametrize("case", range(len(RESPONDED)))
def test_a_response_is_read_as_the_sdk_reads_it(case: int, server: Recorder, sdk: Any) -> None:
    server.answer = orjson.dumps(RESPONDED[case])
    provider, exchange = send(responses(server, {}), asked(SHORT, None))
    ours = provider.read(exchange)
    theirs = sdk.responses.create(model="gpt-x", input=plain(SHORT))
    parts = [part for item in theirs.output if item.type == "message" for part in item.content]
    refusals = [part.refusal for part in parts if part.type == "refusal"]
    assert ours.text == (theirs.output_text or "".join(refusals))
    thoughts = [item for item in theirs.output if item.type == "reasoning"]
    assert ours.reasoning == "\n\n".join(part.text for item in thoughts for part in item.summary)
    assert ours.model == theirs.model
    reason = theirs.incomplete_details and theirs.incomplete_details.reason
    code = theirs.error and theirs.error.code
    assert ours.finish == (reason or code or theirs.status)
    filtered = reason == "content_filter" or code == "invalid_prompt"
    assert (ours.outcome is Outcome.REFUSAL) == (bool(refusals) or filtered)
    assert (ours.outcome is Outcome.TRUNCATED) == (reason == "max_output_tokens")
    assert (ours.outcome is Outcome.ANSWER) == (theirs.status == "completed" and not refusals)
    usage = theirs.usage
    assert ours.usage == (
        Usage()
        if usage is None
        else Usage(
            usage.input_tokens,
            usage.input_tokens_details.cached_tokens,
            usage.output_tokens,
            usage.output_tokens_details.reasoning_tokens,
        )
    )


ERRORS = [
    (
        400,
        {"code": "context_length_exceeded", "type": "invalid_request_error", "param": "messages"},
    ),
    (401, {"code": "invalid_api_key", "type": "invalid_request_error", "param": None}),
    (404, {"code": "model_not_found", "type": "invalid_request_error", "param": None}),
    (429, {"code": "rate_limit_exceeded", "type": "tokens", "param": None}),
    (429, {"code": "insufficient_quota", "type": "insufficient_quota", "param": None}),
    (500, {"code": None, "type": "server_error", "param": None}),
]


@pytest.mark.parametrize(("status", "error"), ERRORS)
def test_an_error_is_told_with_the_words_that_the_sdk_tells(
    status: int, error: dict[str, Any], server: Recorder, sdk: Any
) -> None:
    server.status = status
    server.answer = orjson.dumps({"error": {"message": "Something is wrong.", **error}})
    provider, exchange = send(chat(server, {}), asked(SHORT, None))
    ours = provider.read(exchange)
    with pytest.raises(openai.APIStatusError) as raised:
        sdk.chat.completions.create(model="gpt-x", messages=plain(SHORT))
    assert raised.value.status_code == exchange.status == status
    assert ours.finish == (raised.value.code or raised.value.type)
    assert raised.value.body["message"] in ours.error
