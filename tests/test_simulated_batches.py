"""The simulated batch service by itself: what is planted, kept on disk, and goes wrong by coin."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from leakgrid.providers.simulated.batch_faults import Orders
from leakgrid.providers.simulated.batch_settings import ENDS, LINES, Batching
from leakgrid.providers.simulated.batch_store import File, Plan, Store
from leakgrid.providers.simulated.config import parse
from leakgrid.providers.simulated.process import Running, running
from tests.simulated_world import assistant_request, judge_request, table

FORM = (
    b'--x\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    b'--x\r\ncontent-disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n%b\r\n'
    b"--x--\r\n"
)


def asked(server: Running, path: str, body: Any = None, **headers: str) -> Any:
    """The decoded answer of a server, or its status."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(server.root_url + path, data, headers)
    try:
        with urllib.request.urlopen(request) as response:
            found = response.read()
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    lines = [json.loads(line) for line in found.splitlines()]
    return lines if path.endswith("/content") else lines[0]


def made(server: Running, *lines: Any) -> Any:
    """A new batch over these lines (bytes, or what a request's body is)."""
    whole = [
        line if isinstance(line, bytes) else json.dumps(
            {"custom_id": f"c{number}", "method": "POST", "url": "/v1/chat/completions",
             "body": line}
        ).encode()
        for number, line in enumerate(lines)
    ]  # fmt: skip
    form = FORM % b"\n".join(whole)
    file = asked(server, "/v1/files", form, **{"content-type": "multipart/form-data; boundary=x"})
    told = {
        "input_file_id": file["id"], "endpoint": "/v1/chat/completions",
        "completion_window": "24h", "metadata": {"leakgrid": "lg1"},
    }  # fmt: skip
    return asked(server, "/v1/batches", told)


def test_a_line_gets_the_very_answer_that_the_request_gets_online(tmp_path: Path) -> None:
    bodies = [assistant_request(number % 3, nonce=number) for number in range(20)]
    bodies += [judge_request(0, "Nothing of it."), assistant_request(1, sample=4)]
    with running(table(tmp_path, batches={"turnaround_s": 0})) as server:
        batch = made(server, *bodies)
        ended = asked(server, f"/v1/batches/{batch['id']}")
        lines = asked(server, f"/v1/files/{ended['output_file_id']}/content")
        # As the engine writes bodies: compact.
        compact = [json.dumps(body, separators=(",", ":")).encode() for body in bodies]
        online = [asked(server, "/v1/chat/completions", body) for body in compact]
        assert [line["response"]["body"] for line in lines] == online
        assert asked(server, "/stats")["answered_again"] == len(bodies)
    assert ended["status"] == "completed" and ended["error_file_id"] is None
    assert {one["system_fingerprint"] for one in online} == {"simulated"}


def test_a_request_that_fails_online_fails_in_a_batch(tmp_path: Path) -> None:
    with running(table(tmp_path, batches={"turnaround_s": 0})) as server:
        batch = made(server, assistant_request(0, model="nobody"), assistant_request(0))
        ended = asked(server, f"/v1/batches/{batch['id']}")
        (line,) = asked(server, f"/v1/files/{ended['error_file_id']}/content")
        assert len(asked(server, f"/v1/files/{ended['output_file_id']}/content")) == 1
    assert line["custom_id"] == "c0" and line["response"]["status_code"] == 404
    assert line["response"]["body"]["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", "invalid_json_line"),
        (b"[]", "missing_custom_id"),
        (b'{"custom_id": 5}', "missing_custom_id"),
        (b'{"custom_id": "c0"}', "duplicate_custom_id"),
        (b'{"custom_id": "a", "method": "POST", "url": "/v1/responses"}', "invalid_url"),
        (b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions"}', "invalid_request"),
    ],
)
def test_a_file_with_a_wrong_line_never_runs(tmp_path: Path, line: bytes, code: str) -> None:
    with running(table(tmp_path)) as server:
        batch = made(server, assistant_request(0), line)
        assert asked(server, "/stats")["received"] == 0
    assert batch["status"] == "failed"
    assert [(one["code"], one["line"]) for one in batch["errors"]["data"]] == [(code, 2)]


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with running(table(tmp_path, faults={"require_key": "k"})) as server:
        key = {"authorization": "Bearer k"}
        assert asked(server, "/v1/batches") == 401
        assert asked(server, "/v1/batches/none", **key) == 404
        assert asked(server, "/v1/files/none/content", **key) == 404
        assert asked(server, "/v1/batches", b"{", **key) == 400
        assert asked(server, "/v1/batches", {"endpoint": "/v1/responses"}, **key) == 400
        assert asked(server, "/v1/files", b"x", **key) == 400
        assert asked(server, "/batches/control", {"plans": [{"ends": 1}]}, **key) == 400


def test_a_batch_ends_after_its_turnaround_and_a_cancelled_one_in_part(tmp_path: Path) -> None:
    with running(table(tmp_path, batches={"turnaround_s": 3600})) as server:
        batch = made(server, *(assistant_request(0, nonce=nonce) for nonce in range(3)))
        assert asked(server, f"/v1/batches/{batch['id']}")["status"] == "in_progress"
        assert asked(server, f"/v1/batches/{batch['id']}/cancel", b"")["status"] == "cancelling"
        ended = asked(server, f"/v1/batches/{batch['id']}")
        assert ended["status"] == "cancelled" and ended["output_file_id"] is None
        lines = asked(server, f"/v1/files/{ended['error_file_id']}/content")
        assert {line["error"]["code"] for line in lines} == {"batch_cancelled"}
        assert asked(server, "/stats")["received"] == 0


def test_lists_come_in_pages(tmp_path: Path) -> None:
    with running(table(tmp_path)) as server:
        names = [made(server, assistant_request(0, nonce=nonce))["id"] for nonce in range(3)]
        first = asked(server, "/v1/batches?limit=2")
        second = asked(server, f"/v1/batches?limit=2&after={first['data'][-1]['id']}")
    assert [one["id"] for one in first["data"] + second["data"]] == names[::-1]
    assert (first["has_more"], second["has_more"]) == (True, False)


# --- what outlives the server -------------------------------------------------------------------


def file_of(store: Store, data: bytes) -> File:
    draft = store.draft()
    draft.write(data)
    return draft.finish("in.jsonl", "batch")


def test_a_store_opened_again_has_what_was_finished(tmp_path: Path) -> None:
    store = Store(tmp_path)
    one, two = file_of(store, b"one"), file_of(store, b"two")
    unfinished = store.draft()
    unfinished.write(b"an upload that breaks off")
    again = Store(tmp_path)
    unfinished.drop()
    assert list(again.files.values()) == [one, two]
    assert again.data(two).read_bytes() == b"two"


def test_what_is_old_and_over_is_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    file = file_of(store, b"old")
    file.created = 0.0
    store.added(file)
    assert not Store(tmp_path).files
    assert not list(tmp_path.glob("*.data"))


# --- coins and orders ---------------------------------------------------------------------------


def test_the_same_requests_meet_the_same_faults() -> None:
    batching = Batching(
        fails={"create": 0.3}, lost={"create": 0.3}, ends=dict.fromkeys(ENDS, 0.1),
        lines=dict.fromkeys(LINES, 0.1),
    )  # fmt: skip

    def drawn(seed: int) -> list[Any]:
        orders = Orders(seed, batching)
        steps = [orders.step("create") for _ in range(50)]
        plans = [orders.plan(f"{number}", 10) for number in range(50)]
        lines = [orders.line(f"k{number}", b"%d" % number) for number in range(200)]
        return [steps, plans, lines]

    assert drawn(1) == drawn(1) != drawn(2)
    steps, plans, lines = drawn(1)
    assert {step and step.after for step in steps} == {None, True, False}
    assert set(lines) == {"", *LINES}
    assert {plan.end for plan in plans} == {"completed", "failed", "expired", "never"}


def test_no_step_and_no_line_fails_more_often_than_allowed() -> None:
    always = Batching(max_per_request=2, fails={"upload": 1.0}, lines={"line_500": 1.0})
    orders = Orders(0, always)
    assert [orders.step("upload") is None for _ in range(6)] == [False, False, True] * 2
    assert [orders.line("k", b"x") for _ in range(4)] == ["line_500", "line_500", "", ""]


def test_orders_go_before_coins() -> None:
    orders = Orders(0, Batching())
    orders.take(
        {
            "plans": [{"end": "expired", "done": 2}],
            "faults": [{"step": "list", "times": 2, "status": 503}],
            "lines": [{"contains": "hello", "do": "line_torn", "times": 1}],
        }
    )
    assert orders.plan("c", 5) == Plan(end="expired", done=2)
    assert orders.plan("c", 5) == Plan()
    found = [orders.step("list") for _ in range(3)]
    assert [one and one.status for one in found] == [503, 503, None]
    assert [orders.line("k", b"hello") for _ in range(2)] == ["line_torn", ""]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"turnaround": 1}, "simulated.batches.turnaround: found an unknown key"),
        ({"fails": {"creat": 0.1}}, "simulated.batches.fails.creat: found an unknown key"),
        ({"lost": {"create": 2}}, "simulated.batches.lost.create: found 2; allowed: a number"),
        ({"expired": 0.6, "stuck": 0.6}, "found rates of batches"),
        ({"line_500": 0.6, "line_torn": 0.6}, "found rates of lines"),
    ],
)
def test_mistakes_in_the_table_are_named(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse({"items": "i.jsonl", "batches": wrong})


def test_how_batches_go_is_no_part_of_the_identity(tmp_path: Path) -> None:
    usual, other = table(tmp_path), table(tmp_path, batches={"turnaround_s": 9, "line_429": 0.5})
    assert parse(usual).identity() == parse(other).identity()
