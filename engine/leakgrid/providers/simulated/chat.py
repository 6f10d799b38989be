"""The HTTP endpoints: one handler for a bare aiohttp server."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from leakgrid.providers.simulated import (
    agents,
    assistants,
    faults,
    judges,
    labellers,
    probes,
    steps,
    wire,
)
from leakgrid.providers.simulated.config import Simulated
from leakgrid.providers.simulated.counters import Counters
from leakgrid.providers.simulated.items import Index
from leakgrid.providers.simulated.planted import UNKNOWN_MODEL, Coins, delay_s, digest, let_through
from leakgrid.providers.simulated.quota import Gate, duration, retry_headers
from leakgrid.providers.simulated.schemas import smallest
from leakgrid.providers.simulated.world import World

if TYPE_CHECKING:
    from leakgrid.providers.simulated.batch_service import BatchService
    from leakgrid.providers.simulated.writers import Drafts

LABEL = {"content-type": "application/json", "x-leakgrid-simulated": "1"}
BATCH_PLACES = ("/v1/files", "/v1/batches", "/v1beta/", "/upload/v1beta/", "/batches/")
"""How the paths begin that are the batch service's."""

SAMPLE_HEADER = "x-leakgrid-sample"
"""Clients send a sample number here, because repeated draws have equal bodies."""


class Failure(Exception):
    """A request that ends with an error body."""

    def __init__(self, status: int, body: dict[str, Any], headers: dict[str, str]) -> None:
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers


class Chat:
    """A configured simulation; ``handle`` is the request handler."""

    def __init__(
        self,
        config: Simulated,
        index: Index,
        identity: str,
        world: World | None = None,
        drafts: Drafts | None = None,
        batch_folder: Path | None = None,
    ) -> None:
        """A server of items has an index to look in, one of dialogues a world, writers drafts.

        ``batch_folder`` keeps files and batches for the next server; else they end with this one.
        """
        now = time.monotonic()
        self.config, self.index, self.identity = config, index, identity
        self.counters = Counters()
        self.schedule = faults.Schedule(config.seed, config.faults)
        self.gates = {model: Gate(quota, now) for model, quota in config.quota.items()}
        self.names = (*config.assistants, *config.judges, *config.agents, *config.labellers,
                      *config.writers)  # fmt: skip
        self.world, self.drafts = world, drafts
        self.players = agents.Players(config, world) if world is not None else None
        self._batch_folder = batch_folder
        self._batches: BatchService | None = None
        self.bearer = f"Bearer {config.faults.require_key}" if config.faults.require_key else ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request of any kind."""
        place = (request.method, request.raw_path.partition("?")[0])
        if place == ("POST", "/v1/chat/completions"):
            return await self._counted(request)
        if place[1].startswith(BATCH_PLACES):
            try:
                self._authorise(request)
            except Failure as failure:
                return _json(failure.body, failure.status, failure.headers)
            return await self._batch_service().handle(request)
        if place == ("GET", "/health"):
            return _json({"ok": True, "simulated": True, "identity": self.identity})
        if place == ("GET", "/stats"):
            return _json(self.counters.shown())
        if place == ("POST", "/stats/reset"):
            self.counters.reset()
            return _json(self.counters.shown())
        if place == ("GET", "/v1/models"):
            try:
                self._authorise(request)
            except Failure as failure:
                return _json(failure.body, failure.status, failure.headers)
            return _json(wire.models(self.names))
        message = f"Invalid URL ({place[0]} {place[1]})"
        return _json(wire.error(message, "invalid_request_error", "unknown_url"), 404)

    def _batch_service(self) -> BatchService:
        """The batch service, opened when it is asked first: most servers have no use for it."""
        if self._batches is None:
            from leakgrid.providers.simulated.batch_service import BatchService

            folder = self._batch_folder
            if folder is None:
                self._kept = tempfile.TemporaryDirectory(prefix="leakgrid-batches-")
                folder = Path(self._kept.name)
            config = self.config
            self._batches = BatchService(folder, config.seed, config.batches, self.answer_line)
        return self._batches

    def answer_line(self, raw: bytes) -> tuple[int, str, bytes]:
        """Status, request id and body of a request from a file: what it would get online, but
        for quotas, delays and faults, which batches have of their own.
        """
        self.counters.enter()
        fingerprint = b""
        status = 200
        try:
            asked, model, fingerprint = _told(raw)
            self.counters.saw(fingerprint, model)
            self._known(model)
            body, _ = self._answer(asked, model, fingerprint, str(asked.get("sample", "")))
            self.counters.answer(fingerprint)
        except Failure as failure:
            status, body = failure.status, orjson.dumps(failure.body)
        finally:
            self.counters.leave(str(status))
        return status, request_id(fingerprint), body

    async def _counted(self, request: web.BaseRequest) -> web.StreamResponse:
        self.counters.enter()
        status = "dropped"
        try:
            response = await self._completion(request)
            if not isinstance(response, faults.Broken):
                status = str(response.status)
        except Failure as failure:
            response = _json(failure.body, failure.status, failure.headers)
            status = str(failure.status)
        finally:
            self.counters.leave(status)
        return response

    async def _completion(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = await _read(request)
        sample = request.headers.get(SAMPLE_HEADER, "")
        asked, model, fingerprint = _told(raw, sample)
        self.counters.saw(fingerprint, model)
        self._authorise(request)
        self._known(model)
        body, tokens = self._answer(asked, model, fingerprint, str(asked.get("sample", sample)))
        headers = {**LABEL, "x-request-id": request_id(fingerprint)}
        headers |= self._admitted(model, tokens[0] + tokens[1])
        fault = self.schedule.next(fingerprint)
        if fault is not None:
            self.counters.by_fault[fault] += 1
            if fault != "slow":
                return await faults.response(fault, self.config.faults, request, body, headers)
        coins = Coins(self.config.seed, fingerprint)
        if (delay := delay_s(self.config.latency, coins, tokens[1])) > 0.0:
            await asyncio.sleep(delay)
        if fault is not None:
            response = await faults.response(fault, self.config.faults, request, body, headers)
        else:
            response = web.Response(body=body, headers=headers)
        self.counters.answer(fingerprint)
        return response

    def _answer(
        self, asked: dict[str, Any], model: str, fingerprint: bytes, sample: str
    ) -> tuple[bytes, tuple[int, int]]:
        """The body of the answer, and its input and output tokens."""
        coins = Coins(self.config.seed, fingerprint)
        try:
            prompt = wire.read_prompt(asked)
            reply = wire.limited(self._reply(asked, model, prompt, coins, sample), asked)
        except wire.BadRequest as error:
            raise _invalid(str(error)) from error
        body = wire.completion(model, fingerprint.hex(), prompt, reply)
        usage = body["usage"]
        return orjson.dumps(body), (usage["prompt_tokens"], usage["completion_tokens"])

    def _reply(
        self, asked: dict[str, Any], model: str, prompt: wire.Prompt, coins: Coins, sample: str
    ) -> wire.Reply:
        judge = self.config.judges.get(model)
        if judge is not None:
            return judges.reply(judge, self.index, asked, prompt, coins)
        if self.world is not None and self.players is not None:
            labeller = self.config.labellers.get(model)
            if labeller is not None:
                return labellers.reply(self.config, labeller, self.world, prompt, coins)
            if (schema := wire.schema_of(asked)) is not None:
                return wire.Reply(orjson.dumps(smallest(schema[1])).decode())
            return self.players.reply(asked, model, prompt, sample or "0")
        writer = self.config.writers.get(model)
        if writer is not None and self.drafts is not None:
            return self.drafts.reply(writer, asked, prompt, coins)
        assistant = self.config.assistants.get(model, UNKNOWN_MODEL)
        if (schema := wire.schema_of(asked)) is not None:
            if schema[0] == probes.SCHEMA:
                text = orjson.dumps(probes.answer(assistant, prompt, coins)).decode()
                return wire.Reply(text)
            step = steps.STEPS.get(schema[0])
            if step is None:
                return wire.Reply(orjson.dumps(smallest(schema[1])).decode())
            defence = self.config.cues.steps.get(schema[0], assistants.NO_DEFENCE)
            passing = coins("passing") < let_through(self.config, model, defence)
            text = orjson.dumps(step(self.index, prompt, passing)).decode()
            return assistants.spoken(assistant, text, coins)
        return assistants.reply(self.config, assistant, model, self.index, prompt, coins)

    def _authorise(self, request: web.BaseRequest) -> None:
        if self.bearer and request.headers.get("authorization") != self.bearer:
            # The key that came is not repeated: it may be a real one, sent here by mistake.
            message = "Incorrect API key provided (simulated)."
            body = wire.error(message, "invalid_request_error", "invalid_api_key")
            raise Failure(401, body, LABEL)

    def _known(self, model: str) -> None:
        if model not in self.names and self.config.faults.models_unknown:
            message = f"The model `{model}` does not exist or you do not have access to it."
            body = wire.error(message, "invalid_request_error", "model_not_found")
            raise Failure(404, body, LABEL)
        if model in self.config.faults.insufficient_quota:
            message = "You exceeded your current quota, please check your plan and billing details."
            body = wire.error(message, "insufficient_quota", "insufficient_quota")
            raise Failure(429, body, LABEL)

    def _admitted(self, model: str, tokens: int) -> dict[str, str]:
        """The quota headers of a call that may pass."""
        gate = self.gates.get(model)
        if gate is None:
            return {}
        rejection = gate.admit(tokens, time.monotonic())
        if rejection is None:
            return gate.headers()
        message = (
            f"Rate limit reached for {model} on {rejection.limit} per min: "
            f"Limit {rejection.per_minute:.0f}. "
            f"Please try again in {duration(rejection.wait_s)}."
        )
        body = wire.error(message, rejection.limit, "rate_limit_exceeded")
        raise Failure(429, body, LABEL | gate.headers() | retry_headers(rejection.wait_s))


def _json(body: dict[str, Any], status: int = 200, headers: dict[str, str] = LABEL) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(body), headers=headers)


def _invalid(message: str, status: int = 400) -> Failure:
    return Failure(status, wire.error(message, "invalid_request_error", None), LABEL)


async def _read(request: web.BaseRequest) -> bytes:
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise _invalid("The request is larger than 1 MiB.", 413) from error


def request_id(fingerprint: bytes) -> str:
    """What the answer to a request carries in its header."""
    return f"req_{fingerprint.hex()[:32]}"


def _told(raw: bytes, sample: str = "") -> tuple[dict[str, Any], str, bytes]:
    """The request, its model and its digest. Raises Failure (400) as below."""
    asked, model = _decoded(raw)
    if "response_format" in asked:
        # Clients keep the order of a schema's fields; the same request is the same in any.
        raw = orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)
    return asked, model, digest(raw, sample)


def _decoded(raw: bytes) -> tuple[dict[str, Any], str]:
    """The request and the model it names. Raises Failure (400) when it is not a chat request."""
    try:
        asked = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _invalid("We could not parse the JSON body of your request.") from error
    if not isinstance(asked, dict) or not isinstance(asked.get("model"), str):
        raise _invalid("you must provide a model parameter")
    if asked.get("stream"):
        raise _invalid("stream: found true; allowed: false, as the simulation does not stream")
    if asked.get("n", 1) != 1:
        raise _invalid(f"n: found {asked['n']!r}; allowed: 1; ask again for another sample")
    return asked, asked["model"]
