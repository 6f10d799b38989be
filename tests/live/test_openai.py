"""OpenAI itself still speaks as we think: run by ``just live openai``, for well under a cent."""

from __future__ import annotations

import os
from typing import Any

import orjson
import pytest

from leakgrid.outcomes import Outcome
from leakgrid.providers.openai import ChatCompletions
from leakgrid.providers.openai_endpoint import Endpoint, account_headers
from leakgrid.providers.openai_responses import Responses
from tests.live.asking import CALL, FORM, ask, check_cost, key_of, needs

KEY = key_of("OPENAI_API_KEY")
SMALL = "gpt-4.1-nano"
LIMIT = {"chat": "max_completion_tokens", "responses": "max_output_tokens"}
HEADERS = account_headers(os.environ)
APIS: dict[str, type[Endpoint]] = {"chat": ChatCompletions, "responses": Responses}

pytestmark = [pytest.mark.live, needs(KEY, "OPENAI_API_KEY")]


def maker(api: str, params: dict[str, Any], *, model: str = SMALL, key: str = KEY) -> Any:
    return lambda session: APIS[api](
        name="live", kind="openai", model=model, base_url="https://api.openai.com/v1",
        session=session, identity="live", params=params, key=key, headers=HEADERS, timeout_s=60.0,
    )  # fmt: skip


@pytest.mark.parametrize("api", APIS)
def test_a_short_answer(api: str) -> None:
    reading = ask(maker(api, {"temperature": 0.0, LIMIT[api]: 16}), CALL)
    assert reading.outcome is Outcome.ANSWER, reading.error
    assert "yes" in reading.text.lower()
    check_cost("openai", SMALL, reading)


@pytest.mark.parametrize("api", APIS)
def test_an_answer_in_a_schema(api: str) -> None:
    reading = ask(maker(api, {"temperature": 0.0, LIMIT[api]: 32}), FORM)
    assert reading.outcome is Outcome.ANSWER, reading.error
    assert isinstance(orjson.loads(reading.text)["wet"], bool)
    check_cost("openai", SMALL, reading)


def test_a_model_that_reasons() -> None:
    params = {"reasoning": {"effort": "minimal"}, "max_output_tokens": 200}
    reading = ask(maker("responses", params, model="gpt-5-nano"), CALL)
    assert reading.outcome in (Outcome.ANSWER, Outcome.TRUNCATED), reading.error
    check_cost("openai", "gpt-5-nano", reading)


@pytest.mark.parametrize("api", APIS)
def test_what_is_wrong_is_told_and_costs_nothing(api: str) -> None:
    assert ask(maker(api, {}, model="no-such-model"), CALL).outcome is Outcome.INVALID
    assert ask(maker(api, {}, key="sk-wrong"), CALL).outcome is Outcome.AUTH
