"""Chat completions from vLLM, read with its parsers' habits in mind.

What is thinking and what is reply is decided in the server, by its chat template and its reasoning
parser, and either may be wrong for the other. An answer whose reply is not certain is no answer:
a study would count it as safe.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from leakgrid.outcomes import Outcome
from leakgrid.providers.openai import ChatCompletions, read_completion
from leakgrid.providers.vllm_body import shape, wants_thinking
from leakgrid.providers.wire import Exchange, Reading

_REFUSALS = ("system role not supported", "only user and assistant roles", "system messages are")
_ALTERNATION = ("roles must alternate", "must alternate user/assistant")


class VllmChat(ChatCompletions):
    """One model at one vLLM server, managed or not."""

    def __init__(
        self, *, system: str = "send", opens_thinking: bool = False, **options: Any
    ) -> None:
        """``system``: send or fold (see ``vllm_body``). ``opens_thinking``: what the template

        does (see ``vllm_templates``). ``options`` are those of ``Endpoint``.
        """
        options.setdefault("shape", lambda body, sample: shape(body, sample, system=system))
        super().__init__(**options)
        self._thinking = wants_thinking(options["params"])
        self._opened = opens_thinking and self._thinking is not False

    def completed(self, body: Any) -> Reading:
        """The reading of a parsed chat completion."""
        return read_vllm(body, thinking=self._thinking, opened=self._opened)

    def read(self, exchange: Exchange) -> Reading:
        """What the exchange means; a template that refuses the messages is named as such."""
        reading = super().read(exchange)
        if reading.outcome is not Outcome.INVALID:
            return reading
        told = reading.error.lower()
        if any(mark in told for mark in _REFUSALS + _ALTERNATION):
            advice = 'the chat template refuses these messages: set system = "fold" on this model'
            return replace(reading, error=f"{reading.error} ({advice})")
        return reading


def read_vllm(body: Any, *, thinking: bool | None = None, opened: bool = False) -> Reading:
    """The reading of a parsed chat completion.

    ``thinking`` is what the request asked for, ``opened`` whether its prompt ended in an open
    think block. Raises KeyError, IndexError, TypeError or AttributeError where it is none.
    """
    reading = read_completion(body)
    if reading.finish in ("abort", "error"):
        told = f"the server gave the request up (finish_reason {reading.finish})"
        return replace(reading, outcome=Outcome.TRANSIENT, text="", error=told)
    if reading.outcome not in (Outcome.ANSWER, Outcome.TRUNCATED):
        return reading
    silent = not reading.text.strip()
    if silent and reading.reasoning.strip() and thinking is False:
        told = (
            "the reply stands in the reasoning field although thinking is off: this reasoning "
            'parser takes it for thinking; use reasoning_parser = "qwen3", or none'
        )
        return replace(reading, outcome=Outcome.MALFORMED, text="", error=told)
    content = _content(body)
    closed = "</think>" in content and "</think>" not in reading.text  # else a quote in JSON
    if opened and not silent and not reading.reasoning and not closed:
        told = (
            "the chat template opens a think block and nothing closes it, so thinking and reply "
            "cannot be told apart: set reasoning_parser for this model, or a higher token limit"
        )
        return replace(
            reading, outcome=Outcome.MALFORMED, text="", reasoning=reading.text, error=told
        )
    if reading.outcome is Outcome.ANSWER and silent and reading.reasoning.strip():
        told = "the thinking never ended: there is no reply"
        return replace(reading, outcome=Outcome.TRUNCATED, error=told)
    left_open = content.rfind("<think>") > content.rfind("</think>")
    if reading.outcome is Outcome.ANSWER and left_open and "<think>" not in reading.text:
        told = "a think block in the reply was never closed"
        return replace(reading, outcome=Outcome.TRUNCATED, text=reading.text.strip(), error=told)
    return reading


def _content(body: Any) -> str:
    content = body["choices"][0]["message"].get("content")
    return content if isinstance(content, str) else ""
