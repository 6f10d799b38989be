"""Results go into the database behind a long run, and the rest at its end; errors are told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pytest

from leakgrid.cache.journal import Journal
from leakgrid.jobs import command
from leakgrid.outcomes import StoreError
from leakgrid.store import landing
from leakgrid.store.derive import selects
from leakgrid.store.landing import Landing
from tests.project import Project
from tests.rows import record_row

PATIENCE_S = 60.0


def rows(database: Path, query: str = "SELECT item FROM reply ORDER BY item") -> list[Any]:
    with duckdb.connect(str(database), read_only=True) as connection:
        return connection.execute(query).fetchall()


async def until(true: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    give_up = time.monotonic() + PATIENCE_S
    while not await asyncio.to_thread(true):
        assert time.monotonic() < give_up, "it never happened"
        await asyncio.sleep(0.05)


def landed(database: Path) -> list[int]:
    """Numbers of the items that are in the database; none while another process holds it."""
    with contextlib.suppress(duckdb.Error):
        return [int(item.removeprefix("item-")) for (item,) in rows(database)]
    return []


@contextlib.asynccontextmanager
async def following(project: Path, calls: list[int]) -> Any:
    """A landing that follows ``calls[0]`` call by call, and a journal of records to write to."""
    landing = Landing(project / "cache", project / "x.duckdb", step=1)
    async with Journal(project / "cache" / "records") as journal:
        task = asyncio.ensure_future(landing.follow(lambda: calls[0]))
        try:
            yield landing, journal
        finally:
            task.cancel()
            await asyncio.wait([task])


async def keep(journal: Journal, *numbers: int) -> None:
    for number in numbers:
        await journal.append(orjson.dumps(record_row(number)))


def test_rows_arrive_while_the_run_goes_on_and_once(tmp_path: Path) -> None:
    async def main() -> None:
        calls = [0]
        database = tmp_path / "x.duckdb"

        def there(*numbers: int) -> bool:
            calls[0] += 1  # where a look was in the follower's way, its next turn makes it good
            return landed(database) == [*numbers]

        async with following(tmp_path, calls) as (landing, journal):
            await keep(journal, 0, 1)
            await until(lambda: there(0, 1))
            await keep(journal, 2)
            await until(lambda: there(0, 1, 2))
            await keep(journal, 3)
        told = await asyncio.to_thread(landing.finish)
        assert await asyncio.to_thread(landed, database) == [0, 1, 2, 3]
        assert told.rows["reply"] == 4
        assert told.peak_mb >= 0

    asyncio.run(main())


def test_a_database_in_use_is_tried_again(tmp_path: Path) -> None:
    async def main() -> None:
        calls = [0]
        database = tmp_path / "x.duckdb"
        async with following(tmp_path, calls) as (landing, journal):
            await keep(journal, 0)
            with await asyncio.to_thread(duckdb.connect, str(database)):
                calls[0] = 1
                await until(lambda: landing._follower is not None)
                await asyncio.sleep(1.0)
                assert landing._follower is not None and landing._follower.poll() is None
            await keep(journal, 1)
        await asyncio.to_thread(landing.finish)
        assert await asyncio.to_thread(landed, database) == [0, 1]

    asyncio.run(main())


def test_a_follower_that_is_killed_is_told_and_loses_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        calls = [0]
        async with following(tmp_path, calls) as (landing, journal):
            await keep(journal, 0)
            calls[0] = 1
            await until(lambda: landed(tmp_path / "x.duckdb") == [0])
            assert landing._follower is not None
            os.kill(landing._follower.pid, signal.SIGKILL)
            await keep(journal, 1)
            calls[0] = 2
            await asyncio.sleep(2 * 0.25)  # a line to nobody is no reason to fail
        with pytest.raises(StoreError, match="exit code -9"):
            await asyncio.to_thread(landing.finish)
        await asyncio.to_thread(Landing(tmp_path / "cache", tmp_path / "x.duckdb").finish)
        assert await asyncio.to_thread(landed, tmp_path / "x.duckdb") == [0, 1]

    asyncio.run(main())


def test_a_long_run_is_followed_and_ends_as_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, items=4)
    monkeypatch.chdir(tmp_path)
    followed: list[Landing] = []

    class Followed(Landing):
        """Followed from its first call on."""

        def __init__(self, cache: Path, database: Path) -> None:
            super().__init__(cache, database, step=1)

        def finish(self) -> landing.Landed:
            if self._follower is not None:
                followed.append(self)
            return super().finish()

    monkeypatch.setattr(landing, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(landing, "Landing", Followed)
    job = project.folder / "jobs" / "job.toml"
    ended = command.run_job(job, tmp_path / "cache", tmp_path / "long.duckdb", quiet=True)
    assert ended.exit_code == 0, capsys.readouterr().err
    assert len(followed) == 1
    Landing(tmp_path / "cache", tmp_path / "short.duckdb").finish()
    for stream in selects().values():
        for table in stream:
            query = f"SELECT * FROM {table} ORDER BY ALL"
            assert rows(tmp_path / "long.duckdb", query) == rows(tmp_path / "short.duckdb", query)


def test_a_file_that_is_no_database_is_told_with_what_to_do(tmp_path: Path) -> None:
    project = Project(tmp_path, items=1)
    assert project.run_job().returncode == 0
    wrong = tmp_path / "wrong.duckdb"
    wrong.write_text("no database")
    with pytest.raises(StoreError, match="delete the file and try again"):
        Landing(tmp_path / "cache", wrong).finish()
    followed = Landing(tmp_path / "cache", wrong)
    followed._start()
    with pytest.raises(StoreError, match="delete the file and try again"):
        followed.finish()
