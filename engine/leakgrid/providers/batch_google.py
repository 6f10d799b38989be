"""The Gemini API's batches over uploaded files, through the official SDK (google-genai)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from leakgrid.batches.service import MOST_REQUESTS, Batch, Result, State, Trouble
from leakgrid.outcomes import JobError, Outcome
from leakgrid.providers.google import GEMINI_URL
from leakgrid.providers.google_read import read_error
from leakgrid.providers.wire import Exchange

T = TypeVar("T")

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.types import BatchJob

MOST_BYTES = 2_000_000_000
_ENDED = frozenset(
    {
        "JOB_STATE_SUCCEEDED",
        "JOB_STATE_PARTIALLY_SUCCEEDED",
        "JOB_STATE_CANCELLED",
        "JOB_STATE_EXPIRED",
    }
)
_HTTP = {
    1: 499,
    3: 400,
    4: 504,
    5: 404,
    7: 403,
    8: 429,
    9: 400,
    10: 409,
    11: 400,
    12: 501,
    13: 500,
    14: 503,
    16: 401,
}
"""A canonical status code, as result lines carry it, to the HTTP status it stands for."""
_CANCELLED = 1


class GeminiBatches:
    """The batch service of the Gemini API for one model."""

    most_requests = MOST_REQUESTS
    most_bytes = MOST_BYTES

    def __init__(
        self,
        *,
        model: str,
        key: str,
        base_url: str = GEMINI_URL,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 600.0,
    ) -> None:
        """``base_url`` ends with the API's version. Raises JobError without the SDK."""
        try:
            from google import genai
            from google.genai import errors, types
        except ImportError as error:
            raise JobError(
                f"the google-genai package is not installed ({error}), and batches go through it: "
                "pip install 'leakgrid[google]'"
            ) from error
        self._errors = errors
        host, _, version = base_url.rstrip("/").rpartition("/")
        self._client: Client = genai.Client(
            api_key=key or "none",  # else the SDK would look for one in the environment
            vertexai=False,
            http_options=types.HttpOptions(
                base_url=host,
                api_version=version,
                headers=dict(headers or {}),
                timeout=round(timeout_s * 1000),
                retry_options=types.HttpRetryOptions(attempts=1),
            ),
        )
        self._model = model
        self._secret = key

    # --- lines --------------------------------------------------------------------------------

    def line(self, key: str, body: bytes) -> bytes:
        """One request as a line of the input file."""
        return b'{"key":"%b","request":%b}\n' % (key.encode(), body)

    def parse(self, line: bytes) -> Result:
        """A result line: a response, or a status that says why there is none."""
        said = orjson.loads(line)
        key = said["key"]
        if not isinstance(key, str):
            raise ValueError("no key")
        if said.get("response"):
            return Result(key, Exchange(200, {}, orjson.dumps(said["response"]), 0.0))
        error = said.get("error") or said["status"]
        code = int(error.get("code") or 2)
        if code == _CANCELLED:
            return Result(key, None)
        status = code if code >= 100 else _HTTP.get(code, 500)
        body = orjson.dumps({"error": {**error, "code": status}})
        return Result(key, Exchange(status, {}, body, 0.0))

    # --- files and batches --------------------------------------------------------------------

    def find_file(self, name: str, size: int) -> str | None:
        """The name of a whole uploaded file that is shown under ``name``."""
        return self._ask(self._find_file, name, size)

    def _find_file(self, name: str, size: int) -> str | None:
        for file in self._client.files.list(config={"page_size": 100}):
            if file.display_name == name and file.size_bytes == size:
                return file.name
        return None

    def upload(self, path: Path, name: str) -> str:
        """Upload an input file; it is kept for two days."""
        return self._ask(self._upload, path, name)

    def _upload(self, path: Path, name: str) -> str:
        file = self._client.files.upload(
            file=path, config={"display_name": name, "mime_type": "application/jsonl"}
        )
        assert file.name is not None
        return file.name

    def create(self, file: str, intent: str) -> Batch:
        """Create a batch that is shown under the intent's id."""
        return self._ask(self._create, file, intent)

    def _create(self, file: str, intent: str) -> Batch:
        return _batch(
            self._client.batches.create(
                model=self._model, src=file, config={"display_name": intent}
            )
        )

    def find(self, intent: str, since: float) -> Batch | None:
        """The batch that is shown under the intent's id."""
        return self._ask(self._find, intent)

    def _find(self, intent: str) -> Batch | None:
        for theirs in self._client.batches.list(config={"page_size": 100}):
            if theirs.display_name == intent:
                batch = _batch(theirs)
                if batch.state is not State.FAILED:
                    return batch
        return None

    def status(self, batch: str) -> Batch:
        """The batch at this moment."""
        return self._ask(lambda: _batch(self._client.batches.get(name=batch)))

    def cancel(self, batch: str) -> None:
        """Cancel; what is done by then may still be there."""
        self._ask(lambda: self._client.batches.cancel(name=batch))

    def results(self, batch: Batch, into: Path) -> None:
        """The file of responses; an expired or cancelled batch may have none."""
        if not batch.outputs:
            into.write_bytes(b"")
            return
        self._ask(lambda: self._client.files.download(file=batch.outputs[0], destination=str(into)))

    def close(self) -> None:
        """Let its connections go."""
        self._client.close()

    def _ask(self, request: Callable[..., T], *args: Any) -> T:
        """Run a request of the SDK; its errors as Trouble."""
        try:
            return request(*args)
        except self._errors.APIError as error:
            details = error.details if isinstance(error.details, dict) else {}
            body = orjson.dumps(details if "error" in details else {"error": details})
            headers = getattr(error.response, "headers", None) or {}
            reading = read_error(error.code, headers, body)
            raise Trouble(
                reading.outcome,
                self._safe(reading.error or str(error)),
                wait_s=reading.wait_s,
                unsure=error.code >= 500 or error.code in (408, 499),
            ) from error
        except Exception as error:
            # The SDK lets its transport's errors through, whichever transport that is.
            if not isinstance(error, OSError | KeyError) and "httpx" not in type(error).__module__:
                raise
            told = self._safe(f"{type(error).__name__}: {error}")
            raise Trouble(Outcome.TRANSIENT, told, unsure=True) from error

    def _safe(self, told: str) -> str:
        return told.replace(self._secret, "[redacted]") if self._secret else told


def _batch(theirs: BatchJob) -> Batch:
    """A batch in our words. One that succeeded but names no file yet still runs."""
    status = theirs.state.name if theirs.state is not None else "JOB_STATE_UNSPECIFIED"
    file = theirs.dest.file_name if theirs.dest is not None else None
    if status in _ENDED and (file or status not in ("JOB_STATE_SUCCEEDED",)):
        state = State.ENDED
    elif status == "JOB_STATE_FAILED":
        state = State.ENDED if file else State.FAILED
    else:
        state = State.RUNNING
    error = theirs.error
    code = (error.code if error is not None else None) or 0
    told = (error.message if error is not None else None) or status
    trouble = {3: Outcome.INVALID, 5: Outcome.INVALID, 7: Outcome.AUTH, 8: Outcome.QUOTA}
    assert theirs.name is not None
    return Batch(
        id=theirs.name,
        state=state,
        status=status,
        outputs=(file,) if file else (),
        trouble=trouble.get(code, Outcome.TRANSIENT),
        error=told,
    )
