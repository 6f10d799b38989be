"""Lanes in virtual time: what each outcome leads to, and that quotas are kept and used."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from leakgrid.jobs.budget import Budget
from leakgrid.lanes.lane import Lane
from leakgrid.lanes.limit import Limit
from leakgrid.lanes.values import Attempt, Parcel, Quota
from leakgrid.outcomes import KEPT, LaneStopped, Outcome
from leakgrid.types import Price
from tests.fakes import Scripted, error, reply
from tests.virtual_time import run

# Thousands of calls are made at one moment, by the tests themselves.
pytestmark = pytest.mark.may_block


class Bench:
    """A lane over a scripted provider, and what it did."""

    def __init__(self, lane: Lane, provider: Scripted, failed: list[Attempt]) -> None:
        self.lane = lane
        self.provider = provider
        self.failed = failed

    async def send(self, **parcel: Any) -> Attempt:
        return await self.lane.send(Parcel(self.provider, b"x" * 400, "assistant", **parcel))

    async def send_many(self, count: int, **parcel: Any) -> list[Attempt | BaseException]:
        sending = (self.send(**parcel) for _ in range(count))
        return await asyncio.gather(*sending, return_exceptions=True)


def on_lane(
    behaviour: Any, steps: Callable[[Bench], Awaitable[Any]], **options: Any
) -> tuple[Any, Bench, float]:
    """Run ``steps`` on a new lane; gives its result, the bench, and the virtual seconds taken."""

    async def main() -> tuple[Any, Bench, float]:
        provider = Scripted(behaviour)
        failed: list[Attempt] = []
        options.setdefault("quota", Quota())
        lane = Lane("lane", on_failed=lambda _, __, attempt: failed.append(attempt), **options)
        bench = Bench(lane, provider, failed)
        began = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            dispatcher = group.create_task(lane.dispatch())
            result = await steps(bench)
            dispatcher.cancel()
        return result, bench, asyncio.get_running_loop().time() - began

    return run(main())


def always(exchange: Any) -> Any:
    return lambda number, now: exchange


def one(bench: Bench) -> Awaitable[Attempt]:
    return bench.send()


ERRORS = {
    "connection lost": (reply(0, b"", fault="reset"), Outcome.TRANSIENT, 5),
    "408": (error(408), Outcome.TRANSIENT, 5),
    "409": (error(409), Outcome.TRANSIENT, 5),
    "500": (error(500), Outcome.TRANSIENT, 5),
    "502": (error(502), Outcome.TRANSIENT, 5),
    "504": (error(504), Outcome.TRANSIENT, 5),
    "503": (error(503), Outcome.OVERLOAD, 20),
    "529": (error(529), Outcome.OVERLOAD, 20),
    "200 with a broken body": (reply(200, b'{"choices": ['), Outcome.MALFORMED, 2),
    "200 with another body": (reply(200, b"{}"), Outcome.MALFORMED, 2),
    "an unlisted status": (error(418), Outcome.UNKNOWN, 2),
    "400": (error(400), Outcome.INVALID, 1),
    "404": (error(404), Outcome.INVALID, 1),
    "413": (error(413), Outcome.INVALID, 1),
    "422": (error(422), Outcome.INVALID, 1),
    "429 for a request that can never fit": (
        error(429, "rate_limit_exceeded", "Request too large for m"), Outcome.INVALID, 1,
    ),
    "400 by a content filter": (error(400, "content_filter"), Outcome.REFUSAL, 1),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_each_outcome_is_tried_as_often_as_the_table_says(case: str) -> None:
    exchange, outcome, attempts = ERRORS[case]
    attempt, bench, _ = on_lane(always(exchange), one)
    assert (attempt.reading.outcome, len(bench.provider.times)) == (outcome, attempts)
    # Every failed attempt is reported, kept outcomes are not.
    assert len(bench.failed) == (0 if outcome in KEPT else attempts)
    assert bench.lane.statistics().in_flight == 0


@pytest.mark.parametrize(
    ("exchange", "outcome"),
    [
        (error(401, "invalid_api_key"), Outcome.AUTH),
        (error(403), Outcome.AUTH),
        (error(402), Outcome.EXHAUSTED),
        (error(429, "insufficient_quota"), Outcome.EXHAUSTED),
    ],
)
def test_auth_and_exhausted_stop_the_lane_at_the_first_answer(
    exchange: Any, outcome: Outcome
) -> None:
    results, bench, _ = on_lane(always(exchange), lambda bench: bench.send_many(500))
    assert all(isinstance(result, LaneStopped) for result in results)
    assert {result.outcome for result in results} == {outcome}
    assert len(bench.provider.times) <= 5


def test_five_invalid_answers_with_no_success_stop_the_lane() -> None:
    results, bench, _ = on_lane(
        always(error(404, "model_not_found", "no such model")),
        lambda bench: bench.send_many(20_000),
    )
    assert len(bench.provider.times) == 5
    stops = [result for result in results if isinstance(result, LaneStopped)]
    assert len(stops) == 19_995
    assert "model_not_found" in str(stops[0])


def test_invalid_answers_after_a_success_do_not_stop_the_lane() -> None:
    def behaviour(number: int, now: float) -> Any:
        return reply() if number == 0 else error(400)

    async def steps(bench: Bench) -> list[Attempt | BaseException]:
        await bench.send()
        return await bench.send_many(50)

    results, _, _ = on_lane(behaviour, steps)
    assert {result.reading.outcome for result in results} == {Outcome.INVALID}


def test_a_temperature_that_a_model_refuses_stops_the_lane_whatever_else_succeeds() -> None:
    refused = error(400, "unsupported_value", "Unsupported value: 'temperature' does not support 0")

    def behaviour(number: int, now: float) -> Any:
        return reply() if number % 2 == 0 else refused

    async def steps(bench: Bench) -> list[Any]:
        found: list[Any] = []
        for _ in range(20):
            found += await asyncio.gather(bench.send(), return_exceptions=True)
        return found

    results, bench, _ = on_lane(behaviour, steps)
    assert len(bench.provider.times) == 10
    stops = [result for result in results if isinstance(result, LaneStopped)]
    assert len(stops) == 10
    assert "temperature = 1" in str(stops[0])


def test_a_quota_answer_gates_the_lane_and_costs_no_attempt() -> None:
    def behaviour(number: int, now: float) -> Any:
        return error(429, headers={"retry-after": "30"}) if now < 1029 else reply(seconds=1.0)

    attempt, bench, seconds = on_lane(behaviour, one)
    assert attempt.reading.outcome is Outcome.ANSWER
    # Sent once, gated for exactly what the server asked, sent again.
    assert len(bench.provider.times) == 2
    assert seconds == pytest.approx(1 + 30 + 1, abs=0.01)


def test_many_quota_answers_in_a_row_still_end_in_an_answer() -> None:
    def behaviour(number: int, now: float) -> Any:
        return error(429, headers={"retry-after-ms": "100"}) if number < 40 else reply()

    attempt, bench, _ = on_lane(behaviour, one)
    assert attempt.reading.outcome is Outcome.ANSWER
    assert len(bench.failed) == 40


def test_a_gated_call_goes_before_those_that_waited() -> None:
    order: list[int] = []

    def behaviour(number: int, now: float) -> Any:
        return error(429, headers={"retry-after": "5"}) if number == 0 else reply()

    async def steps(bench: Bench) -> None:
        async def numbered(number: int) -> None:
            await bench.send()
            order.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(numbered(number))

    on_lane(behaviour, steps, quota=Quota(concurrency=1))
    assert order == [0, 1, 2, 3]


def test_one_gated_lane_does_not_slow_another() -> None:
    async def main() -> float:
        gated = Lane("gated", quota=Quota())
        free = Lane("free", quota=Quota(concurrency=10))
        closed = Scripted(
            lambda number, now: error(429, headers={"retry-after": "60"}) if now < 1060 else reply()
        )
        open_ = Scripted(always(reply(seconds=1.0)))
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(lane.dispatch()) for lane in (gated, free)]
            began = asyncio.get_running_loop().time()
            waiting = [group.create_task(gated.send(Parcel(closed, b"x"))) for _ in range(50)]
            await asyncio.gather(*(free.send(Parcel(open_, b"x")) for _ in range(300)))
            took = asyncio.get_running_loop().time() - began
            await asyncio.gather(*waiting)
            for helper in helpers:
                helper.cancel()
        return took

    # 300 calls of a second, ten at once (five until the first success).
    assert run(main()) <= 31.1


def test_waiting_for_a_retry_holds_no_slot() -> None:
    def behaviour(number: int, now: float) -> Any:
        return error(500) if number == 0 else reply(seconds=0.001)

    _, bench, _ = on_lane(
        behaviour, lambda bench: bench.send_many(100), quota=Quota(concurrency=1), patience=1000
    )
    times = sorted(bench.provider.times)
    # All but the one that failed are through long before it is tried again.
    assert times[99] < 1003
    assert times[100] > 1100


@pytest.mark.parametrize("patience", [1.0, 0.02])
@pytest.mark.parametrize("case", ["500", "503"])
def test_a_failed_call_waits_by_the_bounds_and_no_two_calls_alike(
    case: str, patience: float
) -> None:
    _, bench, _ = on_lane(always(ERRORS[case][0]), one, patience=patience)
    _, other, _ = on_lane(always(ERRORS[case][0]), one, patience=patience)
    times = bench.provider.times
    waits = [later - earlier - 1.0 for earlier, later in itertools.pairwise(times)]
    assert len(waits) == ERRORS[case][2] - 1
    assert all(0.25 <= wait / patience + 1e-6 and wait <= 30 * patience + 1e-6 for wait in waits)
    assert len({round(wait, 6) for wait in waits}) > 2
    assert times != other.provider.times


def test_a_server_that_asks_for_a_longer_wait_gets_it() -> None:
    busy = error(503, headers={"retry-after": "45"})

    def behaviour(number: int, now: float) -> Any:
        return busy if number == 0 else reply()

    _, bench, _ = on_lane(behaviour, one)
    first, second = bench.provider.times
    assert second - first == pytest.approx(1 + 45)


def test_requests_per_minute_are_kept_and_used() -> None:
    _, bench, seconds = on_lane(
        always(reply(seconds=2.0)),
        lambda bench: bench.send_many(1200),
        quota=Quota(rpm=600, burst_s=10),
    )
    times = bench.provider.times
    for start in range(0, 1200 - 100):
        # In any span the burst and the refill are the most that may go.
        span = times[start + 100] - times[start]
        assert span >= (101 - 100 - 1) / 10
    within_minute = sum(1 for moment in times if moment < 1000 + 60)
    assert within_minute <= 600 + 100
    assert seconds <= (1200 - 100) / 10 * 1.03 + 2


def test_tokens_per_minute_are_used_after_learning_what_calls_cost() -> None:
    # 15 tokens a call in truth; before it is learned a call reserves 120 + 512.
    _, _, seconds = on_lane(
        always(reply(seconds=1.0)),
        lambda bench: bench.send_many(4000),
        quota=Quota(tpm=15 * 600, burst_s=10),
    )
    ideal = (4000 - 100) / 10
    assert seconds <= ideal * 1.05


def test_quota_headers_teach_a_lane_that_was_told_nothing() -> None:
    level, at = 100.0, 1000.0

    def behaviour(number: int, now: float) -> Any:
        nonlocal level, at
        level, at = min(100.0, level + (now - at) * 10), now
        headers = {"x-ratelimit-limit-requests": "600"}
        if level < 1:
            return error(429, headers={**headers, "retry-after-ms": "100"}, seconds=0.01)
        level -= 1
        headers["x-ratelimit-remaining-requests"] = str(int(level))
        return reply(headers=headers, seconds=0.5)

    _, bench, seconds = on_lane(behaviour, lambda bench: bench.send_many(2000))
    assert len(bench.provider.times) - 2000 < 20
    assert seconds <= 1900 / 10 * 1.03


def test_a_lane_without_quota_grows_while_growing_pays() -> None:
    async def steps(bench: Bench) -> None:
        await bench.send_many(20_000)

    _, bench, seconds = on_lane(always(reply(seconds=1.0)), steps)
    assert bench.provider.most_in_flight > 500
    assert seconds < 20_000 / 1000 * 2.5


def test_a_lane_whose_server_saturates_stops_growing() -> None:
    """A server that does 50 calls at once: more in flight only makes each slower."""

    class Saturating(Scripted):
        async def exchange(self, body: bytes) -> Any:
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            seconds = max(1.0, self.in_flight / 50)
            await asyncio.sleep(seconds)
            self.in_flight -= 1
            return reply(seconds=seconds)

    async def main() -> int:
        lane, provider = Lane("lane", quota=Quota()), Saturating(always(reply()))
        async with asyncio.TaskGroup() as group:
            dispatcher = group.create_task(lane.dispatch())
            await asyncio.gather(*(lane.send(Parcel(provider, b"x")) for _ in range(10_000)))
            dispatcher.cancel()
        return lane.statistics().limit

    assert 40 <= run(main()) <= 300


def test_overload_cuts_the_limit_once_for_a_burst_and_growth_goes_on() -> None:
    limit = Limit(100, 1000, 0.0)
    for moment in range(50):
        limit.overloaded(10 + moment / 100)
    assert limit.allowed == 80
    limit.overloaded(12.0)
    assert limit.allowed == 64
    # Growing has a clock of its own: a cut does not freeze it (inspect_ai#5137).
    now = 12.0
    for _ in range(400):
        now += 0.01
        limit.saturated()
        limit.completed(0.05, now)
    assert limit.allowed > 64


def test_a_lane_that_is_not_saturated_does_not_grow() -> None:
    limit = Limit(10, 1000, 0.0)
    for step in range(1000):
        limit.completed(0.05, step / 100)
    assert limit.allowed == 10


def test_a_call_of_a_cell_under_way_passes_one_that_waits_for_its_tokens() -> None:
    # 100 tokens a second, 1000 at once; a call's body counts 120. The first leaves 180.
    async def steps(bench: Bench) -> list[str]:
        went: list[str] = []

        async def send(name: str, **parcel: Any) -> None:
            await bench.send(**parcel)
            went.append(f"{name} {asyncio.get_running_loop().time() - began:.0f}")

        began = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            group.create_task(send("first", most_output=700, place=1))
            await asyncio.sleep(0)
            group.create_task(send("large", most_output=800, place=3))
            await asyncio.sleep(1.0)
            group.create_task(send("small", most_output=10, place=2))
        return went

    went, _, _ = on_lane(always(reply(seconds=100.0)), steps, quota=Quota(tpm=6000))
    # The large one waits for what the small one took, too.
    assert went == ["first 100", "small 101", "large 109"]


def test_a_lane_whose_last_call_in_flight_is_told_to_wait_goes_on_afterwards() -> None:
    """The head of the queue has no place under the limit; then nobody is left who could return."""

    def behaviour(number: int, now: float) -> Any:
        wait = {"retry-after-ms": "500"}
        if number < 2:
            return error(429, headers=wait, seconds=1.0 + number)
        return reply(seconds=0.1)

    async def steps(bench: Bench) -> list[Attempt | BaseException]:
        bench.lane.steer(2)
        async with asyncio.TaskGroup() as group, asyncio.timeout(60):
            calls = group.create_task(bench.send_many(3))
            await asyncio.sleep(0.5)
            bench.lane.steer(1)
            return await calls

    answers, _, _ = on_lane(behaviour, steps)
    assert [answer.reading.outcome for answer in answers] == [Outcome.ANSWER] * 3


def test_a_call_that_finds_the_budget_spent_is_told_at_once() -> None:
    async def main() -> int:
        provider = Scripted(always(reply()))
        lane = Lane("lane", quota=Quota(), price=Price(1.0, 2.0), spending=Budget(0.0))
        with pytest.raises(LaneStopped, match="budget"):  # with no dispatcher to tell it
            await lane.send(Parcel(provider, b"x"))
        return len(provider.times)

    assert run(main()) == 0


def test_the_budget_is_reserved_before_sending() -> None:
    # A call costs 10 x 1 + 5 x 2 dollars a million; the budget is worth 50 calls.
    price = Price(1.0, 2.0)
    budget = Budget(50 * 20e-6)
    results, bench, _ = on_lane(
        always(reply(seconds=1.0)),
        lambda bench: bench.send_many(500, most_output=16),
        price=price,
        spending=budget,
    )
    assert budget.spent_usd <= 50 * 20e-6 + 1e-12
    assert budget.spent_usd == pytest.approx(20e-6 * len(bench.provider.times))
    stops = [result for result in results if isinstance(result, LaneStopped)]
    assert stops and "budget" in str(stops[0])
    # Reservations come down to the learned cost, so little of the budget is left unused.
    assert len(bench.provider.times) >= 20


def test_failed_attempts_that_may_have_been_charged_count_against_the_budget() -> None:
    budget = Budget(1.0)
    attempt, _, _ = on_lane(always(reply(200, b"{}")), one, price=Price(1.0, 2.0), spending=budget)
    assert attempt.reading.outcome is Outcome.MALFORMED
    assert budget.spent_usd > 0
    assert not budget.pending


def test_a_cancelled_call_gives_its_slot_back() -> None:
    async def steps(bench: Bench) -> Any:
        first = asyncio.ensure_future(bench.send())
        second = asyncio.ensure_future(bench.send())
        await asyncio.sleep(0.5)
        first.cancel()
        return await second

    attempt, bench, _ = on_lane(always(reply(seconds=1.0)), steps, quota=Quota(concurrency=1))
    assert attempt.reading.outcome is Outcome.ANSWER
    assert bench.lane.statistics().in_flight == 0


def test_a_call_cancelled_in_the_queue_leaves_it() -> None:
    async def steps(bench: Bench) -> int:
        first = asyncio.ensure_future(bench.send())
        second = asyncio.ensure_future(bench.send())
        await asyncio.sleep(0.5)
        second.cancel()
        await first
        return bench.lane.statistics().waiting

    waiting, bench, _ = on_lane(always(reply(seconds=1.0)), steps, quota=Quota(concurrency=1))
    assert waiting == 0
    assert len(bench.provider.times) == 1


def test_stopping_lets_calls_in_flight_finish() -> None:
    async def steps(bench: Bench) -> list[Any]:
        sending = [asyncio.ensure_future(bench.send()) for _ in range(20)]
        await asyncio.sleep(0.5)
        bench.lane.stop(LaneStopped("lane", Outcome.TRANSIENT, "interrupted"))
        return await asyncio.gather(*sending, return_exceptions=True)

    results, _, _ = on_lane(always(reply(seconds=1.0)), steps, quota=Quota(concurrency=5))
    assert [isinstance(result, Attempt) for result in results] == [True] * 5 + [False] * 15


def test_a_lane_whose_every_call_fails_stops_and_says_that_the_server_is_down() -> None:
    results, _, _ = on_lane(
        always(reply(0, b"", fault="connection refused")), lambda bench: bench.send_many(500)
    )
    stops = [result for result in results if isinstance(result, LaneStopped)]
    assert 450 < len(stops) < 500
    assert "the server seems to be down (connection refused)" in str(stops[0])


def test_failures_between_successes_do_not_stop_a_lane() -> None:
    def behaviour(number: int, now: float) -> Any:
        return reply() if number % 7 == 0 else error(500)

    results, bench, _ = on_lane(behaviour, lambda bench: bench.send_many(200))
    assert bench.lane.stopped is None
    assert not any(isinstance(result, LaneStopped) for result in results)


def test_what_a_lane_learned_starts_the_next_run() -> None:
    _, bench, _ = on_lane(always(reply(seconds=1.0)), lambda bench: bench.send_many(5000))
    memory = bench.lane.remember()

    async def first_second(again: Bench) -> int:
        sending = asyncio.ensure_future(again.send_many(5000))
        await asyncio.sleep(0.5)
        count = again.provider.in_flight
        await sending
        return count

    count, _, _ = on_lane(always(reply(seconds=1.0)), first_second, memory=memory)
    assert count > 300
