"""The Responses API: what is asked, what comes back, and what OpenAI's models would refuse."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import orjson
import pytest

from leakgrid.cache.key import canonical
from leakgrid.outcomes import Outcome
from leakgrid.providers.openai import ChatCompletions
from leakgrid.providers.openai_endpoint import Endpoint, account_headers
from leakgrid.providers.openai_responses import Responses
from leakgrid.providers.openai_rules import OWNED, unfit_params
from leakgrid.providers.wire import Exchange, text_of
from leakgrid.types import Call, Message, Schema, Usage


def provider(**changes: Any) -> Responses:
    options: dict[str, Any] = {
        "name": "m",
        "kind": "openai",
        "model": "gpt-x",
        "base_url": "http://127.0.0.1:1/v1",
        "identity": "i",
        "params": {"max_output_tokens": 50},
        "session": None,
    }
    return Responses(**{**options, **changes})


def call(**changes: Any) -> Call:
    messages = (Message("system", "Be kind."), Message("user", "Hello"))
    return Call(**{"model": "m", "messages": messages, **changes})


# --- what is asked --------------------------------------------------------------------------------


def test_the_body_is_what_the_responses_api_expects() -> None:
    asked = call(schema=Schema("answer", {"type": "object"}), params={"temperature": 1.0})
    params = {"max_output_tokens": 50, "text": {"verbosity": "low"}, "reasoning": {"effort": "low"}}
    assert provider(params=params).body(asked) == {
        "model": "gpt-x",
        "input": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Hello"},
        ],
        "temperature": 1.0,
        "max_output_tokens": 50,
        "reasoning": {"effort": "low"},
        "text": {
            "verbosity": "low",
            "format": {
                "type": "json_schema",
                "name": "answer",
                "strict": True,
                "schema": {"type": "object"},
            },
        },
    }


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_every_name_of_the_output_limit_means_the_same(name: str) -> None:
    job = provider(params={name: 50}).body(call())
    assert job["max_output_tokens"] == 50
    one = provider(params={"max_output_tokens": 50}).body(call(params={name: 20}))
    assert one["max_output_tokens"] == 20
    assert not {"max_tokens", "max_completion_tokens"} & {*job, *one}


def test_nothing_is_stored_at_the_provider_unless_the_job_says_so() -> None:
    plain = provider()
    data = canonical(plain.body(call()))
    assert orjson.loads(plain.wire_body(data))["store"] is False
    kept = provider(params={"store": True, "prompt_cache_key": "job"})
    assert orjson.loads(kept.wire_body(b'{"a":1}')) == {
        "a": 1,
        "store": True,
        "prompt_cache_key": "job",
    }
    assert orjson.loads(kept.wire_body(b"{}")) == {"store": True, "prompt_cache_key": "job"}
    # Neither is part of what the key hashes.
    params = {"max_output_tokens": 50, "store": True, "prompt_cache_key": "job"}
    assert canonical(provider(params=params).body(call())) == data


def test_organisation_and_project_come_from_the_job_then_the_environment() -> None:
    environment = {"OPENAI_ORG_ID": "org-1", "OPENAI_PROJECT_ID": " "}
    assert account_headers(environment) == {"OpenAI-Organization": "org-1"}
    assert account_headers(environment, "org-2", "proj-2") == {
        "OpenAI-Organization": "org-2",
        "OpenAI-Project": "proj-2",
    }
    assert account_headers({}) == {}


# --- what comes back ------------------------------------------------------------------------------


def message(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(parts)}


def text(words: str) -> dict[str, Any]:
    return {"type": "output_text", "text": words, "annotations": []}


REFUSED = {"type": "refusal", "refusal": "I won't."}
SUMMARY = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
THOUGHTS = {**SUMMARY, "content": [{"type": "reasoning_text", "text": "long hm"}]}


def body(*output: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"model": "gpt-x-1", "status": status, "output": list(output), **more}


def cut(reason: str | None, *output: dict[str, Any]) -> dict[str, Any]:
    details = None if reason is None else {"reason": reason}
    return body(*output, status="incomplete", incomplete_details=details)


ANSWERS: dict[str, tuple[dict[str, Any], Outcome, str, str, str]] = {
    "plain": (body(message(text("hi"))), Outcome.ANSWER, "hi", "", "completed"),
    "parts": (
        body(message(text("a"), text("b")), message(text("c"))),
        Outcome.ANSWER, "abc", "", "completed",
    ),
    "summary": (body(SUMMARY, message(text("hi"))), Outcome.ANSWER, "hi", "hm", "completed"),
    "two summaries": (
        body(SUMMARY, SUMMARY, message(text("hi"))),
        Outcome.ANSWER, "hi", "hm\n\nhm", "completed",
    ),
    "thoughts shown": (
        body(THOUGHTS, message(text("hi"))), Outcome.ANSWER, "hi", "long hm", "completed",
    ),
    "think block": (
        body(message(text("<think>hm</think>hi"))), Outcome.ANSWER, "hi", "hm", "completed",
    ),
    "no summary": (
        body({"type": "reasoning", "summary": []}, message(text("hi"))),
        Outcome.ANSWER, "hi", "", "completed",
    ),
    "refused": (body(message(REFUSED)), Outcome.REFUSAL, "I won't.", "", "completed"),
    "refused half-way": (
        body(message(text("Well,"), REFUSED)), Outcome.REFUSAL, "Well,", "", "completed",
    ),
    "cut": (
        cut("max_output_tokens", message(text("hi"))),
        Outcome.TRUNCATED, "hi", "", "max_output_tokens",
    ),
    "cut while thinking": (
        cut("max_output_tokens", SUMMARY), Outcome.TRUNCATED, "", "hm", "max_output_tokens",
    ),
    "filtered": (cut("content_filter"), Outcome.REFUSAL, "", "", "content_filter"),
    "cut for no reason": (cut(None, message(text("a"))), Outcome.TRUNCATED, "a", "", "incomplete"),
    "other items": (
        body({"type": "web_search_call", "id": "w"}, message(text("hi"))),
        Outcome.ANSWER, "hi", "", "completed",
    ),
    "empty": (body(), Outcome.ANSWER, "", "", "completed"),
}  # fmt: skip


@pytest.mark.parametrize("case", ANSWERS)
def test_a_response_is_read_by_its_status_and_items(case: str) -> None:
    sent, outcome, said, reasoning, finish = ANSWERS[case]
    raw = orjson.dumps(sent)
    reading = provider().read(Exchange(200, {}, raw, 0.1))
    assert (reading.outcome, reading.text, reading.reasoning) == (outcome, said, reasoning)
    assert (reading.finish, reading.model) == (finish, "gpt-x-1")
    assert text_of("responses", raw.decode()) == (said, reasoning)


def test_usage_counts_cached_and_reasoning_tokens() -> None:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 8},
        "total_tokens": 120,
    }
    for sent in (body(message(text("a")), usage=usage), body(status="failed", usage=usage)):
        assert provider().read(Exchange(200, {}, orjson.dumps(sent), 0.1)).usage == Usage(
            100, 64, 20, 8
        )


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": None, "input_tokens_details": None}])
def test_missing_usage_is_zero(usage: Any) -> None:
    raw = orjson.dumps(body(message(text("hi")), usage=usage))
    assert provider().read(Exchange(200, {}, raw, 0.1)).usage == Usage()


@pytest.mark.parametrize(
    ("code", "outcome", "wait"),
    [
        ("server_error", Outcome.TRANSIENT, None),
        ("vector_store_timeout", Outcome.TRANSIENT, None),
        ("rate_limit_exceeded", Outcome.QUOTA, 62.0),
        ("invalid_prompt", Outcome.REFUSAL, None),
        ("bio_policy", Outcome.REFUSAL, None),
        ("misalignment_policy_violation", Outcome.REFUSAL, None),
        ("image_content_policy_violation", Outcome.REFUSAL, None),
        ("invalid_image", Outcome.INVALID, None),
        ("failed_to_download_image", Outcome.INVALID, None),
        ("data_residency_mismatch", Outcome.INVALID, None),
        ("something_new", Outcome.UNKNOWN, None),
    ],
)
def test_a_failed_response_ends_by_its_code(
    code: str, outcome: Outcome, wait: float | None
) -> None:
    error = {"code": code, "message": "Sorry. Please try again in 1m2s."}
    reading = provider().read(
        Exchange(200, {}, orjson.dumps(body(status="failed", error=error)), 0)
    )
    assert (reading.outcome, reading.wait_s, reading.finish) == (outcome, wait, code)
    assert code in reading.error and "Sorry" in reading.error


@pytest.mark.parametrize(
    ("sent", "outcome"),
    [
        (body(status="failed", error=None), Outcome.UNKNOWN),
        (body(status="cancelled"), Outcome.TRANSIENT),
        (body(status="queued"), Outcome.MALFORMED),
        (body(status="in_progress"), Outcome.MALFORMED),
        ({"error": {"code": 429, "message": "upstream"}}, Outcome.QUOTA),
        ({"error": {"code": "model_error", "message": "upstream"}}, Outcome.TRANSIENT),
    ],
)
def test_other_ends(sent: dict[str, Any], outcome: Outcome) -> None:
    assert provider().read(Exchange(200, {}, orjson.dumps(sent), 0.1)).outcome is outcome


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b"null", b"[]", b'"x"', b"3", b"{}", b"<html>", b"\xff", b"[" * 5000,
        b'{"status": "completed"}',
        b'{"status": "completed", "output": null}',
        b'{"status": "completed", "output": [{}]}',
        b'{"status": "completed", "output": [{"type": "message"}]}',
        b'{"status": "completed", "output": [{"type": "message", "content": [{}]}]}',
        b'{"choices": [{"message": {"content": "hi"}}]}',
    ],
)  # fmt: skip
def test_a_200_that_is_no_response_is_malformed(raw: bytes) -> None:
    reading = provider().read(Exchange(200, {}, raw, 0.1))
    assert reading.outcome is Outcome.MALFORMED
    assert "no response" in reading.error


@pytest.mark.parametrize("kept", ["", "{", "null", '{"error": {"code": 400}}', "[1]"])
def test_a_body_that_cannot_be_read_has_no_text(kept: str) -> None:
    assert text_of("responses", kept) == ("", "")


def test_kept_responses_are_read_in_a_process_that_imported_no_provider() -> None:
    kept = orjson.dumps(body(message(text("hi")))).decode()
    code = (
        "import sys; from leakgrid.providers.wire import text_of; "
        "print(text_of('responses', sys.argv[1]))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, kept], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "('hi', '')"


# --- what OpenAI's models would refuse ------------------------------------------------------------

FIT: list[tuple[str, str, dict[str, Any]]] = [
    ("gpt-4.1-mini", "chat", {"temperature": 0.0, "max_tokens": 400, "top_p": 0.5}),
    ("gpt-4o-2024-08-06", "chat", {"presence_penalty": 1, "logprobs": True}),
    ("gpt-35-turbo", "chat", {"temperature": 0.0}),
    ("gpt-5", "chat", {"max_completion_tokens": 400, "reasoning_effort": "minimal"}),
    ("gpt-5-mini-2025-08-07", "chat", {"temperature": 1, "top_p": 1.0, "presence_penalty": 0}),
    ("gpt-5-chat-latest", "chat", {"temperature": 0.0, "max_tokens": 10}),
    ("gpt-5.1", "chat", {"temperature": 0.0}),
    ("gpt-5.2-2025-12-11", "chat", {"temperature": 0.0, "reasoning_effort": "none"}),
    ("gpt-5.6-sol", "chat", {"temperature": 0.0, "reasoning_effort": "none"}),
    ("gpt-6.2-sol", "responses", {"reasoning": {"effort": "max", "summary": "auto"}}),
    ("gpt-5.4", "responses", {"temperature": 0.0, "reasoning": {"effort": "none"}}),
    ("gpt-4.1", "responses", {"temperature": 0.0, "max_tokens": 10, "top_logprobs": 3}),
    ("o3", "chat", {"reasoning_effort": "low", "max_completion_tokens": 9, "verbosity": "low"}),
    ("my-deployment", "chat", {"temperature": 0.0, "max_tokens": 10}),
    ("gpt-oss-120b", "chat", {"temperature": 0.0, "max_tokens": 10}),
    ("Qwen/Qwen3-8B", "chat", {"temperature": 0.0, "top_k": 20}),
]

UNFIT: list[tuple[str, str, dict[str, Any], list[tuple[str, str]]]] = [
    ("gpt-5", "chat", {"max_tokens": 9}, [("'max_tokens'", "max_completion_tokens")]),
    ("o4-mini", "chat", {"max_tokens": 9}, [("'max_tokens'", "max_completion_tokens")]),
    ("gpt-6.2-sol", "chat", {"max_tokens": 9}, [("'max_tokens'", "max_completion_tokens")]),
    ("gpt-5", "chat", {"temperature": 0.0}, [("'temperature'", "leave it out")]),
    ("openai/gpt-5-nano", "chat", {"temperature": 0.0}, [("'temperature'", "leave it out")]),
    ("o3", "chat", {"top_p": 0.9}, [("'top_p'", "leave it out")]),
    (
        "gpt-5-mini", "chat", {"temperature": 0, "presence_penalty": 1, "logit_bias": {"1": 1}},
        [("temperature", "leave"), ("presence_penalty", "leave"), ("logit_bias", "leave")],
    ),
    (
        "gpt-5.1", "chat", {"temperature": 0, "reasoning_effort": "low"},
        [("'temperature'", "or set the reasoning effort to 'none'")],
    ),
    ("gpt-5.6-sol", "chat", {"temperature": 0}, [("temperature", "effort to 'none'")]),
    ("gpt-6-astra", "responses", {"top_p": 0.5}, [("top_p", "effort to 'none'")]),
    ("gpt-5.2-chat-latest", "chat", {"temperature": 0}, [("temperature", "leave it out")]),
    ("gpt-5.1-codex", "chat", {"temperature": 0}, [("temperature", "leave it out")]),
    ("gpt-5", "chat", {"reasoning_effort": "none"}, [("'none'", "'minimal'")]),
    ("o3-mini", "chat", {"reasoning_effort": "none"}, [("'none'", "'low'")]),
    ("o3-mini", "chat", {"reasoning_effort": "minimal"}, [("'minimal'", "'low'")]),
    ("gpt-5", "chat", {"reasoning_effort": "medum"}, [("'medum'", "medium")]),
    ("gpt-4.1", "chat", {"reasoning_effort": "low"}, [("does not reason", "leave")]),
    ("gpt-4.1", "responses", {"reasoning": {"effort": "low"}}, [("does not reason", "leave")]),
    ("gpt-5", "chat", {"reasoning": {"effort": "low"}}, [("'reasoning'", "reasoning_effort")]),
    ("gpt-5", "chat", {"max_output_tokens": 9}, [("max_output_tokens", "max_completion_tokens")]),
    ("gpt-5", "responses", {"reasoning_effort": "low"}, [("reasoning_effort", "{ effort =")]),
    ("gpt-5", "responses", {"reasoning": "low"}, [("'low'", "{ effort =")]),
    ("gpt-5", "responses", {"reasoning": {"summary": "all"}}, [("'all'", "auto, concise")]),
    ("gpt-5", "responses", {"verbosity": "low"}, [("verbosity", "text = {")]),
    ("gpt-4.1", "responses", {"seed": 1, "stop": []}, [("'seed'", "leave"), ("'stop'", "leave")]),
    ("gpt-5", "responses", {"presence_penalty": 1}, [("presence_penalty", "leave it out")]),
    (
        "gpt-5", "responses", {"max_tokens": 5, "max_output_tokens": 9},
        [("'max_output_tokens' and 'max_tokens'", "one of them")],
    ),
    ("my-deployment", "responses", {"seed": 1}, [("'seed'", "leave it out")]),
]  # fmt: skip


@pytest.mark.parametrize("api", OWNED)
def test_no_job_may_set_what_leakgrid_sets(api: str) -> None:
    given: set[str] = set().union(*(params for _, of, params in FIT if of == api))
    assert given and not given & OWNED[api]
    kinds: dict[str, type[Endpoint]] = {"chat": ChatCompletions, "responses": Responses}
    session: Any = None
    made = kinds[api](
        name="m", kind="openai", model="g", base_url="http://h", identity="i", session=session,
        params={},
    )  # fmt: skip
    assert set(made.body(call())) <= OWNED[api]


@pytest.mark.parametrize(("model", "api", "params"), FIT)
def test_parameters_that_the_model_takes(model: str, api: str, params: dict[str, Any]) -> None:
    assert unfit_params(model, params, api) == []


@pytest.mark.parametrize(("model", "api", "params", "expected"), UNFIT)
def test_parameters_that_the_model_refuses_are_told_with_a_way_out(
    model: str, api: str, params: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    before = orjson.dumps(params)
    told = unfit_params(model, params, api)
    assert len(told) == len(expected)
    for sentence, (wrong, instead) in zip(told, expected, strict=True):
        assert wrong in sentence and instead in sentence
    assert orjson.dumps(params) == before
