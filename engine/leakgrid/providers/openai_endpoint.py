"""What OpenAI's two APIs share: how a body is sent, with which key, and how an end is read."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from leakgrid.cache.key import TRANSPORT_FIELDS
from leakgrid.outcomes import Outcome
from leakgrid.providers.http import Sender
from leakgrid.providers.openai_errors import read_error
from leakgrid.providers.wire import Exchange, Reading, parsed
from leakgrid.types import Call

if TYPE_CHECKING:
    import aiohttp

SENT_ONLY = TRANSPORT_FIELDS - {"stream", "stream_options", "timeout"}
"""Parameters that travel with every body and are no part of its key."""

_NO_BODY = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)


class Endpoint:
    """One model at one URL; a subclass says which body goes there and how its answer reads."""

    family = ""
    path = ""
    speaks = ""
    """What a good body is called, for the message about a bad one."""

    def __init__(
        self,
        *,
        name: str,
        kind: str,
        model: str,
        base_url: str,
        session: aiohttp.ClientSession,
        identity: str,
        params: Mapping[str, Any],
        key: str = "",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 600.0,
        simulated: bool = False,
        shape: Callable[[dict[str, Any], int], dict[str, Any]] | None = None,
        key_header: str = "authorization",
        query: str = "",
    ) -> None:
        """``shape(body, sample)`` gives a server what it needs beyond the common format.

        The key goes into ``key_header``, as a bearer token where that is ``authorization``.
        ``query`` follows the URL's question mark.
        """
        self.name = name
        self.kind = kind
        self.model = model
        self.identity = identity
        self.simulated = simulated
        self._shape = shape
        self._params = {field: params[field] for field in params if field not in SENT_ONLY}
        extra = {field: params[field] for field in params if field in SENT_ONLY}
        self._extra = orjson.dumps(extra, option=orjson.OPT_SORT_KEYS)[1:-1]
        sent = dict(headers or {})
        if key:
            sent[key_header] = f"Bearer {key}" if key_header == "authorization" else key
        self._http = Sender(
            session,
            base_url.rstrip("/") + self.path + (f"?{query}" if query else ""),
            headers=sent,
            secret=key,
            timeout_s=timeout_s,
        )

    def body(self, call: Call) -> dict[str, Any]:
        """The request body, without the fields that are only sent."""
        raise NotImplementedError

    def completed(self, body: Any) -> Reading:
        """The reading of a parsed body; KeyError, TypeError... where it is none of this API."""
        raise NotImplementedError

    def wire_body(self, body: bytes) -> bytes:
        """``body`` as it travels: with the fields that no key knows (``store``, cache hints...)."""
        if not self._extra:
            return body
        return body[:-1] + (b"," if len(body) > 2 else b"") + self._extra + b"}"

    def exchange(self, body: bytes) -> Coroutine[Any, Any, Exchange]:
        """Send once; a failed connection is an Exchange with status 0 and its fault."""
        return self._http.send(self.wire_body(body))

    def read(self, exchange: Exchange) -> Reading:
        """What the exchange means, by status, error code and finish reason."""
        if exchange.status == 0:
            return Reading(outcome=Outcome.TRANSIENT, error=exchange.fault)
        if exchange.status == 200:
            try:
                return self.completed(parsed(exchange.body))
            except _NO_BODY as bad:
                told = f"status 200 but no {self.speaks} ({type(bad).__name__}: {bad})"
                return Reading(outcome=Outcome.MALFORMED, error=told)
        return read_error(exchange.status, exchange.headers, exchange.body)


def account_headers(
    environment: Mapping[str, str], organization: str = "", project: str = ""
) -> dict[str, str]:
    """The headers that bill an organisation or project, as the official SDK sends them.

    What the job says goes first, then OPENAI_ORG_ID and OPENAI_PROJECT_ID.
    """
    organization = organization or environment.get("OPENAI_ORG_ID", "").strip()
    project = project or environment.get("OPENAI_PROJECT_ID", "").strip()
    named = {"OpenAI-Organization": organization, "OpenAI-Project": project}
    return {header: value for header, value in named.items() if value}
