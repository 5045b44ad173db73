"""The profile that the documentation shows is a good one."""

from __future__ import annotations

import re
from pathlib import Path

from unspool.params import DecodingParams
from unspool.profiles.check import check_profile

ROOT = Path(__file__).resolve().parents[3]


def test_the_example_of_the_documentation_passes_its_check(write) -> None:
    page = (ROOT / "docs" / "decoding.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    path = write(example)
    assert check_profile(path) == []
    assert DecodingParams.from_profile(path) == DecodingParams(temperature=0.6, max_tokens=120, stop="\n\n")
