"""The batch lane over a real service that fails at each step, in one process."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leakgrid.batches.service import State
from leakgrid.cache.readers import Row
from leakgrid.jobs.budget import Budget
from leakgrid.outcomes import InputError, LaneStopped, Outcome
from leakgrid.providers.openai import read_completion
from tests import batch_world
from tests.batch_service import Running, running
from tests.batch_world import World, service_of
from tests.fakes import reply
from tests.project import wait_until

WIRES = ("openai", "gemini")

pytest.importorskip("openai", reason="the extra 'openai' is not installed")
pytest.importorskip("google.genai", reason="the extra 'google' is not installed")


@pytest.fixture(scope="module")
def process() -> Iterator[Running]:
    with running() as one:
        yield one


@pytest.fixture
def service(process: Running) -> Running:
    process.control(reset=True)
    return process


def run(world: World, *cells: list[str]) -> dict[str, Any]:
    return asyncio.run(world.run(cells))


def rows_of(folder: Path) -> list[Row]:
    """Every answers row, in order."""
    rows = []
    for path in sorted((folder / "answers").glob("*.jsonl")):
        rows += [json.loads(line)["r"] for line in path.read_bytes().splitlines()]
    return rows


def events_of(world: World) -> list[str]:
    path = world.folder / "batches" / "m" / "book.jsonl"
    return [json.loads(line)["r"]["event"] for line in path.read_bytes().splitlines()]


def batched(service: Running) -> Counter[str]:
    """How often each key stands in a batch that was created."""
    return Counter(key for batch in service.state()["batches"] for key in batch["keys"])


@pytest.mark.parametrize("wire", WIRES)
def test_calls_go_in_as_one_file_and_come_back_as_ordinary_answers_at_half_the_price(
    tmp_path: Path, service: Running, wire: str
) -> None:
    world = World(tmp_path, service.port, wire)
    answers = run(world, ["a", "b"], ["c", "d"], ["a"])
    assert {text: answer.outcome for text, answer in answers.items()} == dict.fromkeys(
        "abcd", Outcome.ANSWER
    )
    state = service.state()
    assert [len(batch["keys"]) for batch in state["batches"]] == [2, 2]  # a and c, then b and d
    assert set(state["carried_out"].values()) == {1}
    rows = rows_of(tmp_path)
    assert {row["tier"] for row in rows} == {"batch"}
    # Online it would be 2 and 8 dollars for a million tokens.
    assert all(row["input"] > 0 and row["output"] > 0 for row in rows)
    costs = [(row["input"] * 1.0 + row["output"] * 4.0) / 1e6 for row in rows]
    assert [row["usd"] for row in rows] == pytest.approx(costs)
    assert world.lane.statistics().usd == pytest.approx(sum(costs))
    assert world.lane.batched == 4
    assert {row["job"] for row in rows} == {"job"} and {row["role"] for row in rows} != {""}
    assert events_of(world) == [
        "began", "intent", "uploaded", "created", "harvested",
        "intent", "uploaded", "created", "harvested", "finished",
    ]  # fmt: skip
    assert {path.name for path in (tmp_path / "batches" / "m").iterdir()} == {"book.jsonl"}
    again = World(tmp_path, service.port, wire)
    assert run(again, ["a", "b"], ["c", "d"])["a"].text == answers["a"].text
    assert service.state()["requests"] == state["requests"]


def test_a_batch_row_has_the_columns_of_an_online_one(tmp_path: Path, service: Running) -> None:
    from leakgrid.cache.tables import ANSWERS

    run(World(tmp_path, service.port), ["a"])
    (row,) = rows_of(tmp_path)
    assert set(row) == set(ANSWERS.names)


def test_a_replayed_cell_gets_what_an_online_lane_would_have_read(
    tmp_path: Path, service: Running
) -> None:
    answers = run(World(tmp_path, service.port), ["a"])
    (batch,) = service.state()["batches"]
    asked = json.dumps(batch["requests"][0]["body"], separators=(",", ":")).encode()
    with urllib.request.urlopen(f"{service.root}/v1/chat/completions", asked) as response:
        online = read_completion(json.load(response))
    answer = answers["a"]
    assert answer.text == online.text != ""
    assert (answer.model, answer.finish, answer.usage) == ("m", "stop", online.usage)
    assert answer.cached


# --- the service fails at each step -------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("step", ["upload", "create", "status", "results"])
@pytest.mark.parametrize(
    "fault", [{"status": 500}, {"status": 429}, {"status": 503, "times": 3}, {"hang_up": True}]
)
def test_a_step_that_fails_for_a_moment_costs_nothing(
    tmp_path: Path, service: Running, wire: str, step: str, fault: dict[str, Any]
) -> None:
    service.control(faults=[{"step": step, **fault}])
    answers = run(World(tmp_path, service.port, wire), ["a"], ["b"])
    assert len(answers) == 2
    state = service.state()
    assert set(state["carried_out"].values()) == {1}
    assert len(state["batches"]) == 1
    assert [file["purpose"] for file in state["files"]] == ["batch", "batch_output"]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("hidden", [0, 1])
def test_a_create_whose_answer_is_lost_is_not_done_twice(
    tmp_path: Path, service: Running, wire: str, hidden: int
) -> None:
    service.control(faults=[{"step": "create", "after": True}], plans=[{"hidden": hidden}])
    assert len(run(World(tmp_path, service.port, wire), ["a"])) == 1
    state = service.state()
    assert len(state["batches"]) == 1
    assert state["requests"]["list"] == hidden + 1


@pytest.mark.parametrize("wire", WIRES)
def test_a_status_that_flaps_is_not_believed_before_there_is_a_file(
    tmp_path: Path, service: Running, wire: str
) -> None:
    service.control(plans=[{"polls": 3, "early": True}])
    assert len(run(World(tmp_path, service.port, wire), ["a"])) == 1
    assert len(service.state()["batches"]) == 1


@pytest.mark.parametrize("wire", WIRES)
def test_a_complete_batch_that_never_gets_a_file_keeps_nobody_waiting(
    tmp_path: Path, service: Running, wire: str
) -> None:
    made = service_of(wire, service.port)
    status = made.status
    made.status = lambda batch: replace(status(batch), state=State.RUNNING, outputs=())  # type: ignore[method-assign]
    world = World(tmp_path, service.port, wire, service=made)
    assert run(world, ["a"]) == {}
    assert "3 batches in a row gave no answer" in str(world.stopped[0])
    assert "without a line for this request" in str(world.stopped[0])


def test_one_without_files_at_its_deadline_goes_online(
    tmp_path: Path, service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where stopping it takes less patience than waiting for its files, as in a real run."""
    pace = replace(batch_world.QUICK, cancel_s=0.1, files_s=60.0)
    monkeypatch.setattr(batch_world, "QUICK", pace)
    made = service_of("openai", service.port)
    status = made.status
    made.status = lambda batch: replace(status(batch), state=State.RUNNING, outputs=())  # type: ignore[method-assign]
    world = World(tmp_path, service.port, service=made, hours=0.3 / 3600)
    assert [answer.outcome for answer in run(world, ["a"]).values()] == [Outcome.ANSWER]
    assert world.stopped == []


@pytest.mark.parametrize("wire", WIRES)
def test_a_batch_of_which_nothing_comes_back_is_asked_again(
    tmp_path: Path, service: Running, wire: str
) -> None:
    answers = run(World(tmp_path, service.port, wire), ["a !missing*1"])
    assert {answer.outcome for answer in answers.values()} == {Outcome.ANSWER}
    assert len(service.state()["batches"]) == 2


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("end", ["expired", "cancelled"])
def test_what_an_expired_batch_did_is_harvested_and_only_the_rest_goes_again(
    tmp_path: Path, service: Running, wire: str, end: str
) -> None:
    service.control(plans=[{"end": end, "done": 3}])
    world = World(tmp_path, service.port, wire)
    assert len(run(world, *[[text] for text in "abcde"])) == 5
    state = service.state()
    assert [len(batch["keys"]) for batch in state["batches"]] == [5, 2]
    assert set(state["carried_out"].values()) == {1}
    assert len(rows_of(tmp_path)) == 5  # those not carried out are no failed attempts


def test_a_lane_whose_batches_give_nothing_three_times_stops(
    tmp_path: Path, service: Running
) -> None:
    service.control(plans=[{"end": "expired", "done": 0}] * 5)
    world = World(tmp_path, service.port)
    assert run(world, ["a"]) == {}
    assert len(service.state()["batches"]) == 3
    (error,) = world.stopped
    assert "3 batches in a row gave no answer (expired)" in str(error)


@pytest.mark.parametrize("wire", WIRES)
def test_a_torn_result_file_is_fetched_again_then_what_can_be_read_is_kept(
    tmp_path: Path, service: Running, wire: str
) -> None:
    service.control(plans=[{"torn": True}])
    world = World(tmp_path, service.port, wire)
    assert len(run(world, *[[text] for text in "abc"])) == 3
    state = service.state()
    assert [len(batch["keys"]) for batch in state["batches"]] == [3, 1]
    assert sorted(state["carried_out"].values()) == [1, 1, 2]  # only the torn one is paid again
    assert state["requests"]["results"] == 4
    assert any("1 lines cannot be read" in told for told in world.told)
    assert len(list((tmp_path / "batches" / "m" / "torn").iterdir())) == 1


@pytest.mark.parametrize("wire", WIRES)
def test_repeated_and_strange_lines_are_told_and_count_for_nothing(
    tmp_path: Path, service: Running, wire: str
) -> None:
    service.control(plans=[{"strange": 2}])
    world = World(tmp_path, service.port, wire)
    answers = run(world, ["a !repeated"], ["b"])
    assert {answer.outcome for answer in answers.values()} == {Outcome.ANSWER}
    assert len(rows_of(tmp_path)) == 2  # an error line beside a good one is no failed attempt
    assert any("2 lines of requests that were not sent, 1 repeated" in told for told in world.told)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("order", ["!500*1", "!429*2", "!missing*1"])
def test_a_line_that_fails_goes_again_in_the_next_batch(
    tmp_path: Path, service: Running, wire: str, order: str
) -> None:
    answers = run(World(tmp_path, service.port, wire), [f"a {order}"], ["b"])
    assert {answer.outcome for answer in answers.values()} == {Outcome.ANSWER}
    state = service.state()
    times = int(order[-1])
    assert [len(batch["keys"]) for batch in state["batches"]] == [2] + [1] * times
    assert set(state["carried_out"].values()) == {1}
    kinds = Counter(row["kind"] for row in rows_of(tmp_path))
    assert kinds == {"answer": 2, "attempt": times}


@pytest.mark.parametrize("wire", WIRES)
def test_a_line_that_fails_in_three_batches_is_a_failed_call_and_never_an_answer(
    tmp_path: Path, service: Running, wire: str
) -> None:
    answers = run(World(tmp_path, service.port, wire), ["a !500"], ["b"])
    assert answers["a !500"].outcome is Outcome.TRANSIENT
    assert answers["a !500"].text == ""
    assert answers["b"].outcome is Outcome.ANSWER
    assert len(service.state()["batches"]) == 3
    assert [row["attempt"] for row in rows_of(tmp_path) if row["kind"] == "attempt"] == [1, 2, 3]


@pytest.mark.parametrize("wire", WIRES)
def test_an_invalid_request_among_good_ones_is_kept_as_its_result(
    tmp_path: Path, service: Running, wire: str
) -> None:
    answers = run(World(tmp_path, service.port, wire), ["a !400"], ["b"])
    assert answers["a !400"].outcome is Outcome.INVALID
    assert len(service.state()["batches"]) == 1
    run(World(tmp_path, service.port, wire), ["a !400"], ["b"])
    assert len(service.state()["batches"]) == 1


def test_a_batch_of_invalid_requests_only_stops_the_lane_and_keeps_none(
    tmp_path: Path, service: Running
) -> None:
    world = World(tmp_path, service.port)
    assert run(world, *[[f"{number} !400"] for number in range(6)]) == {}
    assert {type(error) for error in world.stopped} == {LaneStopped}
    assert world.stopped[0].outcome is Outcome.INVALID
    assert "all 6 requests of a batch were invalid" in str(world.stopped[0])
    assert {row["kind"] for row in rows_of(tmp_path)} == {"attempt"}
    assert events_of(world)[-1] == "harvested"  # the next run plans it anew


def test_a_refused_key_stops_the_lane_with_what_to_do(tmp_path: Path, service: Running) -> None:
    service.control(faults=[{"step": "upload", "status": 401, "message": "bad secret-key"}])
    world = World(tmp_path, service.port)
    assert run(world, ["a"]) == {}
    (error,) = world.stopped
    assert error.outcome is Outcome.AUTH
    assert "secret-key" not in str(error) and "[redacted]" in str(error)
    assert len(run(World(tmp_path, service.port), ["a"])) == 1  # the intent waited for this
    assert len(service.state()["batches"]) == 1


def test_a_service_that_stays_down_stops_the_lane_and_the_next_run_goes_on(
    tmp_path: Path, service: Running
) -> None:
    service.control(faults=[{"step": "create", "status": 503, "times": 8}])
    world = World(tmp_path, service.port)
    assert run(world, ["a"]) == {}
    assert "failed 8 times" in str(world.stopped[0])
    again = World(tmp_path, service.port)
    assert len(run(again, ["a"])) == 1
    state = service.state()
    assert len(state["batches"]) == 1 and state["requests"]["upload"] == 1
    assert any("waiting for 1 batches of an earlier run" in told for told in again.told)


def test_too_much_in_the_queue_is_waited_for_with_the_same_file(
    tmp_path: Path, service: Running
) -> None:
    error = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached"}
    service.control(plans=[{"end": "failed", "errors": [error]}] * 2)
    world = World(tmp_path, service.port)
    assert len(run(world, ["a"])) == 1
    state = service.state()
    assert [batch["status"] for batch in state["batches"]] == ["failed", "failed", "completed"]
    assert state["requests"]["upload"] == 1
    assert set(state["carried_out"].values()) == {1}


def test_a_file_that_the_service_rejects_stops_the_lane_with_its_words(
    tmp_path: Path, service: Running
) -> None:
    error = {"code": "model_not_found", "message": "no model m", "line": 1}
    service.control(plans=[{"end": "failed", "errors": [error]}])
    world = World(tmp_path, service.port)
    assert run(world, ["a"]) == {}
    assert "model_not_found: no model m (line 1)" in str(world.stopped[0])
    assert events_of(world)[-1] == "abandoned"


# --- limits, money, time ------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["most_requests", "most_bytes"])
def test_batches_stay_within_the_limits_of_the_service(
    tmp_path: Path, service: Running, limit: str
) -> None:
    world = World(tmp_path, service.port)
    line = len(world.service.line("0" * 64, b""))
    setattr(world.service, limit, 3 if limit == "most_requests" else 3 * (line + 110))
    assert len(run(world, *[[f"text {number:02d}"] for number in range(10)])) == 10
    state = service.state()
    assert sorted(len(batch["keys"]) for batch in state["batches"]) == [1, 3, 3, 3]
    if limit == "most_bytes":
        sizes = [file["size"] for file in state["files"] if file["purpose"] == "batch"]
        assert max(sizes) <= world.service.most_bytes


def test_many_calls_are_collected_on_disk(tmp_path: Path, service: Running) -> None:
    texts = [f"{number} " + "x" * 4000 for number in range(600)]  # 2.4 MB: spilled twice
    world = World(tmp_path, service.port)
    assert len(run(world, *[[text] for text in texts])) == 600
    (batch,) = service.state()["batches"]
    sent = {one["body"]["messages"][0]["content"] for one in batch["requests"]}
    assert sent == set(texts)


def test_the_budget_is_reserved_before_anything_is_sent(tmp_path: Path, service: Running) -> None:
    # A call is estimated at about 680 tokens in and 100 out: 0.0011 dollars.
    budget = Budget(0.005)
    world = World(tmp_path, service.port, spending=budget)
    run(world, *[[f"text {number} " + "x" * 2700] for number in range(20)])
    batches = service.state()["batches"]
    assert len(batches[0]["keys"]) == 4
    assert sum(len(batch["keys"]) for batch in batches) < 20
    assert world.stopped[0].outcome is Outcome.EXHAUSTED
    assert "raise budget_usd" in str(world.stopped[0])
    assert budget.spent_usd == pytest.approx(sum(row["usd"] for row in rows_of(tmp_path)))
    assert 0 < budget.spent_usd <= 0.005
    assert not budget.pending


def test_at_the_deadline_the_rest_is_cancelled_harvested_and_sent_online(
    tmp_path: Path, service: Running
) -> None:
    service.control(plans=[{"end": "never", "done": 2}])
    world = World(tmp_path, service.port, hours=0.2 / 3600)
    online: list[bytes] = []

    async def exchange(self: Any, body: bytes) -> Any:
        online.append(body)
        return reply()

    from leakgrid.providers.openai import ChatCompletions

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChatCompletions, "exchange", exchange)
        answers = run(world, *[[text] for text in "abcde"])
    assert len(answers) == 5
    state = service.state()
    assert [batch["status"] for batch in state["batches"]] == ["cancelled"]
    assert len(online) == 3 and sum(state["carried_out"].values()) == 2
    tiers = Counter(row["tier"] for row in rows_of(tmp_path))
    assert tiers == {"batch": 2, "online": 3}
    statistics = world.lane.statistics()
    assert (statistics.answered, statistics.sent) == (5, 8)
    batched = [row["usd"] for row in rows_of(tmp_path) if row["tier"] == "batch"]
    assert statistics.usd == pytest.approx(sum(batched) + 3 * (10 * 2 + 5 * 8) / 1e6)


def test_a_deadline_counts_from_the_first_batch_across_runs(
    tmp_path: Path, service: Running
) -> None:
    service.control(plans=[{"end": "never", "polls": 9}])
    world = World(tmp_path, service.port, hours=1.0)

    async def leave_early() -> None:
        task = asyncio.create_task(world.run([["a"]]))
        await asyncio.to_thread(
            wait_until, lambda: service.state()["requests"].get("status", 0) >= 2
        )
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave_early())
    assert events_of(world)[-1] == "created"
    late = World(tmp_path, service.port, hours=1e-9)
    with pytest.MonkeyPatch.context() as patch:
        from leakgrid.providers.openai import ChatCompletions

        async def exchange(self: Any, body: bytes) -> Any:
            return reply()

        patch.setattr(ChatCompletions, "exchange", exchange)
        assert run(late, ["a"])["a"].text == "fine"
    assert service.state()["batches"][0]["status"] == "cancelled"


def test_a_deadline_needs_somewhere_to_go(tmp_path: Path, service: Running) -> None:
    from leakgrid.batches.lane import BatchLane

    made = World(tmp_path, service.port)
    with pytest.raises(ValueError, match="online lane"):
        BatchLane(
            "m", folder=tmp_path, job="j", service=made.service, provider=None, hours=1.0,  # type: ignore[arg-type]
        )  # fmt: skip


def test_two_runs_cannot_hold_one_book(tmp_path: Path, service: Running) -> None:
    from leakgrid.batches.book import Book

    held = Book(tmp_path / "batches" / "m")
    with pytest.raises(BaseExceptionGroup) as caught:
        run(World(tmp_path, service.port), ["a"])
    held.close()
    assert caught.group_contains(InputError, match="another run")
