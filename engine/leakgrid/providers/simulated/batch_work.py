"""The course of a simulated batch: checked when made, carried out when somebody looks and it is
time. So a batch goes on while its server is down, as those of a provider do.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from leakgrid.providers.simulated.batch_faults import Orders
from leakgrid.providers.simulated.batch_lines import LINES, Lines, failure
from leakgrid.providers.simulated.batch_store import OPENAI_CHAT, Batch, File, Store, new_id

Answerer = Callable[[bytes], tuple[int, str, bytes]]
"""From a chat completion to its status, its request id and its body."""

LINES_AT_ONCE = 50
"""So many lines are read before other requests have their turn."""

STRANGE = "0" * 64
NO_REQUEST = "req_simulated"
_NO_BODY = (KeyError, TypeError, ValueError, AttributeError)


class Work:
    """Makes and ends batches; ``carried_out`` counts answers by custom_id."""

    def __init__(self, store: Store, orders: Orders, answer: Answerer, turnaround_s: float) -> None:
        self.carried_out: Counter[str] = Counter()
        self._store, self._orders, self._answer = store, orders, answer
        self._turnaround_s = turnaround_s
        self._locks: dict[str, asyncio.Lock] = {}

    def forget(self) -> None:
        """Begin anew."""
        self.carried_out.clear()
        self._locks.clear()

    # --- making -------------------------------------------------------------------------------

    async def make(self, file: File, endpoint: str, **told: Any) -> Batch:
        """A new batch over a file; FAILED at once when the file is not as it should be."""
        total, mistakes = await self._checked(file, endpoint)
        # In one piece from here on: a client that is killed has made a batch or none.
        batch = Batch(
            id=new_id("batch"),
            file=file.id,
            endpoint=endpoint,
            total=total,
            created=time.time(),
            plan=self._orders.plan(file.sha256, total),
            **told,
        )
        if mistakes:
            batch.plan.end, batch.plan.errors = "failed", mistakes
        if batch.plan.end == "failed":
            batch.status = "failed"
        return self._store.save(batch)

    def requests(self, file: File) -> Iterator[bytes]:
        """The lines of an input file that are not blank."""
        with self._store.data(file).open("rb") as lines:
            yield from (line for line in lines if line.strip())

    async def _checked(self, file: File, endpoint: str) -> tuple[int, list[dict[str, Any]]]:
        """How many requests a file holds, and what is wrong with the first that is wrong."""
        lines, seen, total = LINES[endpoint], set[str](), 0
        for line in self.requests(file):
            total += 1
            code = _mistake(lines, line, endpoint, seen)
            if code:
                return total, [{"code": code, "message": "Cannot be used.", "line": total}]
            if total % LINES_AT_ONCE == 0:
                await asyncio.sleep(0)
        empty = {"code": "empty_file", "message": "There is no line.", "line": None}
        return total, [] if total else [empty]

    # --- ending -------------------------------------------------------------------------------

    def cancel(self, batch: Batch) -> None:
        """Stop it at the next look, where it still runs."""
        if batch.status == "in_progress":
            over = time.time() - batch.created
            batch.share = min(1.0, over / self._turnaround_s) if self._turnaround_s else 1.0
            batch.status = "cancelling"
            self._store.save(batch)

    def hasten(self, polls: int) -> None:
        """Let every batch end after so many looks, whatever was planned."""
        for batch in self._store.batches.values():
            batch.plan.polls, batch.plan.end = polls, "completed"

    async def look(self, batch: Batch) -> str:
        """The status to tell. Whoever looks when it is time has the batch carried out."""
        # The requests of a client that is killed in this moment are carried out all the same.
        return await asyncio.shield(self._look(batch))

    async def _look(self, batch: Batch) -> str:
        async with self._locks.setdefault(batch.id, asyncio.Lock()):
            plan = batch.plan
            if batch.status == "cancelling":
                share = 0.0 if plan.end == "never" else batch.share
                done = int(share * batch.total) if plan.done is None else plan.done
                await self._finish(batch, "cancelled", done)
            elif batch.status == "in_progress" and self._due(batch) and plan.end != "never":
                if plan.early:
                    plan.early = False
                    self._store.save(batch)
                    return "completed"
                done = batch.total if plan.done is None else plan.done
                await self._finish(batch, plan.end, done)
            return batch.status

    def _due(self, batch: Batch) -> bool:
        if batch.plan.polls is None:
            return time.time() >= batch.created + self._turnaround_s
        batch.plan.polls -= 1
        return batch.plan.polls <= 0

    async def _finish(self, batch: Batch, status: str, done: int) -> None:
        """Carry out the first ``done`` requests, write what came of them, and end the batch."""
        lines = LINES[batch.endpoint]
        output, error = self._store.draft(), self._store.draft()
        wrote_output = wrote_error = False
        last = b""
        try:
            file = self._store.files[batch.file]
            for number, line in enumerate(self.requests(file)):
                told = orjson.loads(line)
                if number < done:
                    good, bad = self._carried_out(lines, told, batch)
                else:
                    undone = lines.undone(told[lines.key], status)
                    good, bad = [], [undone] if undone else []
                for last in good:
                    output.write(last + b"\n")
                    wrote_output = True
                for one in bad:
                    error.write(one + b"\n")
                    wrote_error = True
                if number % LINES_AT_ONCE == 0:
                    await asyncio.sleep(0)
            for number in range(batch.plan.strange):
                last = lines.answer(f"{number:064d}", 500, NO_REQUEST, failure(500))
                output.write(last + b"\n")
                wrote_output = True
            if wrote_output or not wrote_error:  # what is complete names a file, be it empty
                if batch.plan.torn and last:
                    output.cut(len(last) // 2 + 1)
                batch.output = output.finish("output.jsonl", "batch_output").id
            if wrote_error:
                batch.error = error.finish("error.jsonl", "batch_output").id
        finally:
            output.drop()
            error.drop()
        batch.status = status
        self._store.save(batch)

    def _carried_out(
        self, lines: Lines, told: Mapping[str, Any], batch: Batch
    ) -> tuple[list[bytes], list[bytes]]:
        """Lines of the output file and of the error file that come of one request."""
        name = str(told[lines.key])
        try:
            body = lines.asked(told, batch)
        except _NO_BODY:
            return self._failed(lines, name, 400)
        fault = self._orders.line(name, body)
        if fault == "line_missing":
            return [], []
        number = fault.removeprefix("line_")
        if number.isdigit():
            return self._failed(lines, name, int(number))
        status, request, answer = self._answer(body)
        if status != 200:
            return self._placed(lines, lines.answer(name, status, request, answer))
        self.carried_out[name] += 1
        good = lines.answer(name, status, request, answer)
        if fault == "line_repeated":
            failed = lines.answer(name, 500, request, failure(500))
            return [failed, good, good], []
        if fault == "line_strange":
            return [good, lines.answer(STRANGE, status, request, answer)], []
        if fault == "line_wrong_id":
            return [lines.answer(STRANGE, status, request, answer)], []
        if fault == "line_no_id":
            return [lines.answer(None, status, request, answer)], []
        return [good[: len(good) // 2] if fault == "line_torn" else good], []

    def _failed(self, lines: Lines, name: str, status: int) -> tuple[list[bytes], list[bytes]]:
        return self._placed(lines, lines.answer(name, status, NO_REQUEST, failure(status)))

    def _placed(self, lines: Lines, line: bytes) -> tuple[list[bytes], list[bytes]]:
        """OpenAI has failed requests in a file of their own, Google among the others."""
        return ([], [line]) if lines is LINES[OPENAI_CHAT] else ([line], [])


def _mistake(lines: Lines, line: bytes, endpoint: str, seen: set[str]) -> str:
    """The code of what is wrong with an input line, or nothing."""
    try:
        told = orjson.loads(line)
    except orjson.JSONDecodeError:
        return "invalid_json_line"
    name = told.get(lines.key) if isinstance(told, dict) else None
    if not isinstance(name, str) or not name:
        return f"missing_{lines.key}"
    if name in seen:
        return f"duplicate_{lines.key}"
    seen.add(name)
    return lines.fits(told, endpoint)
