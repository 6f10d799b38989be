"""Every documented error and every broken connection ends in the right outcome and wait."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import orjson
import pytest

from leakgrid.outcomes import Outcome
from leakgrid.providers.azure import azure
from leakgrid.providers.openai import ChatCompletions
from leakgrid.providers.openai_endpoint import Endpoint
from leakgrid.providers.openai_responses import Responses
from leakgrid.providers.wire import Exchange, Reading

APIS = ("chat", "responses", "azure")
Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def provider(api: str, url: str, session: aiohttp.ClientSession, timeout_s: float) -> Endpoint:
    options: dict[str, Any] = {
        "name": "m", "kind": "openai", "session": session, "identity": "i", "params": {},
        "key": "sk-1", "timeout_s": timeout_s,
    }  # fmt: skip
    if api == "azure":
        return azure(
            api="chat", resource_url=url, deployment="d", api_version="2024-10-21", **options
        )
    kind: type[Endpoint] = ChatCompletions if api == "chat" else Responses
    return kind(model="gpt-x", base_url=url, **options)


def sent(api: str, behave: Behave, *, timeout_s: float = 30.0) -> tuple[Reading, Exchange]:
    """One body sent to a server that reads the request and then does as ``behave`` does."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            await behave(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def main() -> tuple[Reading, Exchange]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, aiohttp.ClientSession() as session:
            one = provider(api, url, session, timeout_s)
            exchange = await one.exchange(b'{"model":"m"}')
            return one.read(exchange), exchange

    return asyncio.run(main())


def says(status: int, body: bytes, headers: dict[str, str]) -> Behave:
    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await writer.drain()

    return behave


# --- errors ---------------------------------------------------------------------------------------


def error(code: Any = None, kind: Any = "invalid_request_error", message: str = "No.") -> bytes:
    return orjson.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})


TPM = "Rate limit reached for gpt-x on tokens per min (TPM): Limit 30000, Used 29000. {}"
IN_MS = TPM.format("Please try again in 86ms. Visit the site to learn more.")
IN_S = TPM.format("Please try again in 1.5s. Visit the site to learn more.")
IN_M = "Rate limit reached on requests per day (RPD): Limit 200. Please try again in 7m12s."
LARGE = "Request too large for gpt-x on tokens per min (TPM): Limit 30000, Requested 40000."
RESET = {
    "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "8.64s",
    "x-ratelimit-remaining-tokens": "100", "x-ratelimit-reset-tokens": "6m0s",
}  # fmt: skip

ERRORS: dict[str, tuple[int, bytes, dict[str, str], Outcome, float | None]] = {
    # 400
    "bad request": (400, error("invalid_value"), {}, Outcome.INVALID, None),
    "unsupported parameter": (400, error("unsupported_parameter"), {}, Outcome.INVALID, None),
    "unsupported value": (400, error("unsupported_value"), {}, Outcome.INVALID, None),
    "service tier not allowed": (400, error(None), {}, Outcome.INVALID, None),
    "context length": (400, error("context_length_exceeded"), {}, Outcome.INVALID, None),
    "string too long": (400, error("string_above_max_length"), {}, Outcome.INVALID, None),
    "content filter": (400, error("content_filter"), {}, Outcome.REFUSAL, None),
    "content policy": (400, error("content_policy_violation"), {}, Outcome.REFUSAL, None),
    "flagged prompt": (400, error("invalid_prompt"), {}, Outcome.REFUSAL, None),
    "hard limit": (400, error("billing_hard_limit_reached"), {}, Outcome.EXHAUSTED, None),
    # 401, 402, 403
    "no key": (401, error(None), {}, Outcome.AUTH, None),
    "wrong key": (401, error("invalid_api_key"), {}, Outcome.AUTH, None),
    "no member": (401, error("mismatched_organization"), {}, Outcome.AUTH, None),
    "wrong address": (401, error("ip_not_authorized"), {}, Outcome.AUTH, None),
    "azure key": (401, error("401", None), {}, Outcome.AUTH, None),
    "azure plain 401": (
        401, orjson.dumps({"statusCode": 401, "message": "Access denied."}), {}, Outcome.AUTH, None,
    ),
    "payment": (402, error(None), {}, Outcome.EXHAUSTED, None),
    "region": (403, error("unsupported_country_region_territory"), {}, Outcome.AUTH, None),
    "no access to the model": (403, error("model_not_found"), {}, Outcome.AUTH, None),
    "azure network": (403, error("AccessDenied", None), {}, Outcome.AUTH, None),
    # 404 to 422
    "model": (404, error("model_not_found"), {}, Outcome.INVALID, None),
    "azure deployment": (404, error("DeploymentNotFound", None), {}, Outcome.INVALID, None),
    "azure path": (
        404, orjson.dumps({"error": {"code": "404", "message": "Resource not found"}}), {},
        Outcome.INVALID, None,
    ),
    "request timeout": (408, error("Timeout", None), {}, Outcome.TRANSIENT, None),
    "conflict": (409, error(None, "conflict_error"), {}, Outcome.TRANSIENT, None),
    "too large": (413, b"<html>413 Request Entity Too Large</html>", {}, Outcome.INVALID, None),
    "unprocessable": (422, error(None), {}, Outcome.INVALID, None),
    # 429
    "requests": (429, error("rate_limit_exceeded", "requests"), {}, Outcome.QUOTA, None),
    "tokens, header": (
        429, error("rate_limit_exceeded", "tokens", IN_S), {"retry-after": "3"}, Outcome.QUOTA, 3.0,
    ),
    "tokens, header in ms": (
        429, error("rate_limit_exceeded", "tokens", IN_S),
        {"retry-after-ms": "1201", "retry-after": "2"}, Outcome.QUOTA, 1.201,
    ),
    "tokens, told in ms": (
        429, error("rate_limit_exceeded", "tokens", IN_MS), {}, Outcome.QUOTA, 0.086,
    ),
    "tokens, told in s": (
        429, error("rate_limit_exceeded", "tokens", IN_S), {}, Outcome.QUOTA, 1.5,
    ),
    "requests, told in m": (
        429, error("rate_limit_exceeded", "requests", IN_M), {}, Outcome.QUOTA, 432.0,
    ),
    "reset of what is used up": (
        429, error("rate_limit_exceeded", "requests"), RESET, Outcome.QUOTA, 8.64,
    ),
    "azure quota": (
        429, error("429", None, "Please retry after 6 seconds."), {}, Outcome.QUOTA, 6.0,
    ),
    "larger than the quota": (
        429, error("rate_limit_exceeded", "tokens", LARGE), {}, Outcome.INVALID, None,
    ),
    "no quota": (429, error("insufficient_quota", None), {}, Outcome.EXHAUSTED, None),
    "no credit": (
        429, error("credit_balance_exhausted", "insufficient_quota"), {}, Outcome.EXHAUSTED, None,
    ),
    "a spend limit": (
        429, error("project_spend_limit", "insufficient_quota"), {"retry-after": "9"},
        Outcome.EXHAUSTED, 9.0,
    ),
    "billing": (429, error("billing_not_active", None), {}, Outcome.EXHAUSTED, None),
    "slow down": (429, error("slow_down", "rate_limit_error"), {}, Outcome.OVERLOAD, None),
    "slow down, header": (
        429, error("slow_down", "rate_limit_error"), {"retry-after": "4"}, Outcome.OVERLOAD, 4.0,
    ),
    "flex": (429, error("resource_unavailable"), {}, Outcome.OVERLOAD, None),
    "azure demand": (
        429, error("429", None, "The system is experiencing high demand."), {},
        Outcome.OVERLOAD, None,
    ),
    "engine": (
        429, error(None, "requests", "The engine is currently overloaded."), {},
        Outcome.OVERLOAD, None,
    ),
    "empty 429": (429, b"", {}, Outcome.QUOTA, None),
    # 5xx
    "server": (500, error(None, "server_error"), {}, Outcome.TRANSIENT, None),
    "gateway": (502, b"<html>Bad gateway</html>", {}, Outcome.TRANSIENT, None),
    "overloaded": (
        503, error("server_is_overloaded", "service_unavailable_error"), {}, Outcome.OVERLOAD, None,
    ),
    "slow down 503": (503, error("slow_down"), {"retry-after": "9"}, Outcome.OVERLOAD, 9.0),
    "plain 503": (503, b"", {}, Outcome.OVERLOAD, None),
    "gateway timeout": (504, b"upstream request timeout", {}, Outcome.TRANSIENT, None),
    "proxy 520": (520, b"", {}, Outcome.TRANSIENT, None),
    "proxy 522": (522, b"<html>", {}, Outcome.TRANSIENT, None),
    "proxy 524": (524, b"<html>", {}, Outcome.TRANSIENT, None),
    "overload 529": (529, b"", {}, Outcome.OVERLOAD, None),
    "unheard of": (418, b"teapot", {}, Outcome.UNKNOWN, None),
    "not an error": (204, b"", {}, Outcome.UNKNOWN, None),
}  # fmt: skip


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("case", ERRORS)
def test_an_error_ends_as_its_code_says(case: str, api: str) -> None:
    status, body, headers, outcome, wait = ERRORS[case]
    reading, exchange = sent(api, says(status, body, headers))
    assert (exchange.status, exchange.sent) == (status, True)
    assert reading.outcome is outcome
    assert reading.wait_s == pytest.approx(wait)
    assert str(status) in reading.error


# --- broken connections ---------------------------------------------------------------------------

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
PART = b'{"choices": [{"message": {"content": "Hi'


async def wait_for_the_client(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


def writes(*pieces: bytes, then: Behave | None = None) -> Behave:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if then is not None:
            await then(reader, writer)

    return behave


async def half_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """No more is written, but the other direction stays open."""
    writer.write_eof()
    await reader.read()


async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


async def trickle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A byte at a time, for longer than anyone waits: the whole call has one deadline."""
    writer.write(HEAD + b"content-length: 100000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


BROKEN: dict[str, tuple[Behave, Outcome, str]] = {
    "closed without a word": (writes(), Outcome.TRANSIENT, "Disconnected"),
    "reset without a word": (reset, Outcome.TRANSIENT, ""),
    "half-closed without a word": (half_closed, Outcome.TRANSIENT, "Disconnected"),
    "closed in the headers": (writes(HEAD), Outcome.TRANSIENT, ""),
    "torn by length": (
        writes(HEAD + b"content-length: 1000\r\n\r\n" + PART), Outcome.TRANSIENT, "broke off",
    ),
    "torn by chunk": (
        writes(HEAD + b"transfer-encoding: chunked\r\n\r\n28\r\n" + PART), Outcome.TRANSIENT,
        "broke off",
    ),
    "half-closed in the body": (
        writes(HEAD + b"content-length: 1000\r\n\r\n" + PART, then=half_closed),
        Outcome.TRANSIENT, "broke off",
    ),
    "reset in the body": (
        writes(HEAD + b"content-length: 1000\r\n\r\n" + PART, then=reset), Outcome.TRANSIENT, "",
    ),
    "a body that ends too early": (
        writes(HEAD + b"connection: close\r\n\r\n" + PART), Outcome.MALFORMED, "status 200 but no",
    ),
    "no HTTP": (writes(b"220 mail.example ESMTP\r\n"), Outcome.TRANSIENT, ""),
    "no JSON": (
        writes(HEAD + b"content-length: 9\r\n\r\n<html>hi!"), Outcome.MALFORMED,
        "status 200 but no",
    ),
    "an empty 200": (
        writes(HEAD + b"content-length: 0\r\n\r\n"), Outcome.MALFORMED, "status 200 but no",
    ),
    "silence": (wait_for_the_client, Outcome.TRANSIENT, "no answer within 0.3 s"),
    "silence after the headers": (
        writes(HEAD + b"content-length: 1000\r\n\r\n", then=wait_for_the_client),
        Outcome.TRANSIENT, "no answer within 0.3 s",
    ),
    "a trickle": (trickle, Outcome.TRANSIENT, "no answer within 0.3 s"),
}  # fmt: skip


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_connection_is_a_failed_attempt(case: str, api: str) -> None:
    behave, outcome, told = BROKEN[case]
    late = "no answer" in told
    reading, exchange = sent(api, behave, timeout_s=0.3 if late else 30.0)
    assert (reading.outcome, reading.wait_s) == (outcome, None)
    assert told in reading.error
    assert exchange.sent  # it may have been answered and charged


@pytest.mark.parametrize("api", APIS)
def test_a_refused_connection_was_never_sent(api: str) -> None:
    async def main() -> tuple[Reading, Exchange]:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{unused.getsockname()[1]}"
            async with aiohttp.ClientSession() as session:
                one = provider(api, url, session, 30.0)
                exchange = await one.exchange(b"{}")
                return one.read(exchange), exchange

    reading, exchange = asyncio.run(main())
    assert (reading.outcome, exchange.sent) == (Outcome.TRANSIENT, False)
    assert "no connection" in reading.error
