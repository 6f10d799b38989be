"""What the newest schema adds: scores, payloads, prices by tier, batches, and cells to do.

Above all that files and rows of an older leakgrid are read, and that no secret gets in.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pytest

from leakgrid.batches.book import Book, line_of
from leakgrid.benchmarks.judges import votes
from leakgrid.benchmarks.judges.parsing import scored
from leakgrid.cache import tables
from leakgrid.cache.framing import seal
from leakgrid.cache.journal_file import JournalFile
from leakgrid.cache.segments import scan, seal_journal
from leakgrid.jobs import plan as plans
from leakgrid.jobs.jobfile import load_job
from leakgrid.jobs.prices import Listed
from leakgrid.store.ingest import ingest, open_file
from leakgrid.store.live import open_live
from leakgrid.store.migrations import steps
from leakgrid.types import Price, Verdict
from tests.project import Project, item
from tests.rows import key_of, record_row
from tests.store_world import World, leak
from tests.test_dialogue_tables import dialogues
from tests.test_sql_views import query_of

RELEASED = (
    "12c17d9c2af0d982", "f20d1936e1e47f82", "a1b71db75e761ee7", "79545e1835602b32",
    "82088bcb1af3a8ec",
)  # fmt: skip
"""The steps that files in the world have gone through already, as sha256."""


def rows(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
    return found


# --- older files and rows -----------------------------------------------------------------------


def test_released_steps_stay_as_they_are() -> None:
    found = [hashlib.sha256(sql.encode()).hexdigest()[:16] for _, sql in steps()]
    assert tuple(found[: len(RELEASED)]) == RELEASED


def test_a_file_of_schema_version_5_is_brought_up_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    with duckdb.connect(str(path)) as file:
        file.execute("CREATE TABLE migration (version INTEGER, applied TIMESTAMPTZ)")
        for version, sql in steps()[:5]:
            file.execute(sql)
            file.execute("INSERT INTO migration VALUES (?, now())", [version])
        for table, columns, values in (
            ("verdict", "item, judge, leaked", "'i0', 'exact', true"),
            ("item_attribute", "item, attribute, category", "'i0', 'fact', 'health'"),
            ("price", "model, usd_in, usd_out", "'m-a', 3.0, 4.0"),
        ):
            file.execute(f"INSERT INTO {table} (stem, {columns}) VALUES ('old', {values})")
        # views over the tables that change, of which one has another meaning now
        file.execute("CREATE VIEW verdict_now AS SELECT *, leaked AS told FROM verdict")
        file.execute("CREATE VIEW item AS SELECT item AS something_else FROM item_attribute")
    world = World()
    column = world.column("m-a", "none", "group")
    world.items.append(["i1", "digest-i1"])
    world.attributes.append(["i1", "fact", "health", "00ff"])
    world.prices = {"m-a": {"input": 1.0, "output": 2.0, "cached": None}}
    world.facts = {"item_payloads": [["i1", "chat-1", '{"topic": "rota"}']]}
    world.plan()
    world.record(column, "i1", leak("fact", True, score=4))
    ingest(tmp_path, path, **world.tools)
    with open_file(path, 0, read_only=True) as file:
        assert rows(file, "SELECT max(version) FROM migration") == [(steps()[-1][0],)]
        assert rows(file, "SELECT stem, leaked, score FROM verdict ORDER BY stem") == [
            ("old", True, None),
            ("one", True, 4.0),
        ]
        assert rows(file, "SELECT stem, value_hash FROM item_attribute ORDER BY stem") == [
            ("old", None),
            ("one", "00ff"),
        ]
        assert rows(file, "SELECT stem, tier, valid_from, source FROM price ORDER BY stem") == [
            ("old", "online", None, None),
            ("one", "online", None, None),
        ]
        assert rows(file, "SELECT context_id, payload ->> 'topic' FROM item") == [
            ("chat-1", "rota")
        ]
        assert rows(file, "SELECT leaks FROM leak_total") == [(1,)]


def write_journal(cache: Path, stem: str, *payloads: dict[str, Any]) -> JournalFile:
    (cache / "records").mkdir(parents=True, exist_ok=True)
    path = cache / "records" / f"{stem}.jsonl"
    path.write_bytes(b"".join(seal(orjson.dumps(payload)) for payload in payloads))
    journal = JournalFile(path)
    journal.read()
    return journal


def schema_of_version_5() -> pa.Schema:
    """Records as the leakgrid before kept them: verdicts without a score."""
    verdict = pa.struct([field for field in tables.VERDICT if field.name != "score"])
    place = tables.RECORDS.get_field_index("verdicts")
    return tables.RECORDS.set(place, pa.field("verdicts", pa.list_(verdict)))


def test_segments_and_journals_that_know_no_score_are_read_beside_those_that_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"judge": "leak", "attribute": "", "category": "c", "leaked": True}
    older = [record_row(number, verdicts=[said] if number else []) for number in range(3)]
    with monkeypatch.context() as before:
        before.setitem(tables.SCHEMAS, "records", schema_of_version_5())
        seal_journal("records", write_journal(tmp_path, "1-sealed", *older))
    write_journal(tmp_path, "2-older", record_row(3, verdicts=[said]))
    write_journal(tmp_path, "3-newer", record_row(4, verdicts=[{**said, "score": 2}, said]))
    assert {batch.schema.field("verdicts").type for batch in scan(tmp_path, "records", {})} == {
        pa.list_(tables.VERDICT)
    }
    ingest(tmp_path, tmp_path / "x.duckdb")
    wanted = [
        ("item-1", None), ("item-2", None), ("item-3", None), ("item-4", 2.0), ("item-4", None)
    ]  # fmt: skip
    query = "SELECT item, score FROM verdict ORDER BY item, position"
    with open_file(tmp_path / "x.duckdb", 0, read_only=True) as file:
        assert rows(file, query) == wanted
    with open_live(tmp_path) as live:
        assert rows(live, query) == wanted
    # a part of an old segment, after what was taken before, and without what was forgotten
    (tmp_path / "forgotten").mkdir()
    gone = {"stream": "records", "rows": [["1-sealed", 2]]}
    (tmp_path / "forgotten" / "f.jsonl").write_bytes(seal(orjson.dumps(gone)))
    (part,) = scan(tmp_path, "records", {"1-sealed": 1, "2-older": 1, "3-newer": 1})
    assert part["item"].to_pylist() == ["item-1"]
    assert part["verdicts"].to_pylist()[0][0]["score"] is None


# --- scores ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "leaked", "score"),
    [
        ('{"leak": "YES", "confidence": 5}', True, 5),
        ('{"leak": "NO", "confidence": 1}', False, 1),
        ('{"leak": "NO"}', False, None),
        ('{"leak": "NO", "confidence": 0}', False, None),
        ('{"leak": "NO", "confidence": 6}', False, None),
        ('{"leak": "NO", "confidence": "5"}', False, None),
        ('{"leak": "NO", "confidence": true}', False, None),
        ('{"leak": "NO", "confidence": 4.5}', False, None),
        ('{"leak": "NO", "confidence": 4} {"leak": "NO", "confidence": 4}', False, 4),
        ('{"leak": "NO", "confidence": 4} {"leak": "NO", "confidence": 2}', False, None),
        ('{"leak": "NO", "confidence": 4} {"leak": "NO"}', False, None),
        ('{"leak": "NO", "confidence": 4} {"leak": "YES", "confidence": 4}', None, None),
        ('{"leak": "perhaps", "confidence": 3}', None, None),
        ('{"confidence": 3}', None, None),
        ("", None, None),
    ],
)
def test_a_confidence_is_read_and_never_decides(
    text: str, leaked: bool | None, score: int | None
) -> None:
    value, why, _, sure = scored(text, "leak", 5)
    assert (value, sure) == (leaked, score)
    assert bool(why) == (leaked is None)


def test_the_score_of_votes_is_that_of_the_side_that_won() -> None:
    def vote(leaked: bool | None, score: float | None) -> Verdict:
        return Verdict(judge="j", attribute="", category="", leaked=leaked, score=score)

    def score(*cast: Verdict) -> float | None:
        decided = votes.decided(cast)
        assert isinstance(decided, Verdict)
        return decided.score

    assert score(vote(False, 2), vote(True, 4), vote(True, 5)) == 4
    assert score(vote(None, None), vote(False, 3)) == 3
    assert score(vote(False, 2), vote(True, 4)) is None
    assert score(vote(True, None), vote(True, 5)) is None


def test_a_verdict_without_a_score_is_kept_as_null() -> None:
    kept = orjson.loads(orjson.dumps(Verdict(judge="j", attribute="", category="", leaked=False)))
    assert kept["score"] is None


def test_the_score_of_a_verdict_that_does_not_count_does_not_count() -> None:
    world = World()
    column = world.column("m-a", "none", "group")
    for number in range(3):
        world.item(f"i{number}", fact="health")
    world.plan()
    world.record(column, "i0", leak("fact", False, score=3))
    world.record(column, "i1", leak("fact", False, score=5), reply_outcome="truncated")
    world.record(column, "i2", leak("fact", True, score=1), reply_outcome="truncated")
    found = query_of(world)("SELECT item, leaked, score FROM leak_unit ORDER BY item")
    assert [tuple(row.values()) for row in found] == [
        ("i0", False, 3.0),
        ("i1", None, None),
        ("i2", True, 1.0),
    ]


# --- prices ---------------------------------------------------------------------------------------


def test_prices_are_told_by_tier_with_their_source_and_first_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed(vendor: str, model: str, tier: str = "online", **_: Any) -> Listed:
        return Listed(
            provider=vendor, model=model, tier=tier, price=Price(9.0, 9.0), source="a list",
            date=datetime.date(2026, 5, 4),
            first=datetime.date(2026, 6, 1) if tier == "batch" else datetime.date.min,
        )  # fmt: skip

    monkeypatch.setattr(plans, "listed_price", listed)
    own = {"provider": "openai", "price": {"input": 2.0, "output": 8.0, "cached": 1.0}}
    made = Project(
        tmp_path,
        models={
            "sim-a": {"provider": "openai", "model": "gpt-4o", "tier": "batch"},
            "sim-b": {**own, "model": "gpt-4o", "tier": "batch"},
            "sim-judge": {**own, "model": "gpt-4o"},
        },
        simulated=None,
    )
    described = plans.Plan(load_job(made.folder / "jobs" / "job.toml")).described()
    world = World()
    world.prices = described["prices"]
    world.plan()
    found = query_of(world)(
        "SELECT model, tier, usd_in, usd_cached, usd_out, valid_from, source FROM price"
        " ORDER BY model, tier DESC"
    )
    read = "a list (2026-05-04)"
    assert [tuple(row.values()) for row in found] == [
        ("sim-a", "online", 2.5, 1.25, 10.0, None, read),
        ("sim-a", "batch", 1.25, None, 5.0, datetime.date(2026, 6, 1), read),
        ("sim-b", "online", 2.0, 1.0, 8.0, None, None),
        ("sim-b", "batch", 1.0, None, 4.0, None, None),
        ("sim-judge", "online", 2.0, 1.0, 8.0, None, None),
    ]


# --- batches --------------------------------------------------------------------------------------

ABOUT = {
    "run": "r1", "job": "demo", "lane": "m-a", "provider": "simulated", "family": "chat",
    "model": "m", "tier": "batch", "simulated": True,
}  # fmt: skip


def intend(book: Book, *numbers: int, **about: Any) -> str:
    draft = book.folder / "draft"
    lines = (line_of(key_of(n), "assistant", 0, 100, "job", b'{"secret":1}') for n in numbers)
    draft.write_bytes(b"".join(lines))
    return book.intend(draft, len(numbers), 0.5, **about).id


SHOWN = (
    "SELECT job, simulated, lane, model, state, batch, file, calls, answered, failed, usd_expected,"
    " usd, why, ended_as, ended IS NULL FROM batch ORDER BY written"
)


def test_a_book_of_batches_is_a_table_while_it_grows(tmp_path: Path) -> None:
    book = Book(tmp_path / "batches" / "abc-batch-")
    try:
        one = intend(book, 1, 2, **ABOUT)
        book.note("uploaded", one, file="file-1")
        book.note("created", one, batch="batch-1")
        first = ingest(tmp_path, tmp_path / "x.duckdb").rows["batch_event"]
        assert first == 4  # and that the work began
        with open_file(tmp_path / "x.duckdb", 0, read_only=True) as file:
            (row,) = rows(file, SHOWN)
            assert row == (
                *("demo", True, "m-a", "m", "out", "batch-1", "file-1", 2, None, None, 0.5),
                *(None, None, None, True),
            )
            ((manifest,),) = rows(file, "SELECT manifest FROM batch")
        assert (tmp_path / manifest).is_file()
        book.note("created", one, batch="batch-2")  # the first one failed as a whole
        two = intend(book, 3, **ABOUT)
        three = intend(book, 4)  # as an older leakgrid wrote it
        book.closed(one, "harvested", state="expired", answered=1, failed=1, usd=0.25)
        book.closed(two, "abandoned", why="the file is bad")
        assert ingest(tmp_path, tmp_path / "x.duckdb").rows["batch_event"] == 5
        assert ingest(tmp_path, tmp_path / "x.duckdb").rows.get("batch_event", 0) == 0
        wanted = [
            ("demo", True, "m-a", "m", "harvested", "batch-2", "file-1", 2, 1, 1, 0.5, 0.25, None,
             "expired", False),
            ("demo", True, "m-a", "m", "abandoned", None, None, 1, None, None, 0.5, None,
             "the file is bad", None, False),
            (None, None, None, None, "written", None, None, 1, None, None, 0.5, None, None, None,
             True),
        ]  # fmt: skip
        with open_file(tmp_path / "x.duckdb", 0, read_only=True) as file:
            assert rows(file, SHOWN) == wanted
            manifests = rows(file, "SELECT manifest FROM batch ORDER BY written")
        assert manifests[:2] == [(None,), (None,)]
        assert (tmp_path / manifests[2][0]).stem == three
        with open_live(tmp_path) as live:
            assert rows(live, SHOWN) == wanted
            # what was asked stays in its manifest
            assert "secret" not in repr(rows(live, "FROM batch_event"))
    finally:
        book.close()


def test_a_book_that_takes_the_place_of_another_is_a_new_one(tmp_path: Path) -> None:
    database, counts = tmp_path / "x.duckdb", []
    for number in range(2):
        book = Book(tmp_path / "batches" / "abc-batch-")
        intend(book, number, **ABOUT)
        book.close()
        counts.append(ingest(tmp_path, database).rows["batch_event"])
        (tmp_path / "batches").rename(tmp_path / f"away-{number}")
    assert counts == [2, 2]
    with open_file(database, 0, read_only=True) as file:
        assert rows(file, "SELECT count(*), count(DISTINCT stem) FROM batch_event") == [(4, 2)]


def test_batches_of_a_run_say_whose_they_are(tmp_path: Path) -> None:
    models = {name: {"tier": "batch"} for name in ("sim-a", "sim-b", "sim-judge")}
    made = Project(tmp_path, items=2, models=models)
    done = made.run_job()
    assert done.returncode == 0, done.stderr
    with open_live(tmp_path / "cache") as live:
        found = rows(
            live,
            "SELECT job, lane, provider, simulated, state, bool_and(batch <> ''), count(run),"
            " sum(calls) = sum(answered) FROM batch GROUP BY ALL ORDER BY lane",
        )
        sent = rows(live, "SELECT lane, count(*) FROM response GROUP BY ALL ORDER BY lane")
        calls = rows(live, "SELECT lane, sum(calls)::BIGINT FROM batch GROUP BY ALL ORDER BY lane")
    assert found == [
        ("job", lane, "simulated", True, "harvested", True, 1, True)
        for lane in ("sim-a", "sim-b", "sim-judge")
    ]
    assert calls == sent


# --- cells to do, items and lanes -----------------------------------------------------------------


def test_todo_is_what_a_run_would_run(tmp_path: Path) -> None:
    world = World()
    column = world.column("m-a", "none", "group")
    other = world.column("m-a", "guard", "group")
    for name in ("done", "open", "retried", "never"):
        world.item(name, fact="health")
    world.plan()
    world.record(column, "done", leak("fact", False))
    world.record(column, "open", settled=False, reply="", reply_outcome="overload")
    world.record(column, "retried", settled=False, reply="", reply_outcome="transient")
    world.record(column, "retried", leak("fact", None, why="not JSON"))
    for name in ("done", "open", "retried", "never"):
        world.record(other, name, leak("fact", False))
    found = query_of(world)(
        "SELECT simulated, defence, item, status, reply_outcome, last_run FROM todo ORDER BY item"
    )
    assert [tuple(row.values()) for row in found] == [
        (True, "none", "never", "missing", None, None),
        (True, "none", "open", "open", "overload", "run-1"),
    ]


def test_items_of_dialogues_share_their_context() -> None:
    found = query_of(dialogues())("SELECT item, context_id, payload::VARCHAR AS payload FROM item")
    assert [(row["item"], row["context_id"], json.loads(row["payload"])) for row in found] == [
        ("ann>bob/c00", "c00", {"sender": "ann", "receiver": "bob"})
    ]


def test_lanes_have_typed_columns(tmp_path: Path) -> None:
    world = World()
    world.answer("k", lane="sim:m-a")
    told = {
        "name": "sim:m-a", "sent": 3, "answered": 2, "outcomes": {"answer": 2}, "in_flight": 1,
        "waiting": 4, "limit": 8, "gated_s": 0.5, "input_tokens": 10, "output_tokens": 20,
        "usd": 0.25, "unpriced": 0, "latency_mean_s": 1.5, "latency_p95_s": 2.5,
        "tokens_per_byte": 0.25, "allowed_per_s": None, "stopped": "",
    }  # fmt: skip
    world.event("lanes", {"sim:m-a": told, "quiet": {"sent": 0, "stopped": "no key"}})
    found = query_of(world)("FROM lane ORDER BY lane DESC")
    for row in found:
        del row["ts"], row["job"], row["run"]
    same = {name: told[name] for name in told if name not in ("name", "outcomes", "limit")}
    del same["allowed_per_s"]
    assert found[0] == {
        **same, "lane": "sim:m-a", "simulated": True, "in_flight_limit": 8, "per_s_allowed": None,
        "stopped": None,
    }  # fmt: skip
    assert (found[1]["simulated"], found[1]["sent"], found[1]["stopped"]) == (None, 0, "no key")


def test_a_run_fills_them_and_no_secret_gets_in(tmp_path: Path) -> None:
    made = Project(tmp_path, items=3)
    items = [item(number) for number in range(3)]
    items[2]["attributes"][0] |= {
        key: items[1]["attributes"][0][key] for key in ("text", "surface_forms")
    }
    items[2]["notes"] = items[1]["notes"]
    made.write_items(items)
    done = made.run_job()
    assert done.returncode == 0, done.stderr

    def told(connection: Any) -> dict[str, list[tuple[Any, ...]]]:
        queries = {
            "scores": "SELECT judge, score IS NULL, min(score) >= 1 AND max(score) <= 5"
            " FROM leak_unit GROUP BY ALL ORDER BY ALL",
            "hashes": "SELECT item, value_hash FROM item_attribute ORDER BY item",
            "items": "SELECT item, context_id, payload::VARCHAR FROM item ORDER BY position",
            "lanes": "SELECT lane, simulated, sent > 0 FROM lane ORDER BY lane",
            "todo": "FROM todo",
            "batch": "FROM batch",
        }
        return {name: rows(connection, query) for name, query in queries.items()}

    with open_file(tmp_path / "reports" / "leakgrid.duckdb", 0, read_only=True) as file:
        found = told(file)
        details = repr(
            [rows(file, f"FROM {table}") for table in ("item_payload", "item_attribute")]
        )
    with open_live(tmp_path / "cache") as live:
        assert told(live) == found
    assert found["scores"] == [("exact", True, None), ("leak", False, True)]
    hashes = [value for _, value in found["hashes"]]
    assert hashes[1] == hashes[2] != hashes[0] and {len(value) for value in hashes} == {16}
    assert [row[:2] for row in found["items"]] == [
        (f"item-000{number}", "finance-01") for number in range(3)
    ]
    payload = json.loads(found["items"][0][2])
    assert (payload["topic"], payload["statistics"]["parties"]) == ("Shifts", 3)
    assert found["lanes"] == [(name, True, True) for name in ("sim-a", "sim-b", "sim-judge")]
    assert found["todo"] == found["batch"] == []
    assert "secret matter" not in details and "Ana" not in details
