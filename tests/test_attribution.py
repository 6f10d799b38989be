"""Error attribution: who is asked about, what answers mean, and that unknown decides nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakgrid.benchmarks.muppet.attribution import (
    GAP,
    INCONCLUSIVE,
    LOST_TRACK,
    MOST_EACH,
    UNRESOLVED,
    asked_about,
    cause,
)
from leakgrid.datasets.items import load_items
from leakgrid.types import Probe
from tests.project import ROOT, Project


def people(uninformed: str, informed: str = "") -> list[Probe]:
    """Probes by their answers: + right, - wrong, ? unknown."""
    made = []
    for truth, answers in ((False, uninformed), (True, informed)):
        for number, answer in enumerate(answers):
            said = {"+": truth, "-": not truth, "?": None}[answer]
            made.append(Probe(kind="user", target=f"p{truth}{number}", truth=truth, said=said))
    return made


def group(answer: str) -> Probe:
    return Probe(
        kind="group", target="", truth=False, said={"+": False, "-": True, "?": None}[answer]
    )


CASES = [
    # uninformed, informed, group, strict, lenient
    ("+++", "++", "+", GAP, GAP),
    ("+++", "++", "-", UNRESOLVED, UNRESOLVED),
    ("-++", "++", "+", LOST_TRACK, GAP),
    ("-++", "++", "-", LOST_TRACK, UNRESOLVED),
    ("---", "++", "+", LOST_TRACK, LOST_TRACK),
    ("+++", "--", "+", GAP, LOST_TRACK),
    ("+++", "+-", "-", UNRESOLVED, LOST_TRACK),
    ("-" + "+" * 6, "+" * 7, "+", LOST_TRACK, GAP),
    ("--" + "+" * 5, "+" * 7, "+", LOST_TRACK, GAP),
    ("---" + "+" * 4, "+" * 7, "+", LOST_TRACK, LOST_TRACK),
    ("+++", "", "+", GAP, GAP),
    ("", "++", "+", INCONCLUSIVE, GAP),
    ("?++", "++", "+", INCONCLUSIVE, INCONCLUSIVE),
    ("+++", "?+", "+", GAP, INCONCLUSIVE),
    ("+++", "++", "?", INCONCLUSIVE, INCONCLUSIVE),
    ("---", "++", "?", INCONCLUSIVE, INCONCLUSIVE),
    ("", "", "+", INCONCLUSIVE, INCONCLUSIVE),
]


@pytest.mark.parametrize(("uninformed", "informed", "answer", "strict", "lenient"), CASES)
def test_the_cause_follows_from_the_answers(
    uninformed: str, informed: str, answer: str, strict: str, lenient: str
) -> None:
    probes = [*people(uninformed, informed), group(answer)]
    assert cause(probes, lenient=False) == strict
    assert cause(probes, lenient=True) == lenient


def test_without_a_group_probe_nothing_is_concluded() -> None:
    assert cause(people("+++", "++"), lenient=False) == INCONCLUSIVE


def test_the_asker_is_always_asked_about_and_never_too_many() -> None:
    for item in load_items(ROOT / "datasets" / "muppet" / "items.jsonl"):
        asked = asked_about(item)
        assert item.asker in asked and item.owner not in asked
        assert len(asked) == len(set(asked))
        assert sum(name in item.uninformed for name in asked) == min(
            MOST_EACH, len(item.uninformed)
        )
        assert sum(name in item.informed for name in asked) == min(MOST_EACH, len(item.informed))
        assert asked == asked_about(item)


PLANTED = [
    # people right, group right -> strict cause of every leak
    (1.0, 1.0, GAP),
    (1.0, 0.0, UNRESOLVED),
    (0.0, 1.0, LOST_TRACK),
]


@pytest.mark.parametrize(("knows", "boundaries", "expected"), PLANTED)
def test_planted_causes_are_recovered_through_the_whole_engine(
    tmp_path: Path, knows: float, boundaries: float, expected: str
) -> None:
    project = Project(
        tmp_path,
        items=8,
        job={"models": ["sim-a"], "defences": ["none"]},
        attribution={"judge": "exact", "controls": 0.5},
        simulated={
            "assistants": {"sim-a": {"leak": 0.6, "knows": knows, "boundaries": boundaries}}
        },
    )
    done = project.run_job()
    assert done.returncode == 0, done.stderr
    leaks = project.sql("SELECT count(*) AS n FROM verdict_now WHERE judge = 'exact' AND leaked")
    rows = project.sql("SELECT probed, strict, lenient, uninformed, informed FROM attribution")
    probed = [row for row in rows if row["probed"] == "leak"]
    assert len(probed) == leaks[0]["n"] > 2
    assert {row["strict"] for row in probed} == {expected}
    assert {row["lenient"] for row in probed} == {expected}
    # Bo Chen is uninformed, Cy Diaz informed; the asker's own knowledge is in the plan.
    assert {(row["uninformed"], row["informed"]) for row in rows} == {(1, 1)}
    clean = project.sql(
        "SELECT count(*) AS n FROM verdict_now WHERE judge = 'exact' AND leaked = false"
    )
    assert 0 < len(rows) - len(probed) < clean[0]["n"]
    shares = project.sql(
        "SELECT cause, share FROM attribution_share WHERE probed = 'leak' AND reading = 'strict'"
    )
    assert all(row["cause"] == expected and row["share"] == 1.0 for row in shares)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("knows", "boundaries", "expected"), PLANTED)
def test_planted_causes_are_recovered_on_the_shipped_items(
    tmp_path: Path, knows: float, boundaries: float, expected: str
) -> None:
    project = Project(
        tmp_path,
        job={
            "models": ["sim-a"],
            "defences": ["none"],
            "conditions": ["group"],
            "judges": ["exact"],
            "dataset": str(ROOT / "datasets" / "muppet" / "items.jsonl"),
            "limit": 60,
        },
        attribution={"judge": "exact", "controls": 0.0},
        simulated={
            "assistants": {"sim-a": {"leak": 0.6, "knows": knows, "boundaries": boundaries}}
        },
    )
    done = project.run_job()
    assert done.returncode == 0, done.stderr
    rows = project.sql("SELECT strict, lenient, count(*) AS n FROM attribution GROUP BY ALL")
    assert {(row["strict"], row["lenient"]) for row in rows} == {(expected, expected)}
    assert sum(row["n"] for row in rows) > 20


def test_sql_and_program_agree_on_every_case(tmp_path: Path) -> None:
    """The rules stand twice, here and in views.sql: they must never part."""
    import duckdb

    from leakgrid.store.migrations import read_sql, steps

    with duckdb.connect() as database:
        for _, sql in steps():
            database.execute(sql)
        database.execute(read_sql("views.sql"))
        for number, (uninformed, informed, answer, strict, lenient) in enumerate(CASES):
            probes = [*people(uninformed, informed), group(answer)]
            database.execute(
                "INSERT INTO plan BY NAME SELECT ? AS stem, 0 AS ordinal, ? AS job, "
                "now()::TIMESTAMP AS ts",
                [f"p{number}", f"j{number}"],
            )
            database.execute(
                "INSERT INTO plan_column BY NAME SELECT ? AS stem, 0 AS ordinal, 'c' AS column_id,"
                " 'm' AS model, 'none' AS defence, 'group' AS condition, 0 AS sample,"
                " false AS simulated",
                [f"p{number}"],
            )
            database.execute(
                "INSERT INTO plan_item BY NAME SELECT ? AS stem, 0 AS ordinal, ? AS item,"
                " 'd' AS digest",
                [f"p{number}", f"i{number}"],
            )
            database.execute(
                "INSERT INTO reply BY NAME SELECT ? AS stem, 0 AS ordinal, 'c' AS column_id,"
                " ? AS item, 'd' AS digest, true AS settled, 'answer' AS outcome, 'x' AS reply,"
                ' \'{"probed": "leak"}\'::JSON AS extra, now()::TIMESTAMP AS ts',
                [f"r{number}", f"i{number}"],
            )
            for probe in probes:
                database.execute(
                    "INSERT INTO probe BY NAME SELECT ? AS stem, 0 AS ordinal, ? AS kind,"
                    " ? AS truth, ? AS said",
                    [f"r{number}", probe.kind, probe.truth, probe.said],
                )
            found = database.execute(
                "SELECT strict, lenient FROM attribution WHERE job = ?", [f"j{number}"]
            ).fetchall()
            assert found == [(strict, lenient)], CASES[number]
