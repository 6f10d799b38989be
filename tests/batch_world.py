"""Cells that ask batch lanes, driven over the stand-in service: for tests and for a subprocess.

    python -m tests.batch_world SPEC      one life for each step at which a process can be killed

The spec (JSON) names the service's port, a folder, the wire (openai or gemini), the cells, the
service's plans, and whether to kill ``twice``. Steps are counted before each of the service's
requests and each answer kept, and on both sides of the book's events. A life is a forked process
that kills itself at one step, and processes after it that go on until all is done.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import random
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from leakgrid.batches.book import Book
from leakgrid.batches.course import Pace
from leakgrid.batches.drive import Batches
from leakgrid.batches.harvest import Kept
from leakgrid.batches.lane import BatchLane
from leakgrid.batches.service import Service
from leakgrid.cache.answers import AnswerCache
from leakgrid.jobs.asking import Asker, Route
from leakgrid.lanes.lane import Lane
from leakgrid.lanes.values import Quota, Spending
from leakgrid.outcomes import LaneStopped, Parked
from leakgrid.providers.google import GenerateContent
from leakgrid.providers.openai import ChatCompletions
from leakgrid.types import Answer, Call, Message, Price
from tests.batch_service import Running

QUICK = Pace(
    first_s=0.01, longest_s=0.02, settle_s=0.01, queue_s=0.01, retry_s=0.01, cancel_s=5.0,
    files_s=0.5,
)  # fmt: skip
ONLINE = Price(2.0, 8.0)
BATCH = Price(1.0, 4.0)
MODEL = "gemini-x"
WARM = ("openai", "google.genai")


def service_of(wire: str, port: int, key: str = "secret-key") -> Service:
    """The real SDK pointed at the stand-in."""
    if wire == "openai":
        from leakgrid.providers.batch_openai import OpenAIBatches

        return OpenAIBatches(family="chat", base_url=f"http://127.0.0.1:{port}/v1", key=key)
    from leakgrid.providers.batch_google import GeminiBatches

    return GeminiBatches(model=MODEL, base_url=f"http://127.0.0.1:{port}/v1beta", key=key)


async def drive(
    lanes: Sequence[BatchLane],
    walk: Callable[[], Awaitable[int]],
    *,
    cache: Kept,
    run: str,
) -> None:
    """Walk until no cell is parked.

    ``walk`` runs every open cell once and returns how many were parked; it is called again
    whenever a lane has brought in all that it had out, while other lanes may still wait.
    Cancelled, it leaves at once. What goes wrong comes in an ExceptionGroup.
    """
    batches, finished = Batches(lanes), False
    async with asyncio.TaskGroup() as group:
        try:
            await batches.begin(group, cache, run)
            while parked := await walk():
                await batches.submit()
                await batches.wait(parked)
            finished = True
        finally:
            await batches.rest(finished=finished)


class World:
    """One run: ``cells`` are lists of texts, asked one after the other; ``told`` what is said."""

    def __init__(
        self,
        folder: Path,
        port: int,
        wire: str = "openai",
        *,
        service: Service | None = None,
        hours: float | None = None,
        spending: Spending | None = None,
        online: Callable[[], Lane] | None = None,
    ) -> None:
        self.folder, self.port, self.wire = folder, port, wire
        self.service = service or service_of(wire, port)
        self.hours, self.spending, self.online = hours, spending, online
        self.told: list[str] = []
        self.walks = 0
        self.answers: dict[str, Answer] = {}
        self.stopped: list[LaneStopped] = []
        self.lane: BatchLane

    async def run(self, cells: Iterable[list[str]]) -> dict[str, Answer]:
        """The answers of all cells that could finish, by text."""
        open_cells = list(cells)
        async with AnswerCache(self.folder) as cache, aiohttp.ClientSession() as session:
            provider = self._provider(session)
            online = None
            if self.hours is not None:
                online = self.online() if self.online else Lane("m", quota=Quota(), price=ONLINE)
            self.lane = BatchLane(
                "m",
                folder=self.folder / "batches" / "m",
                job="job",
                service=self.service,
                provider=provider,
                price=BATCH,
                online=online,
                spending=self.spending,
                hours=self.hours,
                pace=QUICK,
                told=self.told.append,
            )
            route: Any = Route(provider, self.lane)
            asker = Asker({"m": route}, cache, job="job", run="run")

            async def walk() -> int:
                self.walks += 1
                results = await asyncio.gather(*(self._cell(asker, cell) for cell in open_cells))
                open_cells[:] = [
                    cell for cell, left in zip(open_cells, results, strict=True) if left
                ]
                return len(open_cells)

            async with asyncio.TaskGroup() as group:
                serving = group.create_task(self.lane.dispatch())
                try:
                    await drive([self.lane], walk, cache=cache, run="run")
                finally:
                    serving.cancel()
        return self.answers

    async def _cell(self, asker: Asker, cell: list[str]) -> bool:
        """Whether the cell is parked."""
        try:
            for text in cell:
                call = Call(model="m", messages=(Message("user", text),))
                self.answers[text] = await asker.ask(call)
        except Parked:
            return True
        except LaneStopped as error:
            self.stopped.append(error)
        return False

    def _provider(self, session: aiohttp.ClientSession) -> Any:
        common: dict[str, Any] = {
            "name": "m", "session": session, "identity": "", "params": {"max_tokens": 100},
            "key": "secret-key",
        }  # fmt: skip
        if self.wire == "openai":
            url = f"http://127.0.0.1:{self.port}/v1"
            return ChatCompletions(kind="openai", model="m", base_url=url, **common)
        url = f"http://127.0.0.1:{self.port}/v1beta"
        return GenerateContent(kind="gemini", model=MODEL, base_url=url, **common)


STEPS = ("find_file", "upload", "create", "find", "status", "cancel", "results")


def deadly(service: Service, die: int) -> None:
    """Kill this process at step ``die``: before a request or an answer kept, around an event."""
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        if count == die:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(function: Callable[..., Any], *, after: bool = False) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            step()
            result = function(*args, **options)
            if after:
                step()
            return result

        return wrapped

    for name in STEPS:
        setattr(service, name, around(getattr(service, name)))
    Book.note = around(Book.note, after=True)  # type: ignore[method-assign]
    Book.intend = around(Book.intend)  # type: ignore[method-assign]
    AnswerCache.keep = around(AnswerCache.keep)  # type: ignore[method-assign]


def once(spec: dict[str, Any], folder: Path, die: int) -> int:
    """One run in a forked process; its exit status, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            service = service_of(spec["wire"], spec["port"])
            deadly(service, die)
            world = World(folder, spec["port"], spec["wire"], service=service)
            answers = asyncio.run(world.run(spec["cells"]))
            wanted = {text for cell in spec["cells"] for text in cell}
            code = 0 if answers.keys() == wanted else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def main() -> None:
    """A life for each step at which a process can be killed; one JSON line for each."""
    spec = json.loads(sys.argv[1])
    service = Running(spec["port"])
    moments = random.Random(spec["seed"])
    for wire in WARM:  # so that children need not import them again
        importlib.import_module(wire)
    die, killed = 0, True
    while killed:
        die += 1
        service.control(reset=True)
        service.control(plans=spec["plans"])
        folder = Path(spec["folder"]) / str(die)
        codes = [once(spec, folder, die)]
        killed = codes[0] == -signal.SIGKILL
        if killed and spec["twice"]:
            codes.append(once(spec, folder, moments.randrange(1, 30)))
        while codes[-1] == -signal.SIGKILL:
            codes.append(once(spec, folder, 0))
        print(json.dumps({"die": die, "codes": codes, "state": service.state()}), flush=True)


if __name__ == "__main__":
    main()
