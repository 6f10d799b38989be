"""The vLLM servers of a run that share this machine's GPUs: started, changed over, stopped.

Not all models of a job fit on its GPUs. A lane whose model is not loaded is closed, so that its
calls park their cells; when a walk over the cells has ended, the next shift of models is loaded
and the cells are walked again, from kept answers up to where they parked (see ``shifts.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from leakgrid.jobs.chat_templates import warnings
from leakgrid.jobs.models import ModelSpec, vllm_config
from leakgrid.jobs.names import as_file
from leakgrid.jobs.shifts import Shares, fits, needed, shifts
from leakgrid.jobs.watched import watch
from leakgrid.lanes.lane import Lane
from leakgrid.outcomes import JobError, LeakgridError, ServerDown
from leakgrid.providers.servers import Server, write_config
from leakgrid.providers.vllm_config import SAYS, VISIBLE, gpus_of
from leakgrid.providers.vllm_identity import facts, remember, remembered, version_of

if TYPE_CHECKING:
    import aiohttp

    from leakgrid.jobs.plan import Plan

IDENTITIES = Path("servers") / "vllm-identities.json"
START_SECONDS, END_SECONDS = 7200.0, 60.0

Opened: TypeAlias = Callable[[ModelSpec, str, Mapping[str, Any], asyncio.Event], None]


class IdentityChanged(LeakgridError):
    """A server is not the one that the plan took it for; what it is now is noted."""


@dataclass(slots=True)
class Seat:
    """One server's place: its models, its lane, and the process while it is up.

    ``shares`` say what it takes of each GPU's memory.
    """

    name: str
    specs: list[ModelSpec]
    lane: Lane
    shares: Mapping[str, float]
    up: contextlib.AsyncExitStack | None = None
    loads: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    watch: asyncio.Task[None] | None = None
    steer: asyncio.Task[None] | None = None


@dataclass(slots=True)
class Gpu:
    """All seats. ``opened`` is told at which URL a model is served from now on, with the

    server's facts and the event of its death. ``columns`` are (the seat that cells ask first, all
    seats that they ask).
    """

    seats: Mapping[str, Seat]
    order: Sequence[frozenset[str]]
    columns: Sequence[tuple[str, frozenset[str]]]
    cache: Path
    job: str
    identities: Mapping[str, str]
    session: aiohttp.ClientSession
    opened: Opened
    tell: Callable[[str], None]
    _group: asyncio.TaskGroup | None = field(default=None)
    _place: int = -1
    _idle: int = 0
    _noting: asyncio.Lock = field(default_factory=asyncio.Lock)

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
            await self._change(self.order[0], self.order[0])

    async def advance(self, parked: Mapping[str, int], *, stuck: bool) -> None:
        """Load what parked calls wait for in this shift, or else the next one, round and round.

        Of a shift only what is needed: in a run that is taken up again some models have said all.
        """
        self._idle = self._idle + 1 if stuck else 0
        wanted = {name for name, seat in self.seats.items() if parked.get(seat.lane.name)}
        if not wanted or self._idle > len(self.order) + len(self.seats):
            names = ", ".join(sorted(parked))
            raise LeakgridError(
                f"cells wait for {names}, and no change of models lets them go on; this is a "
                "fault in leakgrid: please report it with the job file"
            )
        count, here = len(self.order), max(self._place, 0)
        places = ((here + step) % count for step in range(count))
        self._place = next(place for place in places if self.order[place] & wanted)
        shift = self.order[self._place]
        await self._change(shift, needed(shift, wanted, self.columns))

    async def end(self) -> None:
        """Stop whatever is up."""
        await self._stop_all(self.seats.values())

    async def _change(self, shift: frozenset[str], wanted: frozenset[str]) -> None:
        """Stop what is not of this shift, and start what is wanted of it and not up."""
        await self._stop_all(seat for name, seat in self.seats.items() if name not in shift)
        down = [self.seats[name] for name in sorted(wanted) if self.seats[name].up is None]
        others: list[str] = []
        # Two that start on one GPU at once would each take the other's memory for its own.
        turns = {gpu: asyncio.Lock() for seat in down for gpu in sorted(seat.shares)}

        async def start(seat: Seat) -> None:
            async with contextlib.AsyncExitStack() as mine:
                for gpu in sorted(seat.shares):  # in one order for all, or they wait for ever
                    await mine.enter_async_context(turns[gpu])
                if seat.lane.stopped is None and not await self._start(seat):
                    others.append(seat.name)

        async with asyncio.TaskGroup() as group:
            for seat in down:
                group.create_task(start(seat))
        if others:
            raise IdentityChanged(
                f"vLLM {', '.join(sorted(others))}: not the server that was planned for (its "
                "weights, chat template or version are known only now, or changed); planning anew"
            )

    async def _start(self, seat: Seat) -> bool:
        """Load one server; False where it is another than was planned for, which is noted."""
        spec = seat.specs[0]
        config = vllm_config(spec)
        folder = self.cache / "servers"
        named = f"{self.job}.{as_file(seat.name)}"
        log = folder / f"{named}.log"
        values = {**asdict(config), "log": str(log)}
        path = await asyncio.to_thread(
            write_config, folder, named, {k: v for k, v in values.items() if v}
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
            progress=lambda line: self.tell(f"{seat.name}: {line.removeprefix(SAYS)}"),
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
        with contextlib.suppress(OSError):  # for who wants to know which commit it was
            about = f"{named}.{server.ready.identity}"
            await asyncio.to_thread(write_config, folder, about, server.ready.facts)
        if server.ready.identity != self.identities[spec.name]:
            async with self._noting:
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
        seat.watch = self._group.create_task(watch(server, [seat.lane], seat.gone))
        from leakgrid.providers.vllm_metrics import steer

        seat.steer = self._group.create_task(steer(seat.lane, self.session, server.base_url))
        return True

    async def _stop_all(self, seats: Iterable[Seat]) -> None:
        async with asyncio.TaskGroup() as group:
            for seat in list(seats):
                group.create_task(self._stop(seat))

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


def identity_of(spec: ModelSpec, cache: Path | None) -> str:
    """What a managed server was when it last started, or will be as far as its files tell."""
    config = vllm_config(spec)
    noted = remembered(cache / IDENTITIES, config) if cache is not None else None
    return noted or facts(config, version_of(config.command)).digest


def shares_of(specs: Sequence[ModelSpec]) -> dict[str, float]:
    """What the server of these models, which share one, takes of each GPU's memory."""
    memory = max(spec.options["memory"] for spec in specs)
    return dict.fromkeys(gpus_of(vllm_config(specs[0])), memory)


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
    order = order_of(columns, names, {name: seat.shares for name, seat in seats.items()})
    asked = {
        (names.get(column.point.model, ""), frozenset(names[n] for n in column.models & set(names)))
        for column in plan.columns
    }
    return Gpu(
        seats=seats,
        order=order,
        columns=list(asked),
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
    share: Shares,
) -> list[frozenset[str]]:
    """Shifts for columns of (speakers, all models); ``names`` are the seats of models.

    Judges are up beside their speakers where they fit beside all of them, else after all. Raises
    JobError for a pair that never fits.
    """
    seated = [
        tuple(frozenset(names[name] for name in some if name in names) for some in column)
        for column in columns
    ]
    # One that came beside some alone would keep the GPUs of the others waiting.
    last = {name for mine, all_of in seated if not fits(all_of, share) for name in all_of - mine}
    groups, later = [], []
    for mine, all_of in seated:
        mine |= all_of - last
        if mine:
            groups.append(mine)
        later += sorted(all_of - mine)
    try:
        return shifts(groups, later, share)
    except ValueError as error:
        raise JobError(
            f"models that speak to each other {error}; set their memory, or name another GPU in "
            f"the environment of one of them ({VISIBLE})"
        ) from None
