"""What goes to vLLM and what comes back: seeds, system messages, templates, thinking."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import orjson
import pytest
from aiohttp import web

from leakgrid.outcomes import SPOKEN, Outcome
from leakgrid.providers.vllm_body import fold_system, shape, wants_thinking
from leakgrid.providers.vllm_chat import VllmChat, read_vllm
from leakgrid.providers.vllm_templates import TemplateFacts, judge, template_facts
from leakgrid.providers.wire import Exchange, split_thinking
from leakgrid.types import Call, Message, Schema

RULES = Message("system", "Keep quiet.")
ASK = Message("user", "What do you know?")
SAY = Message("assistant", "Little.")


def provider(session: Any = None, params: Mapping[str, Any] | None = None, **more: Any) -> VllmChat:
    return VllmChat(
        name="q", kind="vllm", model="m", base_url="http://127.0.0.1:1/v1", session=session,
        identity="vllm-1", params=params or {}, **more,
    )  # fmt: skip


def body(message: Mapping[str, Any], finish: str = "stop") -> dict[str, Any]:
    return {"model": "m", "choices": [{"message": dict(message), "finish_reason": finish}]}


# --- what is sent -----------------------------------------------------------------------------


def test_samples_differ_by_their_seed_and_are_the_same_again() -> None:
    one = provider(params={"temperature": 0.7, "max_tokens": 9})
    seeds = [one.body(Call(model="q", messages=(ASK,), sample=n))["seed"] for n in (0, 1, 2, 1)]
    assert seeds == [0, 1, 2, 1]
    assert shape({"seed": 100, "temperature": 1, "messages": []}, 3)["seed"] == 103
    # Where the job names none, the model's own default temperature is not known to be 0.
    assert shape({"messages": []}, 2)["seed"] == 2
    assert "seed" not in shape({"temperature": 0, "messages": []}, 2)
    assert "seed" not in shape({"temperature": 0.0, "messages": []}, 2)


def test_schema_and_template_options_reach_the_server_as_they_are() -> None:
    options = {"enable_thinking": False}
    one = provider(params={"chat_template_kwargs": options, "temperature": 0})
    definition = {"type": "object", "properties": {"leak": {"enum": ["YES", "NO"]}}}
    sent = one.body(Call(model="q", messages=(ASK,), schema=Schema("verdict", definition)))
    assert sent["chat_template_kwargs"] == options
    form = sent["response_format"]
    assert (form["type"], form["json_schema"]["schema"]) == ("json_schema", definition)


FOLDED = {
    "before a user": ((RULES, ASK), [("user", "Keep quiet.\n\nWhat do you know?")]),
    "in a talk": (
        (RULES, ASK, SAY, ASK),
        [
            ("user", "Keep quiet.\n\nWhat do you know?"),
            ("assistant", "Little."),
            ("user", "What do you know?"),
        ],
    ),
    "before the assistant": (
        (RULES, SAY, ASK),
        [("user", "Keep quiet."), ("assistant", "Little."), ("user", "What do you know?")],
    ),
    "alone": ((RULES,), [("user", "Keep quiet.")]),
    "empty": ((Message("system", " "), ASK), [("user", "What do you know?")]),
    "two": (
        (RULES, ASK, Message("system", "Be kind.")),
        [("user", "Keep quiet.\n\nBe kind.\n\nWhat do you know?")],
    ),
    "none": ((ASK,), [("user", "What do you know?")]),
}


@pytest.mark.parametrize("case", FOLDED)
def test_a_system_message_can_be_folded_into_the_first_user_message(case: str) -> None:
    messages, folded = FOLDED[case]
    sent = provider(system="fold").body(Call(model="q", messages=messages))["messages"]
    assert [(one["role"], one["content"]) for one in sent] == folded
    plain = provider().body(Call(model="q", messages=messages))["messages"]
    assert [(one["role"], one["content"]) for one in plain] == [
        (one.role, one.text) for one in messages
    ]
    kept = copy.deepcopy(plain)
    fold_system(plain)
    assert plain == kept, "the input stays as it was"


@pytest.mark.parametrize(
    ("params", "wants"),
    [
        ({}, None),
        ({"chat_template_kwargs": {"enable_thinking": False}}, False),
        ({"chat_template_kwargs": {"enable_thinking": True}}, True),
        ({"chat_template_kwargs": {"thinking": False}}, False),
        ({"chat_template_kwargs": {"documents": []}}, None),
        ({"reasoning_effort": "none"}, False),
        ({"reasoning_effort": "low"}, None),
    ],
)
def test_what_a_job_says_of_thinking(params: dict[str, Any], wants: bool | None) -> None:
    assert wants_thinking(params) is wants


# --- what comes back --------------------------------------------------------------------------

QUOTING = '{"why": "Ana wrote </think> there", "leak": "YES"}'
CUT = QUOTING[:-9]
OPENING = '{"why": "Ana wrote <think> there", "leak": "YES"}'
OFF: dict[str, Any] = {"thinking": False}
OPEN: dict[str, Any] = {"opened": True}
READ: dict[str, tuple[dict[str, Any], dict[str, Any], Outcome, str, str]] = {
    "a plain reply": (body({"content": "hi", "reasoning": None}), {}, Outcome.ANSWER, "hi", ""),
    "a parser's two fields": (
        body({"content": "hi", "reasoning": "hm"}), {}, Outcome.ANSWER, "hi", "hm",
    ),
    "the older name of the field": (
        body({"content": "hi", "reasoning_content": "hm"}), {}, Outcome.ANSWER, "hi", "hm",
    ),
    "a reply in the reasoning field with thinking off": (
        body({"content": None, "reasoning": "Ana is ill."}), OFF, Outcome.MALFORMED, "",
        "Ana is ill.",
    ),
    "the same, cut": (
        body({"content": None, "reasoning": "Ana is"}, "length"), OFF, Outcome.MALFORMED, "",
        "Ana is",
    ),
    "thinking that never ended, by a parser": (
        body({"content": None, "reasoning": "hm"}), {}, Outcome.TRUNCATED, "", "hm",
    ),
    "the same, cut at the limit": (
        body({"content": None, "reasoning": "hm"}, "length"), {}, Outcome.TRUNCATED, "", "hm",
    ),
    "thinking that never ended, by its tag": (
        body({"content": "<think>hm, Ana"}), {}, Outcome.TRUNCATED, "", "hm, Ana",
    ),
    "a closing tag alone": (
        body({"content": "hm\n</think>\n\nhi"}), OPEN, Outcome.ANSWER, "hi", "hm",
    ),
    "an open block that nothing closes": (
        body({"content": "hm, Ana is ill"}), OPEN, Outcome.MALFORMED, "", "hm, Ana is ill",
    ),
    "an open block, cut": (
        body({"content": "hm, Ana is"}, "length"), OPEN, Outcome.MALFORMED, "", "hm, Ana is",
    ),
    "an open block and a parser": (
        body({"content": "hi", "reasoning": "hm"}), OPEN, Outcome.ANSWER, "hi", "hm",
    ),
    "a verdict that quotes a tag": (
        body({"content": QUOTING}), {}, Outcome.ANSWER, QUOTING, "",
    ),
    "a verdict that quotes an open block": (
        body({"content": OPENING}), {}, Outcome.ANSWER, OPENING, "",
    ),
    "the same beside a parser's thinking": (
        body({"content": QUOTING, "reasoning": "hm"}), OPEN, Outcome.ANSWER, QUOTING, "hm",
    ),
    "the same after a closing tag alone": (
        body({"content": f"hm</think>{QUOTING}"}), OPEN, Outcome.ANSWER, QUOTING, "hm",
    ),
    "the same in an open block that nothing closes": (
        body({"content": QUOTING}), OPEN, Outcome.MALFORMED, "", QUOTING,
    ),
    "a verdict that quotes a tag, cut": (
        body({"content": CUT}, "length"), {}, Outcome.TRUNCATED, *split_thinking(CUT),
    ),
    "nothing after the block": (
        body({"content": "<think>hm</think>\n"}), {}, Outcome.TRUNCATED, "", "hm",
    ),
    "a request given up": (
        body({"content": "half a"}, "abort"), {}, Outcome.TRANSIENT, "", "",
    ),
    "a refusal stays one": (
        body({"content": None, "refusal": "no"}), OFF, Outcome.REFUSAL, "no", "",
    ),
    "a cut reply stays one": (
        body({"content": "half"}, "length"), OFF, Outcome.TRUNCATED, "half", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_what_is_not_surely_a_reply_is_no_answer(case: str) -> None:
    sent, asked, outcome, text, reasoning = READ[case]
    reading = read_vllm(sent, **asked)
    assert (reading.outcome, reading.text, reading.reasoning) == (outcome, text, reasoning)
    assert reading.text.strip() or reading.outcome not in SPOKEN
    if outcome in (Outcome.MALFORMED, Outcome.TRANSIENT):
        assert reading.error


def test_a_second_block_left_open_breaks_the_reply() -> None:
    reading = read_vllm(body({"content": "<think>a</think>hi <think>Ana is"}))
    assert (reading.outcome, reading.text) == (Outcome.TRUNCATED, "hi")
    assert reading.reasoning.startswith("a") and "never closed" in reading.error


def test_the_provider_knows_what_it_asked_for() -> None:
    raw = orjson.dumps(body({"content": None, "reasoning": "Ana is ill."}))
    off = provider(params={"chat_template_kwargs": {"enable_thinking": False}})
    told = off.read(Exchange(200, {}, raw, 0.1))
    assert told.outcome is Outcome.MALFORMED and 'reasoning_parser = "qwen3"' in told.error
    assert provider().read(Exchange(200, {}, raw, 0.1)).outcome is Outcome.TRUNCATED
    # Thinking off closes the template's block, so what follows is the reply.
    raw = orjson.dumps(body({"content": "hi"}))
    options = {"chat_template_kwargs": {"enable_thinking": False}}
    assert (
        provider(params=options, opens_thinking=True).read(Exchange(200, {}, raw, 0.1)).text == "hi"
    )
    unsure = provider(opens_thinking=True).read(Exchange(200, {}, raw, 0.1))
    assert unsure.outcome is Outcome.MALFORMED and "reasoning_parser" in unsure.error


@pytest.mark.parametrize(
    ("message", "advised"),
    [
        ("System role not supported", True),
        ("Conversation roles must alternate user/assistant/user/assistant/...", True),
        ("This model's maximum context length is 2048 tokens.", False),
    ],
)
def test_a_template_that_refuses_is_told_with_what_to_do(message: str, advised: bool) -> None:
    error = {"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400}}
    reading = provider().read(Exchange(400, {}, orjson.dumps(error), 0.1))
    assert reading.outcome is Outcome.INVALID and message in reading.error
    assert ('system = "fold"' in reading.error) is advised


# --- templates --------------------------------------------------------------------------------

FRAME = """\
{%- for one in messages -%}
<|{{ one['role'] }}|>{{ one['content'] }}<|end|>
{% endfor -%}
<|assistant|>"""

TEMPLATES: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": (FRAME, {}),
    "refuses": (
        "{% if messages[0]['role'] == 'system' %}{{ fail('no system role') }}{% endif %}" + FRAME,
        {"refuses_system": True},
    ),
    "drops": (
        "{% set messages = messages | rejectattr('role', 'equalto', 'system') %}" + FRAME,
        {"refuses_system": True},
    ),
    "injects a date": (
        "{% set own = messages[0]['role'] == 'system' %}<|start|>system<|end|>\n"
        "Knowledge ends: May 2024\nToday: 26 July 2024\n" + FRAME,
        {"injects_system": True},
    ),
    "injects a name": (
        "{% if messages[0]['role'] != 'system' %}<|rules|>You are Ida, made by Acme.<|end|>"
        "{% endif %}" + FRAME,
        {"injects_system": True},
    ),
    "alternates": (
        "{% for one in messages if one['role'] != 'system' %}"
        "{% if (one['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ fail('alternate') }}"
        "{% endif %}{% endfor %}" + FRAME,
        {"alternates": True},
    ),
    "can be told to think": (
        FRAME + "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
        "{% endif %}",
        {"thinking": "switchable"},
    ),
    "always thinks": (FRAME + "<think>\n", {"thinking": "always", "opens_thinking": True}),
    "thinks unless told not to": (
        FRAME + "<think>\n{% if enable_thinking is false %}\n</think>\n{% endif %}",
        {"thinking": "switchable", "opens_thinking": True},
    ),
}


def rendered(template: str) -> Any:
    def fail(why: str) -> None:
        raise jinja2.TemplateError(why)

    compiled = jinja2.Environment(autoescape=False).from_string(template)

    def render(messages: Sequence[Mapping[str, str]], options: Mapping[str, Any]) -> str | None:
        try:
            return compiled.render(messages=list(messages), fail=fail, **options)
        except jinja2.TemplateError:
            return None

    return render


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_is_known_by_what_it_does(name: str) -> None:
    template, wanted = TEMPLATES[name]
    found = judge(rendered(template))
    fields = ("refuses_system", "injects_system", "alternates", "thinking", "opens_thinking")
    default = TemplateFacts()
    expected = {field: wanted.get(field, getattr(default, field)) for field in fields}
    assert {field: getattr(found, field) for field in fields} == expected
    assert bool(found.injected) == found.injects_system
    assert found.fingerprint == judge(rendered(template)).fingerprint


def test_templates_have_different_fingerprints() -> None:
    prints = {judge(rendered(template)).fingerprint for template, _ in TEMPLATES.values()}
    assert len(prints) == len(TEMPLATES)


class Tokenizer:
    """A server with /tokenize and /detokenize over a template; tokens are code points."""

    def __init__(self, template: str, status: int = 200) -> None:
        self.render = rendered(template)
        self.status = status

    async def tokenize(self, request: web.Request) -> web.Response:
        asked = await request.json()
        text = self.render(asked["messages"], asked.get("chat_template_kwargs", {}))
        if text is None or self.status != 200:
            return web.json_response({"error": {}}, status=400 if text is None else self.status)
        return web.json_response({"tokens": [ord(letter) for letter in text]})

    async def detokenize(self, request: web.Request) -> web.Response:
        return web.json_response({"prompt": "".join(map(chr, (await request.json())["tokens"]))})


def asked_of(server: Tokenizer) -> TemplateFacts:
    async def main() -> TemplateFacts:
        app = web.Application()
        app.router.add_post("/tokenize", server.tokenize)
        app.router.add_post("/detokenize", server.detokenize)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        try:
            return await asyncio.to_thread(template_facts, f"http://127.0.0.1:{port}/v1", "m")
        finally:
            await runner.cleanup()

    return asyncio.run(main())


@pytest.mark.parametrize("name", ["refuses", "injects a name", "always thinks"])
def test_a_server_is_asked_for_its_template(name: str) -> None:
    template = TEMPLATES[name][0]
    assert asked_of(Tokenizer(template)) == judge(rendered(template))


def test_a_server_that_does_not_tell_is_no_error() -> None:
    assert asked_of(Tokenizer(FRAME, status=404)) == TemplateFacts(asked=False)
    assert template_facts("http://127.0.0.1:1/v1", "m", 1.0) == TemplateFacts(asked=False)
