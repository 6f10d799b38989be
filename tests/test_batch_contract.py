"""What the official SDKs send to a batch service for us, and how we read what it tells."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from leakgrid.batches.opening import deadline_of, service_for
from leakgrid.batches.service import Batch, Service, State, Trouble
from leakgrid.outcomes import JobError, Outcome
from leakgrid.providers.wire import Exchange
from tests.batch_service import Running, running

# What holds the loop here is the SDK beside ours: its first answer of a kind builds its models.
pytestmark = pytest.mark.may_block

pytest.importorskip("openai", reason="the extra 'openai' is not installed")
pytest.importorskip("google.genai", reason="the extra 'google' is not installed")

KEY = "ab" * 32
CHAT = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":5}'
GEMINI = b'{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}'
WIRES = {"openai": ("/v1", CHAT), "gemini": ("/v1beta", GEMINI)}


@pytest.fixture(scope="module")
def process() -> Iterator[Running]:
    with running() as one:
        yield one


@pytest.fixture
def stand_in(process: Running) -> Running:
    process.control(reset=True)
    return process


made: list[Service] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while made:
        made.pop().close()


def service(stand_in: Running, provider: str, **changes: Any) -> Service:
    options: dict[str, Any] = {
        "family": "chat", "model": "gemini-x", "base_url": stand_in.root + WIRES[provider][0],
        "key": "secret-key", "headers": {"x-study": "1"}, "timeout_s": 5.0,
    }  # fmt: skip
    made.append(service_for(provider, **(options | changes)))
    return made[-1]


def uploaded(one: Service, tmp_path: Path, provider: str) -> str:
    path = tmp_path / "input.jsonl"
    path.write_bytes(one.line(KEY, WIRES[provider][1]))
    return one.upload(path, "leakgrid-lg1.jsonl")


@pytest.mark.parametrize("provider", WIRES)
def test_a_batch_from_upload_to_results(tmp_path: Path, stand_in: Running, provider: str) -> None:
    one = service(stand_in, provider)
    size = len(one.line(KEY, WIRES[provider][1]))
    assert one.find_file("leakgrid-lg1.jsonl", size) is None
    file = uploaded(one, tmp_path, provider)
    assert one.find_file("leakgrid-lg1.jsonl", size) == file
    assert one.find_file("leakgrid-lg1.jsonl", size + 1) is None  # an upload that broke off
    assert one.find("lg1", 0.0) is None
    batch = one.create(file, "lg1")
    assert batch.state is State.RUNNING
    assert one.find("lg1", 0.0) == batch
    assert one.find("lg2", 0.0) is None
    ended = one.status(batch.id)
    assert ended.state is State.ENDED and ended.whole
    one.results(ended, tmp_path / "results")
    (line,) = filter(None, (tmp_path / "results").read_bytes().split(b"\n"))
    result = one.parse(line)
    assert result.key == KEY and result.exchange is not None
    assert result.exchange.status == 200
    (sent,) = stand_in.state()["batches"]
    assert sent["intent"] == "lg1" and sent["keys"] == [KEY]
    if provider == "openai":
        assert sent["endpoint"] == "/v1/chat/completions"
        assert sent["requests"] == [
            {"custom_id": KEY, "method": "POST", "url": "/v1/chat/completions",
             "body": orjson.loads(CHAT)}
        ]  # fmt: skip
    else:
        assert sent["model"] == "gemini-x"
        assert sent["requests"] == [{"key": KEY, "request": orjson.loads(GEMINI)}]


def test_the_body_of_a_line_is_what_goes_online_byte_for_byte(stand_in: Running) -> None:
    for provider, (_, body) in WIRES.items():
        assert body in service(stand_in, provider).line(KEY, body)


def test_a_custom_id_is_as_long_as_openai_allows() -> None:
    assert len(KEY) == 64


@pytest.mark.parametrize("provider", WIRES)
def test_cancelling(tmp_path: Path, stand_in: Running, provider: str) -> None:
    stand_in.control(plans=[{"end": "never"}])
    one = service(stand_in, provider)
    batch = one.create(uploaded(one, tmp_path, provider), "lg1")
    assert one.status(batch.id).state is State.RUNNING
    one.cancel(batch.id)
    ended = one.status(batch.id)
    assert ended.state is State.ENDED and not ended.whole
    one.results(ended, tmp_path / "results")
    lines = list(filter(None, (tmp_path / "results").read_bytes().splitlines()))
    assert [one.parse(line).exchange for line in lines] == ([None] if lines else [])


@pytest.mark.parametrize("provider", WIRES)
@pytest.mark.parametrize(
    ("fault", "outcome", "unsure"),
    [
        ({"status": 400, "name": "INVALID_ARGUMENT"}, Outcome.INVALID, False),
        ({"status": 401, "name": "UNAUTHENTICATED"}, Outcome.AUTH, False),
        ({"status": 404, "name": "NOT_FOUND"}, Outcome.INVALID, False),
        ({"status": 429, "name": "RESOURCE_EXHAUSTED"}, Outcome.QUOTA, False),
        ({"status": 500, "name": "INTERNAL"}, Outcome.TRANSIENT, True),
        ({"status": 503, "name": "UNAVAILABLE"}, Outcome.OVERLOAD, True),
        ({"hang_up": True}, Outcome.TRANSIENT, True),
    ],
)
def test_troubles_of_creating(
    tmp_path: Path,
    stand_in: Running,
    provider: str,
    fault: dict[str, Any],
    outcome: Outcome,
    unsure: bool,
) -> None:
    one = service(stand_in, provider)
    file = uploaded(one, tmp_path, provider)
    stand_in.control(faults=[{"step": "create", "message": "no: secret-key", **fault}])
    with pytest.raises(Trouble) as caught:
        one.create(file, "lg1")
    assert (caught.value.outcome, caught.value.unsure) == (outcome, unsure)
    assert "secret-key" not in str(caught.value)
    assert stand_in.state()["requests"]["create"] == 1


# --- lines --------------------------------------------------------------------------------------


def line(**changes: Any) -> bytes:
    return orjson.dumps({"id": "r", "custom_id": KEY, "response": None, "error": None} | changes)


@pytest.mark.parametrize(
    ("said", "exchange"),
    [
        (
            line(response={"status_code": 200, "request_id": "q", "body": {"a": 1}}),
            Exchange(200, {"x-request-id": "q"}, b'{"a":1}', 0.0),
        ),
        (
            line(response={"status_code": 429, "request_id": None, "body": {"error": {}}}),
            Exchange(429, {"x-request-id": ""}, b'{"error":{}}', 0.0),
        ),
        (line(error={"code": "batch_expired", "message": "late"}), None),
        (line(error={"code": "batch_cancelled", "message": "stopped"}), None),
    ],
)
def test_lines_of_openai(stand_in: Running, said: bytes, exchange: Exchange | None) -> None:
    result = service(stand_in, "openai").parse(said)
    assert (result.key, result.exchange) == (KEY, exchange)


def test_a_line_of_openai_with_another_error_is_a_failed_connection(stand_in: Running) -> None:
    said = line(error={"code": "server_error", "message": "broke"})
    exchange = service(stand_in, "openai").parse(said).exchange
    assert exchange is not None
    assert (exchange.status, exchange.fault) == (0, "batch line: server_error: broke")


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"response": {"candidates": []}}, 200),
        ({"error": {"code": 3, "message": "bad"}}, 400),
        ({"error": {"code": 429, "message": "slow"}}, 429),
        ({"status": {"code": 13, "message": "broke"}}, 500),
        ({"error": {"message": "no code"}}, 500),
        ({"error": {"code": 1, "message": "cancelled"}}, None),
    ],
)
def test_lines_of_gemini(stand_in: Running, said: dict[str, Any], status: int | None) -> None:
    result = service(stand_in, "gemini").parse(orjson.dumps({"key": KEY, **said}))
    assert (None if result.exchange is None else result.exchange.status) == status


@pytest.mark.parametrize("provider", WIRES)
@pytest.mark.parametrize("said", [b"{", b"{}", b"[]", b'{"custom_id":5,"key":5}', b"null"])
def test_what_is_no_line_is_told(stand_in: Running, provider: str, said: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        service(stand_in, provider).parse(said)


# --- states -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "state", "trouble"),
    [
        ({"status": "validating"}, State.RUNNING, None),
        ({"status": "finalizing", "output_file_id": "f"}, State.RUNNING, None),
        ({"status": "completed"}, State.RUNNING, None),
        ({"status": "completed", "output_file_id": "f"}, State.ENDED, None),
        ({"status": "completed", "error_file_id": "f"}, State.ENDED, None),
        ({"status": "expired"}, State.ENDED, None),
        ({"status": "cancelled", "output_file_id": "f"}, State.ENDED, None),
        ({"status": "failed", "code": "invalid_json_line"}, State.FAILED, Outcome.INVALID),
        ({"status": "failed", "code": "token_limit_exceeded"}, State.FAILED, Outcome.QUOTA),
    ],
)
def test_states_of_openai(told: dict[str, Any], state: State, trouble: Outcome | None) -> None:
    from openai.types import Batch as TheirBatch

    from leakgrid.providers.batch_openai import _batch

    code = told.pop("code", None)
    errors = {"data": [{"code": code, "message": "m", "line": 7}]} if code else None
    theirs = TheirBatch.model_validate(
        {"id": "b", "completion_window": "24h", "created_at": 1, "endpoint": "/v1/x",
         "input_file_id": "i", "object": "batch", "errors": errors, **told}
    )  # fmt: skip
    batch = _batch(theirs)
    assert batch.state is state
    if trouble is not None:
        assert batch.trouble is trouble and batch.error == f"{code}: m (line 7)"


@pytest.mark.parametrize(
    ("status", "file", "state"),
    [
        ("QUEUED", "", State.RUNNING),
        ("CANCELLING", "", State.RUNNING),
        ("PAUSED", "", State.RUNNING),
        ("SUCCEEDED", "", State.RUNNING),
        ("SUCCEEDED", "files/x", State.ENDED),
        ("PARTIALLY_SUCCEEDED", "files/x", State.ENDED),
        ("EXPIRED", "", State.ENDED),
        ("CANCELLED", "", State.ENDED),
        ("FAILED", "", State.FAILED),
        ("FAILED", "files/x", State.ENDED),
    ],
)
def test_states_of_gemini(status: str, file: str, state: State) -> None:
    from google.genai.types import BatchJob

    from leakgrid.providers.batch_google import _batch

    dest = {"file_name": file} if file else None
    batch = _batch(BatchJob(name="batches/1", state=f"JOB_STATE_{status}", dest=dest))  # type: ignore[arg-type]
    assert batch.state is state
    assert batch.outputs == ((file,) if file else ())


def test_only_a_complete_batch_owes_every_line() -> None:
    whole = {
        status: Batch(id="b", state=State.ENDED, status=status).whole
        for status in (
            "completed",
            "expired",
            "cancelled",
            "JOB_STATE_SUCCEEDED",
            "JOB_STATE_EXPIRED",
        )
    }
    assert [status for status, owes in whole.items() if owes] == [
        "completed", "JOB_STATE_SUCCEEDED",
    ]  # fmt: skip


# --- opening ------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", WIRES)
def test_a_missing_sdk_is_told_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, stand_in: Running, provider: str
) -> None:
    missing = "openai" if provider == "openai" else "google.genai"
    monkeypatch.setitem(sys.modules, missing, None)
    if provider == "gemini":
        import google

        monkeypatch.delattr(google, "genai", raising=False)
    extra = "openai" if provider == "openai" else "google"
    with pytest.raises(JobError, match=rf"pip install 'leakgrid\[{extra}\]'"):
        service(stand_in, provider)


def test_deadlines_are_hours_or_a_time() -> None:
    import datetime

    assert deadline_of(20) == (20.0, None)
    assert deadline_of(0.5) == (0.5, None)
    moment = datetime.datetime(2026, 12, 24, 8, tzinfo=datetime.UTC)
    assert deadline_of(moment) == (None, moment.timestamp())
    assert deadline_of("2026-12-24T08:00:00Z") == (None, moment.timestamp())
    local = datetime.datetime(2026, 12, 24, 8)
    assert deadline_of("2026-12-24T08:00") == (None, local.timestamp())


@pytest.mark.parametrize("value", [0, -1, True, None, "soon", [20]])
def test_other_deadlines_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        deadline_of(value)
