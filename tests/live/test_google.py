"""Gemini itself still speaks as we think: run by ``just live google``, for well under a cent."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from leakgrid.outcomes import Outcome
from leakgrid.providers.google import GenerateContent
from tests.live.asking import CALL, FORM, ask, check_cost, key_of, needs

KEY = key_of("GEMINI_API_KEY") or key_of("GOOGLE_API_KEY")
MODEL = "gemini-2.5-flash-lite"
NO_THINKING = {"thinking_config": {"thinking_budget": 0}}

pytestmark = [pytest.mark.live, needs(KEY, "GEMINI_API_KEY")]


def maker(model: str = MODEL, key: str = KEY, **params: Any) -> Any:
    return lambda session: GenerateContent(
        name="live", kind="google", model=model, session=session, identity="live",
        params={**NO_THINKING, **params}, key=key, timeout_s=60.0,
    )  # fmt: skip


def test_a_short_answer() -> None:
    reading = ask(maker(temperature=0.0, max_output_tokens=16), CALL)
    assert reading.outcome is Outcome.ANSWER, reading.error
    assert "yes" in reading.text.lower()
    check_cost("google", MODEL, reading)


def test_an_answer_in_a_schema() -> None:
    reading = ask(maker(temperature=0.0, max_output_tokens=32), FORM)
    assert reading.outcome is Outcome.ANSWER, reading.error
    assert isinstance(orjson.loads(reading.text)["wet"], bool)
    check_cost("google", MODEL, reading)


def test_what_is_wrong_is_told_and_costs_nothing() -> None:
    assert ask(maker("no-such-model"), CALL).outcome is Outcome.INVALID
    assert ask(maker(key="wrong"), CALL).outcome is Outcome.AUTH
