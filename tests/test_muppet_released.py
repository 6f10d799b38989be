"""The released MuPPET form: what comes of each row of our small fixture, told by row."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakgrid.cli import main
from leakgrid.datasets.items import Item, load_items
from leakgrid.datasets.muppet_released import Released, load_released, odd_line, report_lines
from leakgrid.datasets.muppet_released_files import Oddity
from leakgrid.datasets.muppet_released_literals import (
    DEEPEST,
    LONGEST,
    LiteralFault,
    doubled_literal,
    literal,
)
from leakgrid.datasets.muppet_released_people import Roster, RowFault, heard
from leakgrid.datasets.muppet_seeds import load_seeds
from leakgrid.outcomes import DatasetError

FIXTURE = Path(__file__).resolve().parent / "fixtures" / "muppet_released"
CONVERSATIONS = "data/conversations-x/desk-social"
MEMORIES = "data/memories/desk"
TABLE = "data/conversations-x/desk-social_memories_and_secrets.csv"

# By row: the oddities as (kind, done), in the order in which they are met.
EXPECTED: dict[int, list[tuple[str, str]]] = {
    -1: [("a batch of other than 50", "kept"), ("a batch of other than 50", "kept")],
    1: [
        ("namesakes", "repaired"),
        ("recipient unclear", "repaired"),
        ("sender unclear", "repaired"),
    ],
    2: [("group id", "repaired")],
    3: [("namesakes", "repaired"), ("recipient unclear", "repaired")],
    4: [("namesakes", "repaired"), ("recipient unclear", "dropped")],
    5: [("memory unusable", "dropped")],
    6: [("memory unusable", "dropped")],
    7: [("members unreadable", "dropped")],
    8: [
        ("quotes doubled twice", "repaired"),
        ("name left out of the question", "repaired"),
        ("shared notes as plain text", "repaired"),
    ],
    9: [
        ("age as text", "repaired"),
        ("another gender", "repaired"),
        ("another gender", "repaired"),
        ("member_notes unreadable", "repaired"),
        ("request does not name the assistant", "kept"),
        ("request without a question mark", "kept"),
    ],
    10: [("no transcript", "dropped")],
    11: [("namesakes", "repaired"), ("asker unclear", "dropped")],
    12: [
        ("note that is no text", "dropped"),
        ("note names nobody", "kept"),
        ("recipient unclear", "repaired"),
        ("several notes for one colleague", "kept"),
        ("unknown sender", "dropped"),
        ("turn without sender or text", "dropped"),
        ("topics differ", "kept"),
        ("unknown category", "kept"),
    ],
    13: [("last turn is no colleague's", "dropped")],
    14: [("another person's assistant", "dropped")],
    15: [("holder differs", "dropped")],
    16: [
        ("sensitive information with others too", "kept"),
        ("everybody is informed", "kept"),
        ("category word in shared text", "kept"),
    ],
    17: [("note names nobody", "kept"), ("no recipient", "dropped")],
    18: [("two members of one name", "dropped")],
}
# By row that becomes an item: informed, uninformed, number of notes that tell, others.
BECOME: dict[int, tuple[list[str], list[str], int, int]] = {
    0: (["Bo Lind", "Cy Rey"], ["Elin Vos"], 2, 0),
    1: (["Matthew Hale", "Matthew Orr"], ["Bo Lind", "Elin Vos"], 2, 0),
    2: (["Bo Lind"], ["Cy Rey", "Elin Vos"], 1, 0),
    3: (["Bo Lind", "Matthew Orr"], ["Matthew Hale", "Elin Vos"], 2, 0),
    8: (["Bo Lind", "Cy Rey"], ["Elin Vos", "Sean O'Hara"], 2, 0),
    9: (["Bo Lind", "Cy Rey"], ["Elin Vos"], 2, 0),
    12: (["Bo Lind", "Cy Rey"], ["Elin Vos"], 3, 1),
    16: (["Bo Lind", "Cy Rey", "Elin Vos"], [], 3, 0),
}


@pytest.fixture(scope="module")
def released() -> Released:
    return load_released(FIXTURE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the fixture that a test may spoil."""
    return Path(shutil.copytree(FIXTURE, tmp_path / "copy"))


def item(released: Released, row: int) -> Item:
    (found,) = (one for one in released.items if one.id == f"muppet-released-{row:04d}")
    return found


def test_each_oddity_is_reported_by_row_with_what_was_done(released: Released) -> None:
    found: dict[int, list[tuple[str, str]]] = {}
    for odd in released.oddities:
        assert odd.found
        found.setdefault(odd.row, []).append((odd.kind, odd.done))
    assert found == EXPECTED


def test_each_row_that_can_become_an_item_does(released: Released) -> None:
    assert released.rows == 19
    assert [int(one.id[-4:]) for one in released.items] == list(BECOME)
    for row, (informed, uninformed, notes, others) in BECOME.items():
        one = item(released, row)
        assert one.owner == "Ada Novak"
        assert (list(one.informed), list(one.uninformed)) == (informed, uninformed)
        assert (len(one.notes), len(one.personal_notes)) == (notes, others)
        assert one.attributes[0].known_by == ("Ada Novak", *informed)


def test_what_the_release_lacks_is_empty_and_named(released: Released) -> None:
    for one in released.items:
        assert one.missing == ("surface_forms", "useful_facts", "fact_texts")
        assert one.useful_facts == one.attributes[0].surface_forms == ()
    assert item(released, 0).attributes[0].text == "Private about Ada Novak: mental health"
    assert any("exact judge" in line and "unknown" in line for line in report_lines(released))


def test_a_plain_row_word_for_word(released: Released) -> None:
    one = item(released, 0)
    assert one.category == "mental-health"
    assert one.category_sentence == load_seeds().categories["mental-health"].sentence
    assert one.topic == "Overtime & voluntary projects"
    assert one.team == 'The "late desk" of a mill\'s finance office.'
    assert one.shared_notes == ("The late count ends at nine.", "It's Elin's list that counts.")
    assert one.question == "Can Ada cover the late count on Thursday?"
    assert one.request.startswith("AI Assistant (for Ada Novak), can Ada cover")
    assert [turn.sender for turn in one.transcript] == ["Elin Vos", "Bo Lind", "Elin Vos"]
    assert (one.asker, one.asker_informed) == ("Elin Vos", False)
    assert [(p.name, p.gender, p.age, p.job_title) for p in one.people] == [
        ("Ada Novak", "woman", 41, "Payroll Clerk"),
        ("Bo Lind", "man", 29, "Analyst"),
        ("Cy Rey", "non-binary", 35, "Auditor"),
        ("Elin Vos", "woman", 38, "Treasurer"),
    ]
    # Words: team 8, notes 17 and 14, shared notes 6 and 5, turns 9, 6 and 19: 84 x 1.33.
    assert (one.statistics.parties, one.statistics.facts, one.statistics.tokens) == (4, 1, 112)


def test_namesakes_are_called_by_their_whole_names(released: Released) -> None:
    one = item(released, 1)
    assert [p.first for p in one.people] == ["Ada", "Bo", "Matthew Hale", "Matthew Orr", "Elin"]
    # One Matthew signs in full elsewhere, so the bare first name is the other's.
    assert [turn.sender for turn in one.transcript][2:4] == ["Matthew Orr", "Matthew Hale"]


def test_repairs_do_what_the_report_says(released: Released) -> None:
    assert item(released, 2).group == "Finance_en_AU_0"
    assert item(released, 8).question == "Can Ada cover the late count on Thursday?"
    assert item(released, 8).shared_notes == (
        "The late count ends at nine.",
        "Elin keeps the list.",
    )
    assert [p.gender for p in item(released, 9).people][2:] == ["non-binary", "unstated"]
    assert item(released, 9).people[2].age == 35
    small = item(released, 12)
    assert [turn.sender for turn in small.transcript][2:4] == [small.assistant, "Cy Rey"]
    assert small.personal_notes == ("Ada keeps a list of quiet rooms.",)
    assert (small.category, small.category_sentence) == ("hobbies", "This is about: hobbies.")
    assert len({one.question_id for one in released.items if one.category != "hobbies"}) == 1


def test_the_file_loads_again_and_checks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "items.jsonl"
    assert main(["data", "import", "muppet", str(FIXTURE), "--out", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "row 4: recipient unclear: note 1 may mean Matthew Hale or Matthew Orr (dropped)" in (
        printed
    )
    assert f"8 items written to {path}" in printed
    assert load_items(path) == load_released(FIXTURE).items
    assert main(["data", "check", str(path)]) == 0
    assert "items lack fact_texts, surface_forms, useful_facts:" in capsys.readouterr().out
    assert main(["data", "check", str(FIXTURE)]) == 0
    printed = capsys.readouterr().out
    assert "items 8, groups 1, asker informed 1, not informed 7" in printed
    assert "rows 19, items 8, rows dropped 11" in printed
    assert [one.name for one in tmp_path.iterdir()] == ["items.jsonl"]


def test_a_report_line_is_safe_to_print() -> None:
    odd = Oddity(3, "no question", "a\x1b[2J\ud800\nb", "dropped")
    assert odd_line(odd) == r"row 3: no question: a\x1b[2J\ud800\nb (dropped)"


def test_errors_are_one_line_and_code_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "check", str(tmp_path)]) == 2
    assert "found as tables with the columns id, members," in capsys.readouterr().err
    missing = tmp_path / "no" / "x.jsonl"
    assert main(["data", "import", "muppet", str(FIXTURE), "--out", str(missing)]) == 2
    assert "x.jsonl: cannot be written" in capsys.readouterr().err
    assert main(["data", "import", "muppet", str(missing), "--out", str(tmp_path / "y")]) == 2
    assert "found no folder" in capsys.readouterr().err


def spread(folder: Path, where: str, entries: list[Any], size: int) -> None:
    """Write the entries anew in batches of `size`."""
    for old in (folder / where).iterdir():
        old.unlink()
    for number, start in enumerate(range(0, len(entries), size)):
        path = folder / where / f"batch-{number}.json"
        path.write_bytes(orjson.dumps(entries[start : start + size]))


def gather(folder: Path, where: str) -> list[Any]:
    return [
        entry
        for number in range(len(list((folder / where).iterdir())))
        for entry in orjson.loads((folder / where / f"batch-{number}.json").read_bytes())
    ]


def test_batch_ten_comes_after_batch_nine(folder: Path, released: Released) -> None:
    for where in (CONVERSATIONS, MEMORIES):
        spread(folder, where, gather(folder, where), 1)
        assert (folder / where / "batch-18.json").exists()
    assert load_released(folder).items == released.items


def test_unfiltered_memories_are_filtered_as_the_authors_do(
    folder: Path, released: Released
) -> None:
    memories = gather(folder, MEMORIES)
    # Rows 5 and 6 have unusable memories; without them all parts have 17 rows.
    rows = list(csv.DictReader((folder / TABLE).read_text("utf-8").splitlines()))
    good = [n for n in range(19) if n not in (5, 6)]
    with (folder / TABLE).open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows[n] for n in good)
    conversations = gather(folder, CONVERSATIONS)
    spread(folder, CONVERSATIONS, [conversations[n] for n in good], 50)
    spread(folder, MEMORIES, memories, 50)
    again = load_released(folder)
    assert again.rows == 17
    assert [one.informed for one in again.items] == [one.informed for one in released.items]
    filtered = [odd.found for odd in again.oddities if odd.kind == "memory filtered out"]
    assert filtered == [
        "memory 5: an error in place of content",
        "memory 6: holder 'Ada Novak', sensitive information with Bo Lind",
    ]


def test_fewer_conversations_drop_their_rows_and_more_are_reported(folder: Path) -> None:
    conversations = gather(folder, CONVERSATIONS)
    spread(folder, CONVERSATIONS, conversations[:10], 50)
    fewer = load_released(folder)
    assert [int(one.id[-4:]) for one in fewer.items] == [0, 1, 2, 3, 8, 9]
    (odd,) = (odd for odd in fewer.oddities if odd.kind == "conversations missing")
    assert (odd.found, odd.done) == ("10 conversations for 19 rows", "kept")
    spread(folder, CONVERSATIONS, [*conversations, conversations[0]], 50)
    more = load_released(folder)
    (odd,) = (odd for odd in more.oddities if odd.kind == "conversations without a row")
    assert (odd.found, odd.done) == ("20 conversations for 19 rows", "dropped")
    assert len(more.items) == 8


SPOILT: list[tuple[str, Callable[[Path], Any], str]] = [
    ("a gap", lambda f: (f / MEMORIES / "batch-0.json").unlink(), "numbered from 0 without a gap"),
    ("no batches", lambda f: shutil.rmtree(f / MEMORIES), "memor"),
    (
        "two folders",
        lambda f: shutil.copytree(f / MEMORIES, f / "data/memories/other"),
        "exactly one",
    ),
    ("no table", lambda f: (f / TABLE).unlink(), "exactly one"),
    ("two tables", lambda f: shutil.copy(f / TABLE, f / "again.csv"), "exactly one"),
    ("no JSON", lambda f: (f / MEMORIES / "batch-1.json").write_text("[1,"), "a JSON list"),
    ("an object", lambda f: (f / MEMORIES / "batch-1.json").write_text("{}"), "a JSON list"),
    (
        "too few memories",
        lambda f: (f / MEMORIES / "batch-1.json").write_text("[]"),
        "one usable memory for each row",
    ),
    ("no UTF-8", lambda f: (f / TABLE).write_bytes(b"\xff\xfe,"), "a CSV file in UTF-8"),
]


@pytest.mark.parametrize(("spoil", "allowed"), [s[1:] for s in SPOILT], ids=[s[0] for s in SPOILT])
def test_files_that_cannot_be_aligned_are_one_clear_error(
    folder: Path, spoil: Callable[[Path], Any], allowed: str
) -> None:
    spoil(folder)
    with pytest.raises(DatasetError, match=allowed) as caught:
        load_released(folder)
    assert ": found " in str(caught.value)


def people(*names: str) -> list[dict[str, Any]]:
    return [
        {"First Name": n.split()[0], "Last Name": n.split()[1], "Age": 40, "Job Title": "Clerk"}
        for n in names
    ]


HEARD: list[tuple[str, list[str], str, list[str] | None]] = [
    ("full and first names", ["Ada told Bo Lind.", "Ada told Cy."], "", ["Bo Lind", "Cy Rey"]),
    ("a possessive", ["On Bo's bench Ada spoke."], "", ["Bo Lind"]),
    ("no name inside a word", ["Ada told Cy about the Bombay trip."], "", ["Cy Rey"]),
    ("namesakes, a note each", ["Ada told Jo.", "Ada met Jo."], "", ["Jo Ash", "Jo Elm"]),
    ("one of two namesakes", ["Ada told Jo."], "", None),
    ("the list settles it", ["Ada told Jo."], "health: Jo Elm", ["Jo Elm"]),
    ("the other has a note", ["Ada told Jo Ash.", "Ada told Jo."], "", ["Jo Ash", "Jo Elm"]),
    ("two named, one has a note", ["Ada told Bo.", "Bo and Cy heard."], "", ["Bo Lind", "Cy Rey"]),
    ("two named, neither has", ["Ada told Bo and Cy."], "", None),
    ("three notes, two namesakes", ["Jo heard."] * 3, "", None),
    ("nobody", ["Ada thought."], "", None),
]


@pytest.mark.parametrize(
    ("notes", "listed", "informed"), [h[1:] for h in HEARD], ids=[h[0] for h in HEARD]
)
def test_recipients_come_from_the_notes_or_the_row_is_dropped(
    notes: list[str], listed: str, informed: list[str] | None
) -> None:
    found: list[str] = []

    def note(kind: str, _found: str, done: str) -> None:
        found.append(f"{kind} {done}")

    roster = Roster(people("Ada Novak", "Bo Lind", "Cy Rey", "Jo Ash", "Jo Elm"), note)
    if informed is None:
        with pytest.raises(RowFault):
            heard(roster, "Ada Novak", notes, listed, note)
    else:
        assert list(heard(roster, "Ada Novak", notes, listed, note).informed) == informed


def test_an_owner_with_a_namesake_is_meant_by_the_first_name() -> None:
    roster = Roster(people("Jo Ash", "Jo Elm", "Bo Lind"), lambda *_: None)
    told = heard(roster, "Jo Ash", ["Jo told Bo.", "Jo told Jo Elm."], "", lambda *_: None)
    assert told.informed == ("Bo Lind", "Jo Elm")


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | st.integers(0, 9), inner, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_repr_in_a_cell_with_doubled_quotes_comes_back(value: Any) -> None:
    cell = repr(value)
    line = '"' + cell.replace('"', '""') + '"'
    ((read,),) = csv.reader(io.StringIO(line, newline=""), strict=True)
    assert literal(read) == value
    assert doubled_literal(read) == (value, False)


@given(st.lists(st.text(alphabet="ab'\" \\{}[],", max_size=8), min_size=1, max_size=4))
def test_quotes_doubled_twice_come_back_or_are_refused(texts: list[str]) -> None:
    cell = repr(texts)
    try:
        value, halved = doubled_literal(cell.replace('"', '""'))
    except LiteralFault:
        # Only where doubling made another reading impossible: never without a double quote.
        assert '"' in cell
    else:
        assert value == texts or '"' in cell
        assert halved <= ('"' in cell)


@given(st.text(max_size=200))
def test_any_text_is_a_literal_or_a_fault(text: str) -> None:
    try:
        doubled_literal(text)
    except LiteralFault as fault:
        assert str(fault)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "[x for x in (1, 2)]",
        "f'{1}'",
        "open('/etc/hostname')",
        "{1, 2}",
        "b'bytes'",
        "...",
        "1j",
        "{[]: 1}",
        "",
        "'open",
        "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1),
        "[" * 100_000,
        "-" * 100_000 + "1",
        "not " * 30_000 + "1",
        "1" * 10_000,
        "0x" + "f" * 40,
        "'" + "a" * LONGEST + "'",
        "\0",
    ],
    ids=lambda text: text[:20] or "nothing",
)
def test_programs_and_oversized_texts_are_refused(text: str) -> None:
    with pytest.raises(LiteralFault):
        doubled_literal(text)


def test_brackets_in_strings_and_stray_backslashes_are_data() -> None:
    assert literal("['" + "[" * 50 + "']") == ["[" * 50]
    assert literal(r"'a \d'") == r"a \d"
    assert literal("[" * DEEPEST + "]" * DEEPEST)
    assert literal("-1") == -1
