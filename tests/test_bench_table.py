"""The README's table of speeds: its form, never its numbers."""

from __future__ import annotations

from tests.bench.table import (
    BEGIN,
    COLUMNS,
    END,
    MEASURES,
    MISSING,
    NO,
    NONE,
    PARTS,
    README,
    SO_FAR,
    YES,
    inside,
    missing,
    parse,
    render,
    row,
    written,
)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_readme_has_a_row_for_every_measure() -> None:
    text = README.read_text("utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    table = [line for line in inside(text).splitlines() if line.startswith("|")]
    assert cells(table[0]) == list(COLUMNS)
    rows = [cells(line) for line in table[2:]]
    assert [found[0] for found in rows] == [measure.what for measure in MEASURES.values()]
    assert [found[2] for found in rows] == [measure.bar for measure in MEASURES.values()]
    assert {found[3] for found in rows} <= {YES, NO, SO_FAR, NONE, MISSING}
    assert "`just bench`" in inside(text)


def test_every_measure_with_a_bar_says_what_the_bar_means() -> None:
    for measure in MEASURES.values():
        sides = (measure.least is not None) + (measure.most is not None)
        assert sides == (0 if measure.bar == NONE else 1)
        assert measure.bar[0] == ("≥" if measure.least is not None else measure.bar[0])
        assert "|" not in measure.what
    assert PARTS == ("throughput", "quota", "scale", "commands", "prefix")


def test_a_bar_holds_at_its_edge_only_where_it_says_so() -> None:
    assert row("cpu", 2.2, "").reached == YES
    assert row("cpu", 2.21, "").reached == NO
    assert row("lag", 20, "").reached == NO
    assert row("bare", 45, "").reached == YES
    assert row("bare", 44.9, "").reached == NO
    assert row("pool", 0, "").reached == NONE


def test_a_smaller_size_never_reaches_a_bar() -> None:
    assert row("memory", 100, "", whole=False).reached == SO_FAR
    assert row("memory", 400, "", whole=False).reached == NO


def test_a_table_is_read_back_as_it_was_written() -> None:
    rows = [row("bare", 50, "50 %"), missing("openai", "no network")]
    found = parse(render(rows))
    assert found[: len(rows)] == [rows[0], *found[1:2]]
    by_name = {found_row.measure: found_row for found_row in found}
    assert by_name[MEASURES["openai"]].reached == MISSING
    assert len(found) == len(MEASURES)


def test_parts_that_were_not_run_stay_as_they_are() -> None:
    page = f"before\n{BEGIN}\n{END}\nafter"
    page = written(page, [row("bare", 50, "50 %"), row("lag", 5, "5 ms")])
    page = written(page, [row("lag", 30, "30 ms")])
    assert page.startswith("before\n") and page.endswith("\nafter")
    values = {found.measure: (found.value, found.reached) for found in parse(inside(page))}
    assert values[MEASURES["bare"]] == ("50 %", YES)
    assert values[MEASURES["lag"]] == ("30 ms", NO)
