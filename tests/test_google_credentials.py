"""Access tokens for Vertex: one fetch at a time, in a thread, before the old one expires."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from leakgrid.providers.google_credentials import (
    MARGIN_S,
    PAUSE_S,
    RENEW_AHEAD_S,
    AccessTokens,
    ApplicationDefault,
    NoToken,
    Token,
)


class Source:
    """Hands out tokens t1, t2... that live an hour; it waits for ``open`` and can fail."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.times = 0
        self.open = threading.Event()
        self.open.set()
        self.error: NoToken | None = None
        self.threads: set[int] = set()

    def __call__(self) -> Token:
        self.threads.add(threading.get_ident())
        self.times += 1
        number = self.times
        assert self.open.wait(20)
        if self.error is not None:
            raise self.error
        return Token(f"t{number}", self.now + 3600)

    def tokens(self) -> AccessTokens:
        return AccessTokens(self, clock=lambda: self.now)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110  what it waits for is in another thread
        await asyncio.sleep(0.001)


def test_one_fetch_serves_all_who_wait_and_never_blocks_the_loop() -> None:
    source = Source()
    source.open.clear()

    async def main() -> list[Token]:
        tokens = source.tokens()
        waiting = [asyncio.ensure_future(tokens.token()) for _ in range(50)]
        await asyncio.sleep(0)
        waiting[0].cancel()  # one that gives up takes nothing from the others
        await asyncio.sleep(0)
        source.open.set()
        return await asyncio.gather(*waiting[1:])

    assert {token.value for token in asyncio.run(main())} == {"t1"}
    assert source.times == 1
    assert threading.get_ident() not in source.threads


def test_a_token_is_renewed_before_it_expires_while_calls_go_on() -> None:
    source = Source()

    async def main() -> None:
        tokens = source.tokens()
        assert (await tokens.token()).value == "t1"
        source.now += 3600 - RENEW_AHEAD_S - 1
        assert (await tokens.token()).value == "t1"
        assert source.times == 1
        source.now += 2
        source.open.clear()
        for _ in range(10):  # the renewal is under way; the old token still serves
            assert (await tokens.token()).value == "t1"
        source.open.set()
        await until(lambda: tokens._renewal is None)
        assert (await tokens.token()).value == "t2"
        assert source.times == 2

    asyncio.run(main())


def test_a_renewal_that_fails_ahead_of_time_is_tried_again_later() -> None:
    source = Source()

    async def old_token(tokens: AccessTokens) -> int:
        """Fetches so far, once the old token was given and no renewal is under way."""
        assert (await tokens.token()).value == "t1"
        await until(lambda: tokens._renewal is None)
        return source.times

    async def main() -> None:
        tokens = source.tokens()
        assert await old_token(tokens) == 1
        source.now += 3600 - RENEW_AHEAD_S + 1
        source.error = NoToken("down", passing=True)
        assert await old_token(tokens) == 2
        assert await old_token(tokens) == 2  # not yet
        source.now += PAUSE_S
        assert await old_token(tokens) == 3
        source.now += RENEW_AHEAD_S - PAUSE_S - MARGIN_S  # now it is too old to be sent
        with pytest.raises(NoToken, match="down"):
            await tokens.token()
        source.error = None
        assert (await tokens.token()).value == "t5"

    asyncio.run(main())


def test_a_token_that_somebody_else_has_renewed_is_taken() -> None:
    source = Source()

    async def main() -> None:
        tokens = source.tokens()
        old = await tokens.token()
        assert (await tokens.token(old.value)).value == "t2"
        assert (await tokens.token(old.value)).value == "t2"
        assert source.times == 2

    asyncio.run(main())


# --- application default credentials --------------------------------------------------------------


def key_file(folder: Path, token_url: str) -> Path:
    """A service account's key file, of a key made now."""
    pytest.importorskip("google.auth", reason="google-auth is in the extra 'google'")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    private = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = folder / "key.json"
    path.write_bytes(
        orjson.dumps(
            {
                "type": "service_account",
                "project_id": "p",
                "private_key_id": "1",
                "private_key": private.decode(),
                "client_email": "a@p.iam.gserviceaccount.com",
                "client_id": "1",
                "token_uri": token_url,
            }
        )
    )
    return path


async def granted(status: int, body: Any, use: Any) -> Any:
    """``use`` of a token endpoint's URL that answers so."""

    async def handle(request: web.Request) -> web.Response:
        sent = await request.post()
        assert sent["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        return web.json_response(body, status=status)

    app = web.Application()
    app.router.add_post("/token", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        return await use(f"http://127.0.0.1:{runner.addresses[0][1]}/token")
    finally:
        await runner.cleanup()


def fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, body: Any
) -> Token | NoToken:
    async def use(url: str) -> Token | NoToken:
        path = await asyncio.to_thread(key_file, tmp_path, url)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        try:
            return await AccessTokens().token()
        except NoToken as none:
            return none

    got: Token | NoToken = asyncio.run(granted(status, body, use))
    return got


def test_a_service_accounts_key_file_gives_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"access_token": "ya29.x", "expires_in": 3600, "token_type": "Bearer"}
    got = fetched(tmp_path, monkeypatch, 200, body)
    assert isinstance(got, Token)
    assert got.value == "ya29.x"
    assert time.time() + 3000 < got.expires <= time.time() + 3600


def test_credentials_that_are_refused_say_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"error": "invalid_grant", "error_description": "Account deleted"}
    got = fetched(tmp_path, monkeypatch, 400, body)
    assert isinstance(got, NoToken)
    assert not got.passing
    assert "invalid_grant: Account deleted" in str(got)
    assert "gcloud auth application-default login" in str(got)


def test_a_token_endpoint_that_cannot_be_reached_may_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = key_file(tmp_path, "http://127.0.0.1:1/token")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    with pytest.raises(NoToken, match="no access token") as caught:
        ApplicationDefault()()
    assert caught.value.passing


@pytest.mark.parametrize("content", [None, "", "{", "{}", '{"type": "service_account"}'])
def test_credentials_that_are_missing_or_broken_say_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    pytest.importorskip("google.auth", reason="google-auth is in the extra 'google'")
    path = tmp_path / "key.json"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    with pytest.raises(NoToken, match="no application default credentials") as caught:
        ApplicationDefault()()
    assert not caught.value.passing
    assert "GOOGLE_APPLICATION_CREDENTIALS" in str(caught.value)
