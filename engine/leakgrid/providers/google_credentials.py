"""Access tokens for Vertex: application default credentials, renewed off the hot path.

google-auth blocks, so it runs in a thread. One renewal is under way at a time, whoever waits for
it, and it begins minutes before the token expires: calls go on with the old one meanwhile.
"""

from __future__ import annotations

import asyncio
import functools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from typing import Any

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
RENEW_AHEAD_S = 300.0
"""A token that lives no longer than this is renewed while it is still used."""
MARGIN_S = 30.0
"""A token that lives no longer than this is not sent any more."""
PAUSE_S = 30.0
"""Between two renewals ahead of time: some sources give the old token until it nearly expires."""
REFRESH_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True)
class Token:
    """An access token; ``expires`` in seconds since 1970. ``quota_project`` is billed if given."""

    value: str
    expires: float = math.inf
    quota_project: str = ""


class NoToken(Exception):
    """No token can be had; ``passing`` says that the reason may pass by itself (the network)."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


class ApplicationDefault:
    """Fetches tokens from application default credentials; blocking, for a thread."""

    def __init__(self) -> None:
        self._credentials: Any = None
        self._request: Any = None

    def __call__(self) -> Token:
        """A fresh token. Raises NoToken with what to do about it."""
        try:
            import google.auth
            from google.auth.exceptions import GoogleAuthError
            from google.auth.transport.requests import Request
        except ImportError as error:
            told = f"google-auth is not installed ({error}); pip install 'leakgrid[google]'"
            raise NoToken(told) from error
        try:
            if self._credentials is None:
                self._request = functools.partial(Request(), timeout=REFRESH_TIMEOUT_S)
                found, _ = google.auth.default(scopes=[SCOPE])
                self._credentials = found
        except (GoogleAuthError, ValueError, OSError) as error:
            raise NoToken(
                f"no application default credentials ({_first(error)}); run gcloud auth "
                "application-default login, or let GOOGLE_APPLICATION_CREDENTIALS name a key file"
            ) from error
        try:
            self._credentials.refresh(self._request)
        except (GoogleAuthError, ValueError, OSError) as error:
            raise _refused(error) from error
        expiry = self._credentials.expiry  # UTC, but without saying so
        return Token(
            self._credentials.token,
            math.inf if expiry is None else expiry.replace(tzinfo=UTC).timestamp(),
            getattr(self._credentials, "quota_project_id", None) or "",
        )


def _refused(error: Exception) -> NoToken:
    from google.auth.exceptions import TransportError

    if isinstance(error, TransportError | OSError) or getattr(error, "retryable", False):
        return NoToken(f"no access token: {_first(error)}", passing=True)
    return NoToken(
        f"the application default credentials are refused ({_first(error)}); run gcloud auth "
        "application-default login again, or give the service account a valid key"
    )


def _first(error: Exception) -> str:
    """The first line of what went wrong: google-auth adds the server's whole answer."""
    told = str(error.args[0]) if error.args else type(error).__name__
    return told.splitlines()[0][:300] if told else type(error).__name__


class AccessTokens:
    """The current access token. One for all lanes of a run, in one event loop."""

    def __init__(
        self,
        fetch: Callable[[], Token] | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``fetch`` blocks, returns a fresh token or raises NoToken; it runs in a thread."""
        self._fetch = fetch or ApplicationDefault()
        self._clock = clock
        self._token: Token | None = None
        self._renewal: asyncio.Future[Token] | None = None
        self._not_before = 0.0

    async def token(self, rejected: str = "") -> Token:
        """A token to send. ``rejected`` is one that the server no longer takes.

        Raises NoToken when there is none and none can be had.
        """
        token = self._token
        if token is not None and token.value != rejected:
            now = self._clock()
            left = token.expires - now
            if left > MARGIN_S:
                if left < RENEW_AHEAD_S and self._renewal is None and now >= self._not_before:
                    self._renew()
                return token
        # Shielded: the renewal serves all who wait, so it outlives one that is cancelled.
        return await asyncio.shield(self._renewal or self._renew())

    def _renew(self) -> asyncio.Future[Token]:
        renewal = asyncio.get_running_loop().run_in_executor(None, self._fetch)
        self._renewal = renewal
        renewal.add_done_callback(self._renewed)
        return renewal

    def _renewed(self, renewal: asyncio.Future[Token]) -> None:
        self._renewal = None
        self._not_before = self._clock() + PAUSE_S
        # A failure reaches those who wait; with a token still good, the next try comes later.
        if not renewal.cancelled() and renewal.exception() is None:
            self._token = renewal.result()
