"""The README cannot drift from the program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import README, ROOT, commands, expected

PAGES = sorted(
    path
    for folder in (".", "jobs", "cache", "engine", "tests", "reports", "datasets", "datasets/*")
    for path in ROOT.glob(f"{folder}/README.md")
)


def test_generated_parts_are_current() -> None:
    text = README.read_text("utf-8")
    assert text == expected(text), "run: just docs"


def test_set_up_takes_two_commands_run_and_test_one_each() -> None:
    text = README.read_text("utf-8")
    assert len(commands(text, "setup")) == 2
    assert len(commands(text, "run")) == len(commands(text, "test")) == 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_and_path_leads_somewhere(page: Path) -> None:
    text = page.read_text("utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), target


def test_every_named_recipe_exists() -> None:
    recipes = set(re.findall(r"^([a-z-]+)(?: [^:\n]*)?:", (ROOT / "Justfile").read_text(), re.M))
    for name in re.findall(r"\bjust ([a-z-]+)", README.read_text("utf-8")):
        assert name in recipes, name


def test_every_job_key_is_documented() -> None:
    pages = (ROOT / "jobs").rglob("*.md")
    documented = "\n".join(page.read_text("utf-8") for page in pages if "prompts" not in page.parts)
    folder = ROOT / "engine" / "leakgrid" / "jobs"
    source = "\n".join(
        (folder / name).read_text("utf-8") for name in ("jobfile.py", "models.py", "forms.py")
    )
    keys = re.findall(
        r'\.(?:text|number|whole|wholes|flag|texts|mapping|table)\(\s*"([a-z_]+)"', source
    )
    assert len(keys) > 40
    for key in keys:
        assert re.search(rf"`{key}`|\[{key}\]", documented), key
