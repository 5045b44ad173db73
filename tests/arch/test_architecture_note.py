"""docs/architecture.md speaks of files, functions and phases that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unspool.engine.task import NEXT_PHASES

ROOT = Path(__file__).resolve().parents[2]
NOTE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([a-z_][\w/]*\.(?:py|cpp|h|\*))`", NOTE)))
PLACES = ("src/unspool", "csrc", "csrc/kernels", "csrc/simd", "csrc/sampling", ".")


@pytest.mark.parametrize("name", NAMED)
def test_every_file_that_is_named_exists(name: str) -> None:
    assert any(list((ROOT / place).glob(name)) for place in PLACES), f"there is no {name}"


def test_the_drawn_phases_are_those_of_the_table() -> None:
    drawn = set(re.findall(r"^ +([A-Z]+) --> ([A-Z]+):", NOTE, re.MULTILINE))
    table = {(phase.name, after.name) for phase, afters in NEXT_PHASES.items() for after in afters}
    assert drawn == table


PATHS = [ROOT / "README.md", *ROOT.glob("docs/*.md")]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in PATHS}
LINK = re.compile(r"\]\((?:docs/)?(\w+\.md)#([\w-]+)\)")
LINKS = sorted({link for page in PAGES.values() for link in LINK.findall(page)})


@pytest.mark.parametrize(("page", "anchor"), LINKS)
def test_a_link_to_a_heading_of_another_page_leads_there(page: str, anchor: str) -> None:
    headings = re.findall(r"^#+ (.*)$", PAGES[page], re.MULTILINE)
    assert anchor in [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
