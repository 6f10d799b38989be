"""Quotas: buckets refill and charge as told, and their headers are OpenAI's."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakgrid.providers.simulated.config import Quota
from leakgrid.providers.simulated.process import running
from leakgrid.providers.simulated.quota import Gate, duration, retry_headers
from tests.simulated_world import ask, assistant_request, fetch, table


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0ms"),
        (0.12, "120ms"),
        (0.1201, "121ms"),
        (1.0, "1s"),
        (6.2, "6.2s"),
        (62.0, "1m2s"),
        (360.0, "6m0s"),
        (7201.5, "2h0m1.5s"),
        (59.9999, "1m0s"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_requests_per_minute() -> None:
    gate = Gate(Quota(rpm=60, burst_s=2), now=100.0)
    assert gate.admit(10, 100.0) is None
    assert gate.headers() == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "1",
        "x-ratelimit-reset-requests": "1s",
    }
    assert gate.admit(10, 100.0) is None
    rejection = gate.admit(10, 100.25)
    assert rejection is not None
    assert (rejection.limit, rejection.wait_s) == ("requests", 0.75)
    assert retry_headers(rejection.wait_s) == {"retry-after": "1", "retry-after-ms": "750"}
    # Rejections cost nothing, so the wait that was named is exact.
    assert gate.admit(10, 101.0) is None
    assert gate.admit(10, 101.0) is not None


def test_rejected_calls_may_be_charged() -> None:
    gate = Gate(Quota(rpm=60, burst_s=1, charge_rejected=True), now=0.0)
    assert gate.admit(1, 0.0) is None
    assert all(gate.admit(1, tenth / 10) is not None for tenth in range(1, 50))
    assert gate.admit(1, 5.9) is None


def test_tokens_per_minute_and_a_call_larger_than_the_bucket() -> None:
    gate = Gate(Quota(tpm=600, burst_s=10), now=0.0)
    assert gate.admit(40, 0.0) is None
    assert gate.headers()["x-ratelimit-remaining-tokens"] == "60"
    assert gate.headers()["x-ratelimit-reset-tokens"] == "4s"
    rejection = gate.admit(70, 0.0)
    assert rejection is not None
    assert (rejection.limit, rejection.wait_s) == ("tokens", 1.0)
    assert gate.admit(1000, 3.0) is not None
    assert gate.admit(1000, 4.0) is None
    assert gate.headers()["x-ratelimit-remaining-tokens"] == "0"
    rejection = gate.admit(1, 4.0)
    assert rejection is not None and rejection.wait_s == pytest.approx(90.1)


def test_a_server_with_a_quota(tmp_path: Path) -> None:
    quota = {"sim-small": {"rpm": 30, "tpm": 1e6, "burst_s": 10}}
    assistants = {"sim-small": {"leak": 0.5}, "free": {"leak": 0.5}}
    with running(table(tmp_path, quota=quota, assistants=assistants)) as server:
        got = ask(server, [assistant_request(0, nonce=n) for n in range(9)], at_once=1)
        unlimited = ask(server, [assistant_request(0, model="free")])[0]
        stats = fetch(server, "/stats")
    passed = [one for one in got if one.status == 200]
    assert 5 <= len(passed) < 9
    assert passed[0].headers["x-ratelimit-remaining-requests"] == "4"
    assert passed[0].headers["x-ratelimit-limit-tokens"] == "1000000"
    usage = passed[0].json["usage"]["total_tokens"]
    assert passed[0].headers["x-ratelimit-remaining-tokens"] == str(int(1e6 / 6) - usage)
    rejected = got[-1]
    assert rejected.status == 429
    assert rejected.json["error"]["code"] == "rate_limit_exceeded"
    assert rejected.json["error"]["type"] == "requests"
    assert 0 < int(rejected.headers["retry-after-ms"]) <= 2000
    assert rejected.headers["x-ratelimit-remaining-requests"] == "0"
    assert "x-ratelimit-limit-requests" not in unlimited.headers
    assert stats["by_status"]["429"] == 9 - len(passed)
