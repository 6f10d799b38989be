"""Sending a request body once over HTTP: deadline, faults, and no secret in what is kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from leakgrid.providers.deadlines import Deadlines
from leakgrid.providers.wire import Exchange

if TYPE_CHECKING:
    import aiohttp
    from multidict import CIMultiDict


class Sender:
    """Posts bodies to one URL. ``timeout_s`` is for a whole call, counted from its sending."""

    __slots__ = ("_deadlines", "_headers", "_secret", "_session", "_timeout_s", "_url")

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        *,
        headers: Mapping[str, str],
        secret: str = "",
        timeout_s: float = 600.0,
    ) -> None:
        """``headers`` go with every body, the secret's among them; ``secret`` is what to blank."""
        from multidict import CIMultiDict  # aiohttp is here already: it made the session
        from yarl import URL

        self._session = session
        self._url = URL(url)
        self._headers: CIMultiDict[str] = CIMultiDict(headers)
        self._headers.setdefault("content-type", "application/json")
        self._secret = secret.encode()
        self._deadlines = Deadlines(timeout_s)
        self._timeout_s = timeout_s

    def authorize(self, headers: Mapping[str, str], secret: str) -> None:
        """From now on send these too, and blank this ``secret``: for tokens that are renewed."""
        self._headers.update(headers)
        self._secret = secret.encode()

    async def send(self, body: bytes) -> Exchange:
        """Send once; a failed connection is an Exchange with status 0 and its fault."""
        import aiohttp

        began = time.perf_counter()
        status, raw, fault, sent = 0, b"", "", True
        headers: Mapping[str, str] = {}
        secret = self._secret
        deadline = self._deadlines.begin()
        response = None
        try:
            # Reading a body to its end gives the connection back; otherwise it is closed below.
            response = await self._session.post(
                self._url,
                data=body,
                headers=self._headers,
                allow_redirects=False,  # a key must not follow to another host
            )
            raw = await response.read()
            status, headers = response.status, response.headers
        except asyncio.CancelledError:
            task = deadline.task
            # Late, and nobody else wants the task gone: that is a failed call, no cancellation.
            if not deadline.expired or task is None or task.uncancel():
                raise
            fault = f"no answer within {self._timeout_s:g} s"
        except aiohttp.ClientConnectorError as error:
            sent, fault = False, f"no connection ({error})"
        except TimeoutError as error:
            fault = f"no connection in time ({type(error).__name__})"
        except aiohttp.ClientPayloadError as error:
            fault = f"the answer broke off ({error})"
        except (aiohttp.ClientError, OSError) as error:
            fault = f"{type(error).__name__}: {error}"
        finally:
            self._deadlines.end(deadline)
            if response is not None and not status:
                response.close()
        if secret and secret in raw:
            raw = raw.replace(secret, b"[redacted]")
        return Exchange(status, headers, raw, time.perf_counter() - began, fault, sent)
