"""Every error of Google's references, and every way a connection can fail, has its action.

A stand-in server answers with each; the outcome is read by our client, and one lane per row shows
what follows: how often the call is sent, whether the lane stops, whether the result is kept.
The errors are those of the Gemini API's troubleshooting page, of Vertex's "API errors" page, and
of google.rpc and google.api.ErrorReason as issue trackers show them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web

from leakgrid.lanes.lane import Lane
from leakgrid.lanes.retry import MOST_ATTEMPTS
from leakgrid.lanes.values import Parcel, Quota
from leakgrid.outcomes import KEPT, STOPPING, LaneStopped, Outcome
from leakgrid.providers.google import GenerateContent
from leakgrid.providers.wire import Exchange, Reading
from tests.fakes import Scripted
from tests.virtual_time import run

GOOD = orjson.dumps(
    {"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]}
)


def info(reason: str) -> dict[str, Any]:
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": {"service": "generativelanguage.googleapis.com"},
    }


def over(*quotas: str, value: str | None = None) -> dict[str, Any]:
    violations: list[dict[str, Any]] = [
        {"quotaMetric": "generativelanguage.googleapis.com/requests", "quotaId": quota}
        for quota in quotas
    ]
    if value is not None:
        violations[0]["quotaValue"] = value
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}


def retry(delay: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


@dataclass(frozen=True)
class Fault:
    """An error that the server sends, and what it means."""

    outcome: Outcome
    status: int
    name: str = ""
    message: str = "What went wrong."
    details: tuple[dict[str, Any], ...] = ()
    raw: bytes | None = None
    wrapped: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float | None = None
    told: str = ""
    http: int | None = None

    def response(self) -> web.Response:
        error: dict[str, Any] = {"code": self.status, "message": self.message}
        if self.name:
            error["status"] = self.name
        if self.details:
            error["details"] = self.details
        body: Any = {"error": error}
        raw = orjson.dumps([body] if self.wrapped else body) if self.raw is None else self.raw
        return web.Response(status=self.http or self.status, body=raw, headers=self.headers)


PER_MINUTE = "GenerateRequestsPerMinutePerProjectPerModel"
PER_DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
CREDITS = "Your prepayment credits are depleted. Please go to AI Studio."
SPENT = "Your project has exceeded its monthly spending cap."
BARE_429 = "Resource has been exhausted (e.g. check quota)."
VERTEX_429 = "Resource exhausted, please try again later."
VERTEX_MINUTE = "Quota exceeded for aiplatform.googleapis.com/requests_per_minute_per_base_model."
VERTEX_DAY = "Quota exceeded for aiplatform.googleapis.com/logprobs_requests_per_day."
LIMIT_0 = "You exceeded your current quota. * Quota exceeded for metric: x, limit: 0, model: y"
LIMIT_20 = "You exceeded your current quota. * Quota exceeded for metric: x, limit: 20, model: y"
EXHAUSTED = "RESOURCE_EXHAUSTED"

FAULTS: dict[str, Fault] = {
    # The Gemini API's page.
    "400 malformed": Fault(Outcome.INVALID, 400, "INVALID_ARGUMENT", told="What went wrong."),
    "400 in an array": Fault(Outcome.INVALID, 400, "INVALID_ARGUMENT", wrapped=True),
    "400 out of range": Fault(Outcome.INVALID, 400, "OUT_OF_RANGE"),
    "400 no free tier here": Fault(Outcome.AUTH, 400, "FAILED_PRECONDITION"),
    "400 key is wrong": Fault(
        Outcome.AUTH,
        400,
        "INVALID_ARGUMENT",
        "API key not valid. Please pass a valid API key.",
        (info("API_KEY_INVALID"),),
        told="API_KEY_INVALID: API key not valid",
    ),
    "400 key is wrong, no details": Fault(
        Outcome.AUTH, 400, "INVALID_ARGUMENT", "API key expired. Please renew the API key."
    ),
    "402 no credits": Fault(Outcome.EXHAUSTED, 402, EXHAUSTED, CREDITS, told="credits"),
    "403 key lacks the right": Fault(Outcome.AUTH, 403, "PERMISSION_DENIED"),
    "403 key is blocked": Fault(
        Outcome.AUTH, 403, "PERMISSION_DENIED", details=(info("API_KEY_SERVICE_BLOCKED"),)
    ),
    "403 API is off": Fault(
        Outcome.AUTH, 403, "PERMISSION_DENIED", details=(info("SERVICE_DISABLED"),)
    ),
    "403 project suspended": Fault(
        Outcome.AUTH, 403, "PERMISSION_DENIED", details=(info("CONSUMER_SUSPENDED"),)
    ),
    "403 no billing": Fault(
        Outcome.EXHAUSTED, 403, "PERMISSION_DENIED", details=(info("BILLING_DISABLED"),)
    ),
    "403 no billing, no details": Fault(
        Outcome.EXHAUSTED, 403, "PERMISSION_DENIED", "This API method requires billing."
    ),
    "403 too fast": Fault(
        Outcome.QUOTA, 403, "PERMISSION_DENIED", details=(info("RATE_LIMIT_EXCEEDED"),)
    ),
    "404 no such model": Fault(Outcome.INVALID, 404, "NOT_FOUND"),
    "429 per minute": Fault(
        Outcome.QUOTA, 429, EXHAUSTED, details=(over(PER_MINUTE), retry("12.5s")), wait_s=12.5
    ),
    "429 per minute, told by header": Fault(
        Outcome.QUOTA, 429, EXHAUSTED, headers={"retry-after": "7"}, wait_s=7.0
    ),
    "429 in an array": Fault(
        Outcome.QUOTA, 429, EXHAUSTED, details=(retry("3s"),), wrapped=True, wait_s=3.0
    ),
    "429 per day": Fault(
        Outcome.EXHAUSTED,
        429,
        EXHAUSTED,
        details=(over(PER_DAY), retry("5s")),
        wait_s=5.0,
        told="Day",
    ),
    "429 per minute and day": Fault(
        Outcome.EXHAUSTED, 429, EXHAUSTED, details=(over(PER_MINUTE, PER_DAY),)
    ),
    "429 a quota of none": Fault(
        Outcome.EXHAUSTED, 429, EXHAUSTED, details=(over(PER_MINUTE, value="0"),)
    ),
    "429 a limit of none": Fault(Outcome.EXHAUSTED, 429, EXHAUSTED, LIMIT_0),
    "429 a limit of some": Fault(Outcome.QUOTA, 429, EXHAUSTED, LIMIT_20),
    "429 no details": Fault(Outcome.QUOTA, 429, EXHAUSTED, BARE_429),
    "429 no credits": Fault(Outcome.EXHAUSTED, 429, EXHAUSTED, CREDITS),
    "429 spending cap": Fault(Outcome.EXHAUSTED, 429, EXHAUSTED, SPENT),
    "429 no capacity": Fault(
        Outcome.OVERLOAD, 429, EXHAUSTED, details=(info("MODEL_CAPACITY_EXHAUSTED"),)
    ),
    "429 without a body": Fault(Outcome.QUOTA, 429, raw=b""),
    "500 internal": Fault(Outcome.TRANSIENT, 500, "INTERNAL"),
    "503 overloaded": Fault(Outcome.OVERLOAD, 503, "UNAVAILABLE", "The model is overloaded."),
    "504 too slow": Fault(Outcome.TRANSIENT, 504, "DEADLINE_EXCEEDED"),
    # Vertex's page.
    "vertex 400 policy": Fault(Outcome.AUTH, 400, "FAILED_PRECONDITION", "Not allowed by policy."),
    "vertex 401": Fault(Outcome.AUTH, 401, "UNAUTHENTICATED"),
    "vertex 401 expired": Fault(
        Outcome.AUTH, 401, "UNAUTHENTICATED", details=(info("ACCESS_TOKEN_EXPIRED"),)
    ),
    "vertex 403": Fault(Outcome.AUTH, 403, "PERMISSION_DENIED", details=(info("IAM_DENIED"),)),
    "vertex 429 quota": Fault(Outcome.QUOTA, 429, EXHAUSTED, VERTEX_MINUTE),
    "vertex 429 daily": Fault(Outcome.EXHAUSTED, 429, EXHAUSTED, VERTEX_DAY),
    "vertex 429 shared capacity": Fault(Outcome.OVERLOAD, 429, EXHAUSTED, VERTEX_429),
    "vertex 429 bought capacity": Fault(
        Outcome.OVERLOAD, 429, EXHAUSTED, "Too many requests. Exceeded the Provisioned Throughput."
    ),
    "vertex 499": Fault(Outcome.TRANSIENT, 499, "CANCELLED"),
    "vertex 500 unknown": Fault(Outcome.TRANSIENT, 500, "UNKNOWN"),
    # google.rpc's other codes, and what stands before the API.
    "409 aborted": Fault(Outcome.TRANSIENT, 409, "ABORTED"),
    "500 data loss": Fault(Outcome.TRANSIENT, 500, "DATA_LOSS"),
    "501": Fault(Outcome.INVALID, 501, "UNIMPLEMENTED"),
    "413 page": Fault(Outcome.INVALID, 413, raw=b"<html>Request Entity Too Large", told="Entity"),
    "404 page": Fault(Outcome.INVALID, 404, raw=b"<!DOCTYPE html><title>Error 404", told="404"),
    "502 page": Fault(Outcome.TRANSIENT, 502, raw=b"<html>Bad Gateway", told="Bad Gateway"),
    "408": Fault(Outcome.TRANSIENT, 408, raw=b""),
    "418": Fault(Outcome.UNKNOWN, 418, raw=b"", told="status 418"),
    "500 in binary": Fault(Outcome.TRANSIENT, 500, raw=b"\xff\xfe\x00"),
    "500 of another shape": Fault(Outcome.TRANSIENT, 500, raw=b'{"error": "no"}', told="no"),
    "500 of no shape": Fault(Outcome.TRANSIENT, 500, raw=b"[[]]"),
    "400 strange details": Fault(
        Outcome.INVALID, 400, raw=b'{"error": {"message": 3, "details": [3, {"violations": [3]}]}}'
    ),
    # A 200 that is none.
    "200 with an error": Fault(Outcome.OVERLOAD, 503, "UNAVAILABLE", http=200),
    "200 with a quota": Fault(
        Outcome.QUOTA, 429, EXHAUSTED, details=(retry("2s"),), wrapped=True, wait_s=2.0, http=200
    ),
    "200 with half a body": Fault(Outcome.MALFORMED, 200, raw=GOOD[:-9]),
    "200 without a body": Fault(Outcome.MALFORMED, 200, raw=b""),
    "200 with a page": Fault(Outcome.MALFORMED, 200, raw=b"<html>Log in"),
    "200 with nothing in it": Fault(Outcome.MALFORMED, 200, raw=b'{"usageMetadata": {}}'),
}


def client(session: aiohttp.ClientSession, url: str, **options: Any) -> GenerateContent:
    return GenerateContent(
        name="m",
        kind="gemini",
        model="gemini-x",
        session=session,
        identity="i",
        params={},
        base_url=url,
        key="k-1",
        **options,
    )


async def against(
    handler: Callable[[web.Request], Any], use: Callable[[GenerateContent], Any]
) -> Any:
    """``use(client)`` against a server that answers by ``handler(request)``."""

    async def handle(request: web.Request) -> Any:
        await request.read()
        return await handler(request)

    app = web.Application()
    app.router.add_post("/models/gemini-x:generateContent", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with aiohttp.ClientSession() as session:
            return await use(client(session, f"http://127.0.0.1:{runner.addresses[0][1]}"))
    finally:
        await runner.cleanup()


async def once(one: GenerateContent) -> tuple[Exchange, Reading]:
    exchange = await one.exchange(b"{}")
    return exchange, one.read(exchange)


@pytest.mark.parametrize("name", FAULTS)
def test_an_error_is_read_as_what_it_means(name: str) -> None:
    fault = FAULTS[name]

    async def handler(request: web.Request) -> web.Response:
        return fault.response()

    _, reading = asyncio.run(against(handler, once))
    assert reading.outcome is fault.outcome
    assert reading.wait_s == fault.wait_s
    assert fault.told in reading.error
    assert (reading.text, reading.reasoning) == ("", "")
    assert reading.error and len(reading.error) <= 1000


class Meeting(Scripted):
    """Meets the fault ``times`` times, then is answered; what it meets our client reads."""

    family = "gemini"

    def __init__(self, fault: Fault, times: int) -> None:
        response = fault.response()
        assert isinstance(response.body, bytes)
        met = Exchange(response.status, response.headers, response.body, 1.0)
        super().__init__(
            lambda number, now: met if number < times else Exchange(200, {}, GOOD, 1.0)
        )
        session: Any = None
        self.client = client(session, "http://127.0.0.1:1")

    def read(self, exchange: Exchange) -> Reading:
        return self.client.read(exchange)


@pytest.mark.parametrize("name", FAULTS)
def test_an_error_has_the_action_that_follows_from_it(name: str) -> None:
    fault = FAULTS[name]
    outcome = fault.outcome
    one = Meeting(fault, times=1 if outcome is Outcome.QUOTA else 99)

    async def main() -> Reading | LaneStopped:
        lane = Lane("lane", quota=Quota())
        async with asyncio.TaskGroup() as group:
            dispatching = group.create_task(lane.dispatch())
            try:
                return (await lane.send(Parcel(one, b"{}"))).reading
            except LaneStopped as stopped:
                return stopped
            finally:
                dispatching.cancel()

    end = run(main())
    if outcome in STOPPING:
        assert isinstance(end, LaneStopped) and end.outcome is outcome
        assert len(one.times) == 1
    elif outcome is Outcome.QUOTA:  # the gate closes for as long as the server says; no attempt
        assert isinstance(end, Reading) and end.outcome is Outcome.ANSWER
        assert len(one.times) == 2
        assert one.times[1] - one.times[0] >= 1.0 + (fault.wait_s or 0.0)
    else:
        assert isinstance(end, Reading) and end.outcome is outcome
        assert len(one.times) == MOST_ATTEMPTS.get(outcome, 1)
        assert (outcome in KEPT) is (outcome is Outcome.INVALID)


def test_every_outcome_but_those_of_a_reply_has_its_error() -> None:
    met = {fault.outcome for fault in FAULTS.values()}
    assert met == set(Outcome) - {Outcome.ANSWER, Outcome.REFUSAL, Outcome.TRUNCATED}


# --- connections ----------------------------------------------------------------------------------

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
WHOLE = HEAD + b"content-length: %d\r\n\r\n" % len(GOOD) + GOOD


async def asked(reader: asyncio.StreamReader) -> None:
    """Read one request of ours to its end."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert b"content-length: 2" in head.lower()
    await reader.readexactly(2)


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asked(reader)
    await reader.read()


async def dripping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asked(reader)
    for byte in WHOLE:
        writer.write(bytes([byte]))
        await asyncio.sleep(0.05)


async def stuck(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asked(reader)
    writer.write(WHOLE[:-5])
    await reader.read()


async def shut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asked(reader)


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asked(reader)
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


async def half_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asked(reader)
    writer.write_eof()
    await reader.read()


async def half_closed_half_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asked(reader)
    writer.write(WHOLE[:-5])
    writer.write_eof()
    await reader.read()


def saying(raw: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(raw)

    return say


CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
ZIPPED = HEAD + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(GOOD) + GOOD

CONNECTIONS: dict[str, tuple[Any, str]] = {
    "never answers": (silent, "no answer within 0.3 s"),
    "answers a byte at a time": (dripping, "no answer within 0.3 s"),
    "stops before the end": (stuck, "no answer within 0.3 s"),
    "closes at once": (shut, "Disconnected"),
    "resets": (reset, "reset"),
    "closes its half at once": (half_closed, "Disconnected"),
    "closes its half before the end": (half_closed_half_way, "the answer broke off"),
    "breaks off in the head": (saying(HEAD[:20]), "Disconnected"),
    "breaks off in the body": (saying(WHOLE[:-5]), "the answer broke off"),
    "breaks off in a chunk": (saying(CHUNKED + b"ff\r\n" + GOOD[:20]), "the answer broke off"),
    "breaks off between chunks": (
        saying(CHUNKED + b"%x\r\n" % len(GOOD) + GOOD + b"\r\n"),
        "the answer broke off",
    ),
    "speaks no HTTP": (saying(b"220 smtp ready\r\n\r\n"), "400"),
    "says gzip but is not": (saying(ZIPPED), "the answer broke off"),
}


async def beside(talk: Any, use: Callable[[GenerateContent], Any]) -> Any:
    """``use(client)`` beside a raw server whose connections run ``talk(reader, writer)``."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await talk(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with aiohttp.ClientSession() as session:
        port = server.sockets[0].getsockname()[1]
        result = await use(client(session, f"http://127.0.0.1:{port}", timeout_s=0.3))
    server.close()
    await server.wait_closed()
    return result


@pytest.mark.parametrize("name", CONNECTIONS)
def test_a_connection_that_fails_is_transient_and_may_have_cost(name: str) -> None:
    talk, told = CONNECTIONS[name]
    exchange, reading = asyncio.run(beside(talk, once))
    assert (exchange.status, exchange.body, exchange.sent) == (0, b"", True)
    assert reading.outcome is Outcome.TRANSIENT
    assert told in reading.error


def test_a_connection_that_closed_while_idle_is_not_used_again() -> None:
    async def use(one: GenerateContent) -> list[Reading]:
        readings = []
        for _ in range(3):
            readings.append((await once(one))[1])
            await asyncio.sleep(0.02)
        return readings

    readings = asyncio.run(beside(saying(WHOLE), use))
    assert [reading.text for reading in readings] == ["hi", "hi", "hi"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://nowhere.invalid"])
def test_a_call_that_never_reached_the_server_is_known_not_to_cost(url: str) -> None:
    async def main() -> tuple[Exchange, Reading]:
        async with aiohttp.ClientSession() as session:
            return await once(client(session, url))

    exchange, reading = asyncio.run(main())
    assert (exchange.status, exchange.sent) == (0, False)
    assert reading.outcome is Outcome.TRANSIENT
    assert "no connection" in reading.error


def test_giving_up_is_no_failed_call() -> None:
    async def use(one: GenerateContent) -> str:
        waiting = asyncio.ensure_future(one.exchange(b"{}"))
        await asyncio.sleep(0.05)
        waiting.cancel()
        try:
            await waiting
        except asyncio.CancelledError:
            return "cancelled"
        return "swallowed"

    assert asyncio.run(beside(silent, use)) == "cancelled"
