"""inspect_ai's eval() over a task whose samples ask once, as its documentation runs an eval."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import tempfile
from typing import Any

from tests.bench.work import measured, messages


def main(base_url: str, calls: int, workers: int, provider: str, *, log_samples: bool) -> None:
    """Evaluate ``calls`` samples with ``workers`` connections, logging into a folder that goes."""
    inspect: Any = importlib.import_module("inspect_ai")
    datasets: Any = importlib.import_module("inspect_ai.dataset")
    models: Any = importlib.import_module("inspect_ai.model")
    solvers: Any = importlib.import_module("inspect_ai.solver")

    def sample(number: int) -> Any:
        system, user = messages(number)
        return datasets.Sample(
            id=number,
            input=[
                models.ChatMessageSystem(content=system["content"]),
                models.ChatMessageUser(content=user["content"]),
            ],
        )

    dataset = datasets.MemoryDataset([sample(number) for number in range(calls)])
    model = models.get_model(f"{provider}/m", base_url=base_url, api_key="none")
    with tempfile.TemporaryDirectory() as folder, measured(calls) as more:
        (log,) = inspect.eval(
            inspect.Task(dataset=dataset, solver=solvers.generate()),
            model=model,
            max_connections=workers,
            max_samples=workers,
            max_tokens=300,
            display="none",
            log_dir=folder,
            log_level="error",
            log_samples=log_samples,
            fail_on_error=True,
        )
        assert log.status == "success", log.error
        more["done"] = log.results.completed_samples if log.results else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("base_url")
    parser.add_argument("calls", type=int)
    parser.add_argument("workers", type=int)
    parser.add_argument("--provider", default="openai-api/standin")
    parser.add_argument("--uvloop", action="store_true")
    parser.add_argument("--no-log-samples", action="store_true")
    given = parser.parse_args()
    if given.uvloop:
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    main(
        given.base_url,
        given.calls,
        given.workers,
        given.provider,
        log_samples=not given.no_log_samples,
    )
