"""From a job's models to routes: servers started, sessions opened, lanes shared and remembered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakgrid.batches.drive import Batches
from leakgrid.batches.lane import BatchLane
from leakgrid.jobs.asking import Route
from leakgrid.jobs.budget import Budget
from leakgrid.jobs.chat_templates import ask_templates, warnings
from leakgrid.jobs.gpu import Gpu, Seat, open_gpu, shares_of, tell
from leakgrid.jobs.memory import lane_id, read_memory, write_memory
from leakgrid.jobs.models import ModelSpec, secret_of
from leakgrid.jobs.plan import Plan
from leakgrid.jobs.speakers import headers_of, provider_of
from leakgrid.jobs.watched import Watched, watch
from leakgrid.lanes.lane import Lane
from leakgrid.lanes.values import Attempt, Parcel, Quota
from leakgrid.providers.google_credentials import AccessTokens
from leakgrid.providers.servers import Server, write_config

if TYPE_CHECKING:
    import aiohttp

    from leakgrid.cache.answers import AnswerCache

CONNECT_SECONDS = 10.0
NOWHERE = "http://127.0.0.1:9/v1"
"""Where a model is that is not loaded: its bodies can be made, and nothing is sent."""


@dataclass(frozen=True, slots=True)
class Ways:
    """Everything a run sends through; ``served`` says which lanes end with which server."""

    routes: dict[str, Route]
    lanes: tuple[Lane | BatchLane, ...]
    served: tuple[tuple[Server, tuple[Lane | BatchLane, ...]], ...]
    gpu: Gpu | None = None
    batches: Batches | None = None
    steering: tuple[Callable[[], Coroutine[Any, Any, None]], ...] = ()

    @property
    def parking(self) -> bool:
        """Whether calls may be parked, so that cells are walked more than once."""
        return self.gpu is not None or self.batches is not None

    async def advance(self, parked: Mapping[str, int], *, stuck: bool) -> None:
        """See to it that some of the ``parked`` calls (by lane) are answered in the next walk.

        ``stuck``: nothing got done in the last walk. Raises ServerDown.
        """
        in_batches: set[str] = set()
        if self.batches is not None:
            await self.batches.submit()
            in_batches = {lane.name for lane in self.batches.lanes}
        loadable = {name: calls for name, calls in parked.items() if name not in in_batches}
        if self.gpu is not None and loadable:
            await self.gpu.advance(loadable, stuck=stuck)
        elif self.batches is not None:
            await self.batches.wait(sum(parked.values()))

    async def begin(
        self, group: asyncio.TaskGroup, cache: AnswerCache, run: str, *, load: bool = False
    ) -> None:
        """Servers of a shared GPU are watched in ``group``, and batches of earlier runs followed;

        ``load`` the first servers at once. Raises InputError for batches another run waits for.
        """
        if self.batches is not None:
            await self.batches.begin(group, cache, run)
        if self.gpu is not None:
            await self.gpu.begin(group, load=load)

    async def rest(self, *, finished: bool = False) -> None:
        """Stop the servers of a shared GPU and leave the batches, before their task group ends."""
        if self.batches is not None:
            await self.batches.rest(finished=finished)
        if self.gpu is not None:
            await self.gpu.end()

    def tend(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start every lane's dispatcher and every server's watch; the caller cancels them."""
        tasks = [group.create_task(lane.dispatch()) for lane in self.lanes]
        tasks += [group.create_task(watch(server, held)) for server, held in self.served]
        return tasks + [group.create_task(steering()) for steering in self.steering]


@contextlib.asynccontextmanager
async def open_ways(
    plan: Plan,
    models: Iterable[str],
    cache: Path,
    *,
    budget: Budget | None,
    on_failed: Callable[[Lane, Parcel, Attempt], None],
    batch: bool = True,
) -> AsyncIterator[Ways]:
    """Routes for ``models`` of the plan's job; servers they need run until the block ends.

    Without ``batch`` all calls go online: for whoever does not walk its cells again.

    Raises JobError for a missing key, ServerDown for a server that does not start.
    """
    import aiohttp

    specs = [plan.job.specs[name] for name in sorted(models)]
    secrets = {spec.name: secret_of(spec) for spec in specs}
    remembered = read_memory(cache)
    async with contextlib.AsyncExitStack() as stack:
        servers: dict[str, Server] = {}
        for spec in specs:
            source = _server_of(spec)
            if source and source not in servers:
                servers[source] = await stack.enter_async_context(_server(source, plan, cache))
        connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=300)
        session = await stack.enter_async_context(
            aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),  # no API of ours keeps state in cookies
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            )
        )
        tokens = AccessTokens()
        groups: dict[str, list[ModelSpec]] = {}
        for spec in specs:
            batched = batch and spec.tier == "batch"
            kind = _batch_kind(spec, plan) if batched else ""
            groups.setdefault(lane_id(spec) + kind, []).append(spec)
        routes: dict[str, Route] = {}
        lanes: list[Lane | BatchLane] = []
        seats: dict[str, Seat] = {}
        steering: list[Callable[[], Coroutine[Any, Any, None]]] = []
        by_server: dict[str, list[Lane | BatchLane]] = {source: [] for source in servers}
        attached = [spec for spec in specs if spec.provider == "vllm" and not spec.managed]
        templates = await ask_templates(attached)
        for spec in attached:
            for line in warnings(spec, templates[spec.name]):
                tell(line)

        batch_lanes: list[BatchLane] = []

        def open_route(
            spec: ModelSpec, lane: Lane | BatchLane, url: str, facts: Mapping[str, Any]
        ) -> None:
            identity, secret = plan.identities[spec.name], secrets[spec.name]
            provider = provider_of(spec, url, identity, session, secret, tokens, facts)
            routes[spec.name] = Route(provider, lane)

        def reopen_route(
            spec: ModelSpec, url: str, facts: Mapping[str, Any], gone: asyncio.Event
        ) -> None:
            open_route(spec, routes[spec.name].lane, url, facts)
            route = routes[spec.name]
            routes[spec.name] = replace(route, provider=Watched(route.provider, gone))

        for name, sharing in groups.items():
            quota = _strictest([spec.quota for spec in sharing])
            lane = Lane(
                sharing[0].name,
                quota=quota,
                price=next((spec.price for spec in sharing if spec.price), None),
                spending=budget,
                on_failed=on_failed,
                memory=remembered.get(name),
                patience=plan.job.patience,
            )
            if batch and sharing[0].tier == "batch":
                folder, source = cache / "batches" / name, _server_of(sharing[0])
                base = servers[source].base_url if source else sharing[0].base_url
                batch_lane = await _batch_lane(
                    sharing, lane, secrets, plan, folder, base, budget, session, tokens
                )
                lanes.append(batch_lane)
                batch_lanes.append(batch_lane)
                if source:
                    by_server[source].append(batch_lane)
                for spec in sharing:
                    open_route(spec, batch_lane, base, {})
                continue
            lanes.append(lane)
            for spec in sharing:
                source = _server_of(spec)
                base = servers[source].base_url if source else spec.base_url
                facts = templates.get(spec.name, {})
                open_route(spec, lane, NOWHERE if spec.managed else base, facts)
                if source and lane not in by_server[source]:
                    by_server[source].append(lane)
            first = sharing[0]
            if first.managed:
                lane.closed = True
                seats[first.name] = Seat(first.name, sharing, lane, shares_of(sharing))
            elif first.provider == "vllm":
                urls = first.options["base_urls"]
                steering.append(partial(_steer, lane, session, urls))
        served = tuple((servers[source], tuple(held)) for source, held in by_server.items())
        gpu = None
        if seats:
            gpu = open_gpu(plan, seats, cache, session, reopen_route)
            stack.push_async_callback(gpu.end)
        batches = Batches(batch_lanes) if batch_lanes else None
        if batches is not None:
            stack.push_async_callback(batches.rest, finished=False)
        yield Ways(routes, tuple(lanes), served, gpu, batches, tuple(steering))
        kept = {
            name: lane.remember()
            for name, lane in zip(groups, lanes, strict=True)
            if lane.statistics().answered
        }
        write_memory(cache, {**remembered, **kept})


async def _batch_lane(
    sharing: list[ModelSpec],
    online: Lane,
    secrets: Mapping[str, str],
    plan: Plan,
    folder: Path,
    base_url: str,
    budget: Budget | None,
    session: aiohttp.ClientSession,
    tokens: AccessTokens,
) -> BatchLane:
    """The batch lane of models that share one; ``online`` is where calls go at the deadline."""
    from leakgrid.batches.opening import pace_of, service_for
    from leakgrid.batches.service import aside

    first = sharing[0]
    secret = secrets[first.name]
    identity = plan.identities[first.name]
    reader = provider_of(first, base_url, identity, session, secret, tokens, {})
    service = await aside(  # it imports an SDK
        partial(
            service_for,
            first.provider,
            family=reader.family,
            model=first.model,
            base_url=base_url,
            key=secret,
            headers=headers_of(first),
            timeout_s=first.timeout_s,
        )
    )
    hours, until = first.deadline
    return BatchLane(
        first.name,
        folder=folder,
        job=plan.job.name,
        service=service,
        provider=reader,
        price=next((spec.batch_price for spec in sharing if spec.batch_price), None),
        online=online,
        spending=budget,
        hours=hours,
        until=until,
        pace=pace_of(first.provider),
        told=tell,
    )


def _batch_kind(spec: ModelSpec, plan: Plan) -> str:
    """What tells the batches of a model from its other calls, and from those of other servers."""
    if _server_of(spec):
        # Each simulation keeps its own batches, and their answers follow from what is planted.
        return f"-batch-{plan.identities[spec.name][:16]}"
    return f"-batch-{spec.options.get('api', '')}"


def _server_of(spec: ModelSpec) -> str:
    """Which managed server a model needs: a name, or empty where it has a base_url."""
    if spec.base_url or spec.provider not in ("simulated", "local"):
        return ""
    return "simulated" if spec.provider == "simulated" else f"local {spec.model}"


def _server(source: str, plan: Plan, cache: Path) -> Server:
    if source == "simulated":
        assert plan.simulated is not None
        table = plan.simulated["table"]
        path = write_config(cache / "servers", f"{plan.job.name}.simulated", table)
        batches = cache / "servers" / f"batches-{plan.simulated['identity'][:16]}"
        arguments = ["--config", str(path), "--port", str(table.get("port", 0))]
        arguments += ["--batches", str(batches)]
        return Server("simulated", "leakgrid.providers.simulated.server", arguments)
    model = source.removeprefix("local ")
    slots = max(
        spec.quota.concurrency or 1
        for spec in plan.job.specs.values()
        if spec.provider == "local" and spec.model == model
    )
    arguments = ["--model", model, "--folder", str(cache / "models"), "--slots", str(slots)]
    return Server(source, "leakgrid.providers.local", arguments)


async def _steer(lane: Lane, session: aiohttp.ClientSession, urls: list[str]) -> None:
    from leakgrid.providers.vllm_metrics import steer

    await steer(lane, session, *urls)


def _strictest(quotas: list[Quota]) -> Quota:
    def least(values: list[Any]) -> Any:
        known = [value for value in values if value is not None]
        return min(known) if known else None

    return Quota(
        rpm=least([quota.rpm for quota in quotas]),
        tpm=least([quota.tpm for quota in quotas]),
        concurrency=least([quota.concurrency for quota in quotas]),
    )
