"""generateContent: the Gemini API by key, and Vertex by application default credentials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from leakgrid.outcomes import JobError, Outcome
from leakgrid.providers.google_body import body_of, mistakes, shaped
from leakgrid.providers.google_credentials import AccessTokens, NoToken, Token
from leakgrid.providers.google_read import FAMILY, read_answer, read_error
from leakgrid.providers.http import Sender
from leakgrid.providers.wire import Exchange, Reading
from leakgrid.types import Call

if TYPE_CHECKING:
    import aiohttp

GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta"
_MULTI_REGIONS = ("us", "eu")


def vertex_url(project: str, location: str) -> str:
    """Where Vertex serves a project's models: global, a multi-region (us, eu) or a region."""
    if location == "global":
        host = "aiplatform.googleapis.com"
    elif location in _MULTI_REGIONS:
        host = f"aiplatform.{location}.rep.googleapis.com"
    else:
        host = f"{location}-aiplatform.googleapis.com"
    return f"https://{host}/v1/projects/{project}/locations/{location}"


class GenerateContent:
    """One model of the Gemini API, or of Vertex where ``tokens`` are given.

    ``params`` take the names of google-genai's GenerateContentConfig or of the API itself; a key
    or token is only ever in a header. ``identity`` distinguishes endpoints that share a model
    name. The API has no field for the sample number: repeated draws differ by chance alone.
    """

    family = FAMILY

    def __init__(
        self,
        *,
        name: str,
        kind: str,
        model: str,
        session: aiohttp.ClientSession,
        identity: str,
        params: Mapping[str, Any],
        base_url: str = GEMINI_URL,
        key: str = "",
        tokens: AccessTokens | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 600.0,
        simulated: bool = False,
    ) -> None:
        """``base_url`` is everything before models/ (Gemini) or publishers/ (see vertex_url).

        Raises JobError for a name that is none, and for parameters that leakgrid sets itself.
        """
        if any(sign in model for sign in ("..", "?", "&", "#")):
            raise JobError(f"models.{name}: model: {model!r} is no model's name")
        wrong = mistakes(params)
        if wrong:
            raise JobError(f"models.{name}: params: {'; '.join(wrong)}")
        self.name = name
        self.kind = kind
        self.model = model
        self.identity = identity
        self.simulated = simulated
        self._settings = shaped(params)
        self._tokens = tokens
        self._token: Token | None = None
        sent = dict(headers or {})
        if key:
            sent["x-goog-api-key"] = key
        path = _path(model, vertex=tokens is not None)
        self._http = Sender(
            session,
            f"{base_url.rstrip('/')}/{path}:generateContent",
            headers=sent,
            secret=key,
            timeout_s=timeout_s,
        )

    def body(self, call: Call) -> dict[str, Any]:
        """The body: contents, system instruction, parameters (the call's first), schema."""
        return body_of(call, self._settings)

    async def exchange(self, body: bytes) -> Exchange:
        """Send once; a failed connection is an Exchange with status 0 and its fault.

        A token that the server rejects is renewed and the body sent again: that costs nothing.
        Without a token nothing is sent: status 401 if that stays so, else 0.
        """
        if self._tokens is None:
            return await self._http.send(body)
        rejected = ""
        while True:
            try:
                token = await self._tokens.token(rejected)
            except NoToken as refused:
                status = 0 if refused.passing else 401
                return Exchange(status, {}, b"", 0.0, str(refused), sent=False)
            if token is not self._token:
                self._use(token)
            exchange = await self._http.send(body)
            if exchange.status != 401 or rejected:
                return exchange
            rejected = token.value

    def _use(self, token: Token) -> None:
        self._token = token
        sent = {"authorization": f"Bearer {token.value}"}
        if token.quota_project:
            sent["x-goog-user-project"] = token.quota_project
        self._http.authorize(sent, token.value)

    def read(self, exchange: Exchange) -> Reading:
        """What the exchange means, by status, error details and finish reason."""
        if exchange.status == 0:
            return Reading(outcome=Outcome.TRANSIENT, error=exchange.fault)
        if exchange.fault:
            return Reading(outcome=Outcome.AUTH, error=exchange.fault)
        if exchange.status == 200:
            return read_answer(exchange.body)
        return read_error(exchange.status, exchange.headers, exchange.body)


def _path(model: str, *, vertex: bool) -> str:
    """A model's path below the base URL; a path is taken as it is."""
    if not vertex:
        return model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
    if model.startswith(("publishers/", "models/", "endpoints/")):
        return model
    publisher, slash, short = model.partition("/")
    if not slash:
        publisher, short = "google", model
    return f"publishers/{publisher}/models/{short}"
