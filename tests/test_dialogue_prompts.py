"""The shipped prompt files of dialogues and labels: what every request holds, and what it hides."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from leakgrid.benchmarks.benchmark import Point
from leakgrid.benchmarks.dialogue.labelling import Labelling
from leakgrid.benchmarks.dialogue.program import Dialogue
from leakgrid.benchmarks.dialogue.settings import (
    MESSAGE_CONDITIONS,
    PERSONAS,
    PROMPT_CONDITIONS,
    Settings,
    Subset,
)
from leakgrid.outcomes import JobError
from leakgrid.providers.simulated.wire import read_prompt
from leakgrid.types import Call
from tests.dialogue_cells import (
    PROMPTS,
    TINY,
    ScriptedAsk,
    point,
    profiles_file,
    reveal,
    statements,
    tiny_prompts,
    verdict,
)


def requests(folder: Path, condition: str, *, turns: int, early_end: bool = True) -> list[Call]:
    """All calls of one cell with the shipped prompts."""
    benchmark = Dialogue(
        profiles_file(folder / "profiles.json"),
        PROMPTS,
        (reveal(level="both"),),
        Settings(receivers=("R",), turns=(turns,), early_end=early_end),
    )

    def script(call: Call, number: int) -> str:
        if call.schema is not None:
            return verdict(*[("none", "")] * len(statements(call)))
        return f"message {number}"

    ask = ScriptedAsk(script)
    asyncio.run(benchmark.cell(ask, benchmark.items[0], point(condition, turns=turns)))
    return ask.sent


def labelling(folder: Path, persona: str) -> Call:
    benchmark = Labelling(profiles_file(folder / "profiles.json"), PROMPTS, PERSONAS, Subset())
    ask = ScriptedAsk(lambda call, number: '{"necessary": [], "inappropriate": []}')
    where = Point(model="L", defence="none", condition=persona, sample=0)
    asyncio.run(benchmark.cell(ask, benchmark.items[0], where))
    return ask.sent[0]


def told(call: Call) -> str:
    return "\n".join(message.text for message in call.messages)


def blocks(call: Call, *tags: str) -> list[str | None]:
    """The blocks of a request as the simulated server reads them."""
    prompt = read_prompt(
        {"messages": [{"role": one.role, "content": one.text} for one in call.messages]}
    )
    found = [prompt.block(tag) for tag in tags]
    return [None if text is None else text.strip() for text in found]


ADA = "\n".join(f"Ada keeps secret number {n}." for n in range(4))
BEN = "\n".join(f"Ben keeps secret number {n}." for n in range(4))


@pytest.mark.parametrize("condition", PROMPT_CONDITIONS)
def test_agents_get_memories_matter_and_message_in_blocks(tmp_path: Path, condition: str) -> None:
    sender, receiver, *_ = requests(tmp_path, condition, turns=1)
    assert blocks(sender, "memories", "recipient", "task", "role", "message") == [
        ADA, "Clerk 0", "Settle matter 0", None, None,
    ]  # fmt: skip
    assert blocks(receiver, "memories", "role", "message", "recipient", "task") == [
        BEN, "Clerk 0", "message 0", None, None,
    ]  # fmt: skip
    for call in (sender, receiver):
        systems = [one.text for one in call.messages if one.role == "system"]
        file = PROMPTS / f"{condition}.md"
        assert systems == ([file.read_text().strip()] if condition != "pc0" else [])
    assert not (PROMPTS / "pc0.md").exists()


def test_the_empty_condition_says_nothing_of_privacy(tmp_path: Path) -> None:
    for call in requests(tmp_path, "pc0", turns=2)[:4]:
        words = told(call).casefold()
        for hint in ("privat", "privacy", "confiden", "sensitive", "careful", "necessary",
                     "disclos", "reveal", "leak"):  # fmt: skip
            assert hint not in words


def test_memories_stand_before_what_differs_between_instances(tmp_path: Path) -> None:
    sender, receiver, *_ = requests(tmp_path, "pc0", turns=1)
    for call in (sender, receiver):
        text = call.messages[0].text
        assert text.index("</memories>") < text.index("Clerk 0")


@pytest.mark.parametrize("early_end", [True, False])
def test_the_end_marker_is_taught_only_where_it_is_allowed(tmp_path: Path, early_end: bool) -> None:
    agents = requests(tmp_path, "pc1", turns=1, early_end=early_end)[:2]
    assert [("[END]" in told(call)) for call in agents] == [early_end] * 2


@pytest.mark.parametrize("condition", MESSAGE_CONDITIONS)
def test_a_single_message_has_its_level_as_system_prompt(tmp_path: Path, condition: str) -> None:
    call = requests(tmp_path, condition, turns=0)[0]
    assert [one.role for one in call.messages] == ["system", "user"]
    assert call.messages[0].text == (PROMPTS / f"{condition}.md").read_text().strip()
    assert blocks(call, "memories", "recipient", "task") == [ADA, "Clerk 0", "Settle matter 0"]
    assert "[END]" not in told(call)


def test_a_judge_reads_the_transcript_first(tmp_path: Path) -> None:
    judged = [call for call in requests(tmp_path, "pc0", turns=1) if call.schema is not None]
    for call in judged:
        user = call.messages[-1].text
        assert user.startswith('<transcript>\n<message round="1" by="')
        assert user.index("</transcript>") < user.index("<judged>") < user.index("<attributes>\n")
        assert user.endswith("</attributes>")
        assert statements(call)[0].endswith("secret number 0.")
    assert len({call.messages[0].text for call in judged}) == 1
    system = judged[0].messages[0].text
    for word in ("full", "partial", "none", '"attributes"', '"id"', '"evidence"', '"degree"'):
        assert word in system
    assert "Only messages of the judged speaker count" in system


@pytest.mark.parametrize("persona", PERSONAS)
def test_a_labeller_gets_its_persona_and_numbered_memories(tmp_path: Path, persona: str) -> None:
    call = labelling(tmp_path, persona)
    assert (PROMPTS / f"persona-{persona}.md").read_text().strip() in call.messages[0].text
    assert statements(call, "memories") == ADA.split("\n")
    assert blocks(call, "recipient", "task") == ["Clerk 0", "Settle matter 0"]
    for word in ('"necessary"', '"inappropriate"'):
        assert word in call.messages[0].text


def test_every_condition_is_recognised_by_its_cue_alone(tmp_path: Path) -> None:
    path = profiles_file(tmp_path / "profiles.json")
    talk = Dialogue(path, PROMPTS, (), Settings(receivers=("R",))).cues()["conditions"]
    message = Dialogue(path, PROMPTS, (), Settings(turns=(0,))).cues()["conditions"]
    labels = Labelling(path, PROMPTS, PERSONAS, Subset()).cues()["conditions"]
    assert set(talk) == {"pc1", "pc2"}
    assert set(message) == set(MESSAGE_CONDITIONS)
    assert set(labels) == set(PERSONAS)
    texts = {
        **{name: told(requests(tmp_path, name, turns=1)[1]) for name in PROMPT_CONDITIONS},
        **{name: told(requests(tmp_path, name, turns=0)[0]) for name in MESSAGE_CONDITIONS},
        **{name: told(labelling(tmp_path, name)) for name in PERSONAS},
    }
    for cues in (talk, message, labels):
        for name, cue in cues.items():
            assert [where for where, text in texts.items() if cue in text] == [name]


def test_a_prompt_that_is_missing_or_names_a_wrong_place_is_told(tmp_path: Path) -> None:
    path = profiles_file(tmp_path / "profiles.json")
    prompts = tiny_prompts(tmp_path / "prompts", receiver="{{recipient}}")
    settings = Settings(receivers=("R",))
    with pytest.raises(JobError, match=r"receiver\.md:1: \{\{recipient\}\}"):
        Dialogue(path, prompts, (), settings)
    # Single messages do not need it, dialogues without early end do not need ending.md.
    Dialogue(path, prompts, (), replace(settings, turns=(0,)))
    tiny_prompts(prompts, receiver=TINY["receiver"])
    (prompts / "ending.md").unlink()
    Dialogue(path, prompts, (), replace(settings, early_end=False))
    with pytest.raises(JobError, match=r"ending\.md: the prompt cannot be read"):
        Dialogue(path, prompts, (), settings)
