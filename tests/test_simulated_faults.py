"""Each scheduled fault does on the wire what its name says, and clears for those who retry."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from leakgrid.providers.simulated.config import FAULTS, Faults
from leakgrid.providers.simulated.faults import Schedule
from leakgrid.providers.simulated.planted import digest
from leakgrid.providers.simulated.process import Running, running
from tests.simulated_world import (
    ask,
    assistant_request,
    fetch,
    plausible,
    raw_exchange,
    table,
)


def always(folder: Path, kind: str, **more: Any) -> dict[str, Any]:
    return table(folder, faults={kind: 1.0} | more)


def split(raw: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of one raw response."""
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    fields = (line.split(": ", 1) for line in rest)
    return int(first.split()[1]), {name.lower(): value for name, value in fields}, body


def clears(server: Running, kind: str) -> None:
    """After two faults the same request is answered."""
    stats = fetch(server, "/stats")
    assert stats["by_fault"] == {kind: 2}
    got = ask(server, [assistant_request(0)])[0]
    assert got.status == 200 and got.text
    assert fetch(server, "/stats")["answered"] == stats["answered"] + 1


@pytest.mark.parametrize(
    ("kind", "status"),
    [("quota_429", 429), ("server_500", 500), ("unavailable_503", 503), ("overloaded_529", 529)],
)
def test_error_statuses(tmp_path: Path, kind: str, status: int) -> None:
    with running(always(tmp_path, kind, retry_after_ms=1500)) as server:
        for _ in range(2):
            found, headers, body = split(raw_exchange(server, assistant_request(0)))
            assert found == status
            assert headers["x-leakgrid-simulated"] == "1"
            assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}
            if kind == "quota_429":
                assert (headers["retry-after"], headers["retry-after-ms"]) == ("2", "1500")
                assert json.loads(body)["error"]["code"] == "rate_limit_exceeded"
        clears(server, kind)


def test_reset(tmp_path: Path) -> None:
    with running(always(tmp_path, "reset")) as server:
        for _ in range(2):
            with pytest.raises(ConnectionResetError):
                raw_exchange(server, assistant_request(0))
        clears(server, "reset")
        assert fetch(server, "/stats")["by_status"] == {"dropped": 2, "200": 1}


def test_torn_body(tmp_path: Path) -> None:
    with running(always(tmp_path, "torn")) as server:
        for _ in range(2):
            status, headers, body = split(raw_exchange(server, assistant_request(0)))
            assert status == 200
            assert 0 < len(body) < int(headers["content-length"])
            assert headers["x-leakgrid-simulated"] == "1"
        clears(server, "torn")


def test_malformed_and_empty_bodies(tmp_path: Path) -> None:
    for kind in ("malformed", "empty"):
        with running(always(tmp_path, kind)) as server:
            for _ in range(2):
                status, headers, body = split(raw_exchange(server, assistant_request(0)))
                assert status == 200
                assert len(body) == int(headers["content-length"])
                assert (body == b"") == (kind == "empty")
                with pytest.raises(json.JSONDecodeError):
                    json.loads(body)
            clears(server, kind)


def test_slow_body_is_whole_and_comes_in_pieces(tmp_path: Path) -> None:
    async def pieces(port: int, body: bytes) -> list[bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
        writer.write(f"{head}connection: close\r\n\r\n".encode() + body)
        parts = []
        while part := await reader.read(65536):
            parts.append(part)
        writer.close()
        return parts

    with running(always(tmp_path, "slow", slow_s=0.4)) as server:
        for _ in range(2):
            parts = asyncio.run(pieces(server.port, json.dumps(assistant_request(0)).encode()))
            assert len(parts) > 2
            status, _, body = split(b"".join(parts))
            assert status == 200 and json.loads(body)["choices"]
        assert fetch(server, "/stats")["answered"] == 2
        clears(server, "slow")


def test_timeout_is_silent_and_ends_with_its_client(tmp_path: Path) -> None:
    with running(always(tmp_path, "timeout")) as server:
        for _ in range(2):
            with pytest.raises(TimeoutError):
                raw_exchange(server, assistant_request(0), wait_s=0.3)
        clears(server, "timeout")
        for _ in range(100):
            if (stats := fetch(server, "/stats"))["in_flight"] == 0:
                break
        assert (stats["in_flight"], stats["by_status"]["dropped"]) == (0, 2)


def test_a_hang_that_ends_closes_the_connection(tmp_path: Path) -> None:
    with running(always(tmp_path, "timeout", hang_s=0.1)) as server, pytest.raises(OSError):
        raw_exchange(server, assistant_request(0))


def test_rates_add_up_and_the_schedule_can_be_repeated() -> None:
    rates = dict.fromkeys(FAULTS, 0.05)
    bodies = [digest(b"%d" % n) for n in range(2000)]

    def drawn(seed: int, limit: int = 2) -> list[list[str | None]]:
        schedule = Schedule(seed, Faults(rates=rates, max_per_request=limit))
        return [[schedule.next(body) for _ in range(5)] for body in bodies]

    first = drawn(1)
    assert first == drawn(1) != drawn(2)
    for kind in FAULTS:
        assert plausible(sum(row[0] == kind for row in first), 2000, 0.05), kind
    assert max(sum(fault is not None for fault in row) for row in first) == 2
    assert all(fault is None for row in drawn(1, limit=0) for fault in row)


def test_an_unknown_model_is_404_until_they_are_allowed(tmp_path: Path) -> None:
    request = assistant_request(0, model="gpt-6")
    with running(table(tmp_path)) as server:
        got = ask(server, [request])[0]
        assert got.status == 404
        assert got.json["error"]["code"] == "model_not_found"
        assert "gpt-6" in got.json["error"]["message"]
    with running(table(tmp_path, faults={"models_unknown": False})) as server:
        assert ask(server, [request])[0].status == 200


def test_a_key_can_be_required_and_is_never_repeated(tmp_path: Path) -> None:
    with running(table(tmp_path, faults={"require_key": "open-sesame"})) as server:
        for headers in (None, {"Authorization": "Bearer sk-real-key"}):
            got = ask(server, [assistant_request(0)], headers=headers)[0]
            assert got.status == 401
            assert got.json["error"]["code"] == "invalid_api_key"
            assert b"sk-real-key" not in got.body
        assert fetch(server, "/v1/models")["error"]["code"] == "invalid_api_key"
        right = {"Authorization": "Bearer open-sesame"}
        assert ask(server, [assistant_request(0)], headers=right)[0].status == 200


def test_a_model_without_quota(tmp_path: Path) -> None:
    with running(table(tmp_path, faults={"insufficient_quota": ["sim-small"]})) as server:
        got = ask(server, [assistant_request(0)])[0]
    assert got.status == 429
    assert got.json["error"]["code"] == got.json["error"]["type"] == "insufficient_quota"
    assert "retry-after" not in got.headers
