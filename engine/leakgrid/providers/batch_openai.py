"""OpenAI's Batch API, and every host that has /files and /batches, through the official SDK."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from leakgrid.batches.service import MOST_REQUESTS, Batch, Result, State, Trouble
from leakgrid.outcomes import JobError, Outcome
from leakgrid.providers.openai_errors import read_error
from leakgrid.providers.wire import Exchange

T = TypeVar("T")

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types import Batch as TheirBatch

ENDPOINTS = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}
"""Family to the path that stands in a batch and in each of its lines."""

MARK = "leakgrid"
"""The key of our intent's id in a batch's metadata."""

MOST_BYTES = 200_000_000
ONE_DAY_S = 86_400.0
_STATES = {
    "completed": State.ENDED,
    "expired": State.ENDED,
    "cancelled": State.ENDED,
    "failed": State.FAILED,
}
_NOT_RUN = frozenset({"batch_expired", "batch_cancelled"})
_QUEUE = ("token_limit_exceeded", "enqueued", "request_limit_exceeded")


class OpenAIBatches:
    """The batch service behind one base URL. ``family`` is chat or responses."""

    most_requests = MOST_REQUESTS
    most_bytes = MOST_BYTES

    def __init__(
        self,
        *,
        family: str,
        base_url: str,
        key: str,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 600.0,
    ) -> None:
        """``headers`` go with every request (organisation, project). Raises JobError without the

        SDK. Retries are ours, so that a request whose answer was lost is never simply repeated.
        """
        try:
            import openai
        except ImportError as error:
            raise JobError(
                f"the openai package is not installed ({error}), and batches go through it: "
                "pip install 'leakgrid[openai]'"
            ) from error
        self._sdk = openai
        self._client: OpenAI = openai.OpenAI(
            api_key=key or "none",
            base_url=base_url,
            default_headers=dict(headers or {}),
            max_retries=0,
            timeout=timeout_s,
        )
        self._endpoint = ENDPOINTS[family]
        self._secret = key

    # --- lines --------------------------------------------------------------------------------

    def line(self, key: str, body: bytes) -> bytes:
        """One request as a line of the input file."""
        return b'{"custom_id":"%b","method":"POST","url":"%b","body":%b}\n' % (
            key.encode(),
            self._endpoint.encode(),
            body,
        )

    def parse(self, line: bytes) -> Result:
        """A line of an output or error file; a request that was not carried out has no exchange."""
        said = orjson.loads(line)
        key, response, error = said["custom_id"], said.get("response"), said.get("error")
        if not isinstance(key, str):
            raise ValueError("no custom_id")
        if response:
            headers = {"x-request-id": str(response.get("request_id") or "")}
            body = orjson.dumps(response["body"])
            return Result(key, Exchange(int(response["status_code"]), headers, body, 0.0))
        code = str(error.get("code") or "")
        if code in _NOT_RUN:
            return Result(key, None)
        fault = f"batch line: {code}: {error.get('message') or ''}"
        return Result(key, Exchange(0, {}, orjson.dumps(said), 0.0, fault))

    # --- files and batches --------------------------------------------------------------------

    def find_file(self, name: str, size: int) -> str | None:
        """The id of a whole input file of this name."""
        return self._ask(self._find_file, name, size)

    def _find_file(self, name: str, size: int) -> str | None:
        for file in self._client.files.list(purpose="batch", order="desc"):
            if file.filename == name and file.bytes == size:
                return file.id
        return None

    def upload(self, path: Path, name: str) -> str:
        """Upload an input file."""
        return self._ask(self._upload, path, name)

    def _upload(self, path: Path, name: str) -> str:
        with path.open("rb") as file:
            return self._client.files.create(file=(name, file), purpose="batch").id

    def create(self, file: str, intent: str) -> Batch:
        """Create a batch whose metadata carry the intent's id."""
        return self._ask(self._create, file, intent)

    def _create(self, file: str, intent: str) -> Batch:
        return _batch(
            self._client.batches.create(
                completion_window="24h",
                endpoint=self._endpoint,  # type: ignore[arg-type]
                input_file_id=file,
                metadata={MARK: intent},
            )
        )

    def find(self, intent: str, since: float) -> Batch | None:
        """The batch whose metadata carry the intent's id; the list comes newest first."""
        return self._ask(self._find, intent, since)

    def _find(self, intent: str, since: float) -> Batch | None:
        for theirs in self._client.batches.list(limit=100):
            if theirs.created_at < since - ONE_DAY_S:  # a clock may be wrong, not by a day
                return None
            if (theirs.metadata or {}).get(MARK) == intent and theirs.status != "failed":
                return _batch(theirs)
        return None

    def status(self, batch: str) -> Batch:
        """The batch at this moment."""
        return self._ask(lambda: _batch(self._client.batches.retrieve(batch)))

    def cancel(self, batch: str) -> None:
        """Cancel; the service takes up to ten minutes to let running requests end."""
        self._ask(lambda: self._client.batches.cancel(batch))

    def results(self, batch: Batch, into: Path) -> None:
        """Output and error file, one after the other."""
        self._ask(self._results, batch, into)

    def _results(self, batch: Batch, into: Path) -> None:
        part = into.with_suffix(".part")
        with into.open("wb") as whole:
            for file in batch.outputs:
                with self._client.files.with_streaming_response.content(file) as response:
                    response.stream_to_file(part)
                with part.open("rb") as piece:
                    shutil.copyfileobj(piece, whole)
                if whole.tell():  # a torn last line must not swallow the next file's first
                    whole.write(b"\n")
        if batch.outputs:
            os.unlink(part)

    def close(self) -> None:
        """Let its connections go."""
        self._client.close()

    def _ask(self, request: Callable[..., T], *args: Any) -> T:
        """Run a request of the SDK; its errors as Trouble."""
        sdk = self._sdk
        try:
            return request(*args)
        except sdk.APIStatusError as error:
            status, response = error.status_code, error.response
            body = orjson.dumps({"error": error.body}) if error.body else b""
            reading = read_error(status, response.headers, body)
            raise Trouble(
                reading.outcome,
                self._safe(reading.error or str(error)),
                wait_s=reading.wait_s,
                unsure=status >= 500 or status == 408,
            ) from error
        except (sdk.APIError, sdk.OpenAIError) as error:
            told = f"{error} ({error.__cause__})" if error.__cause__ else str(error)
            raise Trouble(Outcome.TRANSIENT, self._safe(told), unsure=True) from error
        except Exception as error:
            # While a file streams, the SDK lets its transport's errors through.
            if not isinstance(error, OSError) and "httpx" not in type(error).__module__:
                raise
            told = self._safe(f"{type(error).__name__}: {error}")
            raise Trouble(Outcome.TRANSIENT, told, unsure=True) from error

    def _safe(self, told: str) -> str:
        return told.replace(self._secret, "[redacted]") if self._secret else told


def _batch(theirs: TheirBatch) -> Batch:
    """A batch in our words. One that is complete but has no file yet still runs."""
    outputs = tuple(filter(None, (theirs.output_file_id, theirs.error_file_id)))
    state = _STATES.get(theirs.status, State.RUNNING)
    if theirs.status == "completed" and not outputs:
        state = State.RUNNING
    errors = (theirs.errors.data if theirs.errors else None) or []
    told = "; ".join(
        f"{one.code}: {one.message}" + (f" (line {one.line})" if one.line else "")
        for one in errors[:3]
    )
    queued = any(word in f"{one.code} {one.message}".lower() for one in errors for word in _QUEUE)
    return Batch(
        id=theirs.id,
        state=state,
        status=theirs.status,
        outputs=outputs,
        trouble=Outcome.QUOTA if queued else Outcome.INVALID,
        error=told or theirs.status,
    )
