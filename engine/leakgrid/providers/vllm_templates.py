"""What a server's chat template does with a system message and with thinking.

Asked of the server itself (vLLM's ``/tokenize`` and ``/detokenize``), so it holds for the template
that is really in use, and for servers that someone else runs.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit

SYSTEM = "zq-rule-zq"
FIRST = "zq-ask-zq"
REPLY = "zq-say-zq"
SECOND = "zq-more-zq"
"""Words that no template has."""

TALKATIVE = 4
"""Words before the first message from which on a template is held to speak for itself."""

_TAGS = re.compile(r"<[^<>\s]{1,40}>|\[/?[A-Z_]{2,20}\]")
_OPENED = re.compile(r"<think(?:ing)?>\s*$")

Render: TypeAlias = Callable[[Sequence[Mapping[str, str]], Mapping[str, Any]], str | None]
"""(messages, chat_template_kwargs) -> the prompt's text; None where the template refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFacts:
    """What was found; ``asked`` False: the server tells nothing and all the rest is a default.

    ``refuses_system``: a system message is an error, or is dropped without a word.
    ``injects_system``: without a system message the model reads one of the template's own;
    ``injected`` is that text. ``thinking``: none, switchable (``enable_thinking``), or always
    (the prompt ends in an open block). ``opens_thinking``: by default the block is opened in the
    prompt, so replies carry the closing tag alone. ``fingerprint`` changes with the template.
    """

    asked: bool = True
    refuses_system: bool = False
    injects_system: bool = False
    injected: str = ""
    alternates: bool = False
    thinking: str = "none"
    opens_thinking: bool = False
    fingerprint: str = ""


def template_facts(url: str, model: str, timeout_s: float = 30.0) -> TemplateFacts:
    """Ask the server at ``url`` (up to ``/v1``) about ``model``'s template. Blocks; never raises.

    A server without ``/tokenize`` gives ``asked=False``.
    """
    try:
        return judge(_over_http(url, model, timeout_s))
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return TemplateFacts(asked=False)


def judge(render: Render) -> TemplateFacts:
    """The facts of a template by what it makes of a few conversations."""
    user = {"role": "user", "content": FIRST}
    alone = render([user], {})
    if alone is None:
        raise ValueError("the template refuses a plain user message")
    ruled = render([{"role": "system", "content": SYSTEM}, user], {})
    turns = [user, {"role": "assistant", "content": REPLY}, {"role": "user", "content": SECOND}]
    talk = render(turns, {})
    opening = render([{"role": "assistant", "content": REPLY}, user], {})
    on, off = (render([user], {"enable_thinking": wanted}) for wanted in (True, False))
    opens = bool(_OPENED.search(alone))
    thinking = "switchable" if on != off else "always" if opens else "none"
    head = alone.partition(FIRST)[0]
    injects = _speaks(head)
    prints = hashlib.sha256(repr((alone, ruled, talk, opening, on, off)).encode()).hexdigest()[:32]
    return TemplateFacts(
        refuses_system=ruled is None or SYSTEM not in ruled,
        injects_system=injects,
        injected=head.strip()[:500] if injects else "",
        alternates=opening is None,
        thinking=thinking,
        opens_thinking=opens,
        fingerprint=f"rendered {prints}",
    )


def _speaks(head: str) -> bool:
    """Whether what stands before the first message is more than a frame around it."""
    words = re.findall(r"[^\W\d_]{2,}", _TAGS.sub(" ", head))
    return "system" in head.lower() or len(words) >= TALKATIVE


def _over_http(url: str, model: str, timeout_s: float) -> Render:
    parts = urlsplit(url)
    root = parts.path.rstrip("/").removesuffix("/v1")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection

    def post(path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
        try:
            data = json.dumps({"model": model, **body}).encode()
            connection.request("POST", root + path, data, {"content-type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def render(messages: Sequence[Mapping[str, str]], options: Mapping[str, Any]) -> str | None:
        asked = {"messages": list(messages), "chat_template_kwargs": dict(options)}
        status, said = post("/tokenize", asked)
        if status == 400:
            return None
        if status != 200:
            raise ValueError(f"/tokenize answers {status}")
        status, told = post("/detokenize", {"tokens": said["tokens"]})
        if status != 200:
            raise ValueError(f"/detokenize answers {status}")
        return str(told["prompt"])

    return render
