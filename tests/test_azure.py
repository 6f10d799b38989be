"""Azure OpenAI: both forms of its URL, its key header, its filters and its ways to say no."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import aiohttp
import orjson
import pytest

from leakgrid.lanes.lane import Lane
from leakgrid.lanes.values import Parcel, Quota
from leakgrid.outcomes import LaneStopped, Outcome
from leakgrid.providers.azure import APIS, azure, base_url_of
from leakgrid.providers.openai import ChatCompletions
from leakgrid.providers.wire import Exchange, quota_headers, text_of
from leakgrid.types import Call, Message
from tests.openai_recorder import Recorder, Seen, recording, send

KEY = "azure-key"
CALL = Call(model="m", messages=(Message("user", "Hello"),))
DONE = {
    "chat": {
        "id": "c", "object": "chat.completion", "created": 1, "model": "gpt-x",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."},
                     "finish_reason": "stop"}],
    },
    "responses": {
        "id": "r", "object": "response", "created_at": 1, "model": "gpt-x", "status": "completed",
        "output": [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Recorder]:
    with recording() as recorder:
        yield recorder


def made(server: Recorder, api: str, **more: Any) -> Any:
    def make(session: Any) -> Any:
        options: dict[str, Any] = {
            "name": "m", "kind": "azure", "session": session, "identity": "i",
            "params": {"prompt_cache_key": "job"}, "key": KEY, "deployment": "my gpt/4",
        }  # fmt: skip
        return azure(api=api, resource_url=server.url, **{**options, **more})

    return make


def asked(server: Recorder, api: str, **more: Any) -> Seen:
    server.status, server.answer = 200, orjson.dumps(DONE[api])
    send(made(server, api, **more), CALL)
    return server.last()


@pytest.mark.parametrize(
    ("api", "version", "path"),
    [
        ("chat", "", "/openai/v1/chat/completions"),
        ("chat", "preview", "/openai/v1/chat/completions?api-version=preview"),
        (
            "chat",
            "2024-10-21",
            "/openai/deployments/my%20gpt%2F4/chat/completions?api-version=2024-10-21",
        ),
        ("responses", "", "/openai/v1/responses"),
        ("responses", "v1", "/openai/v1/responses?api-version=v1"),
        ("responses", "2025-04-01-preview", "/openai/responses?api-version=2025-04-01-preview"),
    ],
)
def test_a_deployment_is_reached_in_both_forms(
    api: str, version: str, path: str, server: Recorder
) -> None:
    seen = asked(server, api, api_version=version)
    assert seen.path == path
    assert seen.headers["api-key"] == KEY
    assert "authorization" not in seen.headers
    body = orjson.loads(seen.body)
    assert (body["model"], body["prompt_cache_key"]) == ("my gpt/4", "job")


@pytest.mark.parametrize("api", APIS)
def test_an_entra_token_goes_as_a_bearer_token(api: str, server: Recorder) -> None:
    seen = asked(server, api, token=True)
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert "api-key" not in seen.headers


@pytest.mark.parametrize("suffix", ["", "/", "/openai", "/openai/v1", "/openai/v1/"])
def test_a_resource_may_be_named_by_any_of_its_urls(suffix: str) -> None:
    url = "https://lab.openai.azure.com"
    assert base_url_of("chat", url + suffix, "d") == f"{url}/openai/v1"
    classic = base_url_of("chat", url + suffix, "d", "2024-10-21")
    assert classic == f"{url}/openai/deployments/d"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("token", [False, True])
def test_the_classic_form_is_asked_as_the_sdk_asks_it(
    api: str, token: bool, server: Recorder
) -> None:
    openai = pytest.importorskip("openai", reason="the contract is with OpenAI's SDK")
    version = "2025-04-01-preview"
    ours = asked(server, api, api_version=version, token=token, deployment="gpt-x")
    credential = {"azure_ad_token" if token else "api_key": KEY}
    with openai.AzureOpenAI(
        azure_endpoint=server.url, api_version=version, max_retries=0, **credential
    ) as client:
        messages = [{"role": "user", "content": "Hello"}]
        if api == "chat":
            client.chat.completions.create(model="gpt-x", messages=messages, prompt_cache_key="job")
        else:
            client.responses.create(
                model="gpt-x", input=messages, store=False, prompt_cache_key="job"
            )
    theirs = server.last()
    assert (ours.path, ours.sorted_body) == (theirs.path, theirs.sorted_body)
    for header in ("api-key", "authorization", "content-type"):
        assert ours.headers.get(header) == theirs.headers.get(header)


def test_the_key_is_blanked_in_what_is_kept(server: Recorder) -> None:
    server.status = 401
    server.answer = orjson.dumps({"error": {"code": "401", "message": f"no such key: {KEY}"}})
    provider, exchange = send(made(server, "chat"), CALL)
    reading = provider.read(exchange)
    assert KEY.encode() not in exchange.body and KEY not in reading.error
    assert reading.outcome is Outcome.AUTH


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("token", "status", "told"), [(True, 401, True), (True, 403, False), (False, 401, False)]
)
def test_a_token_that_ran_out_stops_the_lane_and_says_how_to_go_on(
    api: str, token: bool, status: int, told: bool, server: Recorder
) -> None:
    server.status = status
    server.answer = orjson.dumps({"error": {"code": "401", "message": "Access token has expired."}})

    async def main() -> str:
        async with aiohttp.ClientSession() as session:
            provider = made(server, api, token=token)(session)
            lane = Lane("m", quota=Quota())
            with pytest.raises(LaneStopped) as stopped:
                await lane.send(Parcel(provider, orjson.dumps(provider.body(CALL))))
            return str(stopped.value)

    message = asyncio.run(main())
    assert "Access token has expired" in message
    assert ("export a new AZURE_OPENAI_AD_TOKEN and run the same command again" in message) is told


# --- the content filter ---------------------------------------------------------------------------


def read(status: int, body: Any, headers: dict[str, str] | None = None) -> Any:
    provider = ChatCompletions(
        name="m", kind="azure", model="d", base_url="http://127.0.0.1:1", session=None,  # type: ignore[arg-type]
        identity="i", params={},
    )  # fmt: skip
    return provider.read(Exchange(status, headers or {}, orjson.dumps(body), 0.1))


BLOCKED = {
    "error": {
        "message": "The prompt was filtered.",
        "type": None,
        "param": "prompt",
        "code": "content_filter",
        "status": 400,
        "innererror": {
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": {
                "hate": {"filtered": False, "severity": "safe"},
                "jailbreak": {"filtered": True, "detected": True},
                "sexual": {"filtered": True, "severity": "high"},
                "custom_blocklists": [],
            },
        },
    }
}


def test_a_filtered_prompt_is_a_refusal_that_names_its_filters() -> None:
    reading = read(400, BLOCKED)
    assert (reading.outcome, reading.finish) == (Outcome.REFUSAL, "content_filter")
    assert reading.error.endswith("(filtered: jailbreak, sexual)")
    assert text_of("chat", orjson.dumps(BLOCKED).decode()) == ("", "")


@pytest.mark.parametrize(
    "error",
    [
        {"code": "content_filter", "message": "filtered"},
        {"code": "BadRequest", "innererror": {"code": "ResponsibleAIPolicyViolation"}},
        {"code": None, "inner_error": {"code": "ResponsibleAIPolicyViolation"}},
        {"code": "400", "innererror": {"content_filter_result": {"hate": {"filtered": True}}}},
    ],
)
def test_every_shape_of_a_filtered_prompt_is_a_refusal(error: dict[str, Any]) -> None:
    assert read(400, {"error": error}).outcome is Outcome.REFUSAL


@pytest.mark.parametrize("inner", [None, "text", {}, {"content_filter_result": None}, []])
def test_a_bad_request_without_a_filter_is_invalid(inner: Any) -> None:
    error = {"code": "BadRequest", "message": "no", "innererror": inner}
    assert read(400, {"error": error}).outcome is Outcome.INVALID


def test_a_filtered_reply_is_a_refusal_that_names_its_filters() -> None:
    choice = {
        "finish_reason": "content_filter",
        "message": {"role": "assistant", "content": ""},
        "content_filter_results": {
            "violence": {"filtered": True, "severity": "medium"},
            "hate": {"filtered": False, "severity": "safe"},
        },
    }
    reading = read(200, {"model": "gpt-x", "choices": [choice]})
    assert (reading.outcome, reading.finish) == (Outcome.REFUSAL, "content_filter")
    assert reading.error == "filtered: violence"


def test_a_reply_that_passed_the_filters_is_an_answer() -> None:
    results = {"hate": {"filtered": False}, "error": {"code": "content_filter_error"}}
    choice = {
        "finish_reason": "stop", "message": {"content": "Hi."}, "content_filter_results": results
    }  # fmt: skip
    prompt = [{"prompt_index": 0, "content_filter_results": results}]
    reading = read(200, {"choices": [choice], "prompt_filter_results": prompt})
    assert (reading.outcome, reading.text, reading.error) == (Outcome.ANSWER, "Hi.", "")


# --- quotas ---------------------------------------------------------------------------------------

SLOWER = (
    "Requests to the ChatCompletions_Create Operation have exceeded the token rate limit of "
    "your current pricing tier. Please retry after {} seconds."
)


@pytest.mark.parametrize(
    ("headers", "message", "wait"),
    [
        ({"retry-after-ms": "250", "retry-after": "1"}, SLOWER.format(9), 0.25),
        ({"retry-after": "6"}, SLOWER.format(9), 6.0),
        ({}, SLOWER.format(9), 9.0),
        ({}, "Please retry after 1 second.", 1.0),
        ({}, "Please try again in 86 milliseconds.", 0.086),
        ({}, "Too many requests.", None),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "12"}, "No.", 12.0),
    ],
)
def test_a_429_waits_as_long_as_azure_says(
    headers: dict[str, str], message: str, wait: float | None
) -> None:
    reading = read(429, {"error": {"code": "429", "message": message}}, headers)
    assert reading.outcome is Outcome.QUOTA
    assert reading.wait_s == pytest.approx(wait)


def test_its_rate_headers_are_the_ones_that_lanes_read() -> None:
    said = quota_headers(
        {
            "x-ratelimit-limit-requests": "100",
            "x-ratelimit-remaining-requests": "99",
            "x-ratelimit-limit-tokens": "100000",
            "x-ratelimit-remaining-tokens": "98765",
        }
    )
    assert said is not None
    assert (said.remaining_requests, said.remaining_tokens) == (99, 98765)
