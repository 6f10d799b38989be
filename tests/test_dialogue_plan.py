"""``leakgrid plan`` tells the volume of the paper's grid before anything is sent."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.dialogue_cells import REAL
from tests.dialogue_project import DialogueProject, needs_real
from tests.project import ROOT

MOST_MB = 500
MOST_CPU_S = 15
"""Three times what a plan may take: the machine of a test is loaded, and no clock is asserted."""

MEASURED = """
import resource, sys
from leakgrid.cli import main
from leakgrid.store.landing import peak_mb
code = main(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
# Not ru_maxrss: it begins with what the process that started this one had.
print("MB", peak_mb(), "CPU", used.ru_utime + used.ru_stime)
sys.exit(code)
"""


def planned(folder: Path, *jobs: str) -> str:
    """What ``leakgrid plan`` prints for shipped jobs; checks what it took."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, "plan", *(f"jobs/{job}.toml" for job in jobs)],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    used = re.search(r"MB (\S+) CPU (\S+)", done.stdout)
    assert used is not None
    assert float(used[1]) < MOST_MB
    assert float(used[2]) < MOST_CPU_S
    assert not (folder / "cache").exists()
    return done.stdout


def calls(told: str, model: str) -> int:
    """The calls of one model's row."""
    found = re.search(rf"^{re.escape(model)} +([\d,]{{1,10}})", told, re.MULTILINE)
    assert found is not None, told
    return int(found[1].replace(",", ""))


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """The shipped jobs beside the released file, as a user who has it keeps them."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "prompts").symlink_to(ROOT / "jobs" / "prompts")
    for job in (ROOT / "jobs").glob("*.toml"):
        shutil.copy(job, tmp_path / "jobs")
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "muppet").symlink_to(ROOT / "datasets" / "muppet")
    folder = tmp_path / "datasets" / "cimemories"
    folder.mkdir()
    (folder / "sample").symlink_to(ROOT / "datasets" / "cimemories" / "sample")
    if REAL.exists():
        (folder / REAL.name).symlink_to(REAL)
    return tmp_path


@needs_real
def test_the_papers_grid_is_planned_in_seconds(shipped: Path) -> None:
    told = planned(shipped, "dialogue-paper")
    assert "4,410 items x 210 columns = 926,100 cells, 0 done, 926,100 open" in told
    # For each number of rounds 463,050 dialogues: a message of each side in every round.
    assert 926_100 == 2 * 463_050 == 2 * 7 * 5 * 3 * 4410
    pair = 3 * 4410 * (1 + 6)
    for sender, alone in (("qwen3-30b-a3b", True), ("llama-3.1-70b", False)):
        assert calls(told, sender) == 5 * pair + (0 if alone else 7 * pair)
    # 15 batches of ten for the transcript and for each of the sender's messages.
    assert 463_050 * 15 * (1 + 1 + 1 + 6) == 62_511_750
    assert re.search(r"^judge +62,511,750", told, re.MULTILINE)
    for model in ("qwen3-4b-instruct", "qwen3-8b-thinking", "llama-3.1-8b"):
        assert calls(told, model) > 0
    assert "together: about $" in told


@needs_real
def test_the_single_message_and_label_jobs_are_planned_with_their_cost(shipped: Path) -> None:
    told = planned(shipped, "cimemories", "cimemories-labels")
    # Three models, five samples, 490 pairs of profile and context; 15 batches of each message.
    assert "490 items x 15 columns = 7,350 cells" in told
    assert calls(told, "gpt-4o") == 2450
    assert calls(told, "judge") == 7350 * 15
    assert "490 items x 30 columns = 14,700 cells" in told
    assert calls(told, "gpt-5") in (2450, 14_700)
    for part in ("price of gpt-4o: ", "budget: $900.00", "budget: $400.00"):
        assert part in told


def test_the_demonstrations_are_planned_over_the_sample(shipped: Path) -> None:
    told = planned(shipped, "labels-demo", "dialogue-demo")
    assert "32 items x 12 columns = 384 cells" in told
    demo = tomllib.loads((shipped / "jobs" / "dialogue-demo.toml").read_text())
    columns = demo["job"].get("samples", 1)
    for axis in ("models", "receivers", "conditions", "turns"):
        columns *= len(demo["job"][axis])
    items = demo["subset"]["instances"]
    assert f"{items} items x {columns} columns = {items * columns:,} cells" in told
    assert calls(told, "sim-labeller") == 384
    assert "0 (simulated)" in told


def test_without_the_released_file_the_message_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = DialogueProject(tmp_path)
    for job in ("dialogue-paper", "cimemories", "cimemories-labels"):
        shutil.copy(ROOT / "jobs" / f"{job}.toml", tmp_path / "jobs")
        assert project.main("plan", f"jobs/{job}.toml") == 2
        said = capsys.readouterr().err
        assert f"{job}.toml:" in said and "job.dataset" in said
        assert f"cimemories/{REAL.name} does not exist" in said
