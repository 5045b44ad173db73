"""What errors say to install is what the extras of the package install."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unspool.extras import EXTRAS, missing

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_named_as_it_is_declared(extra: str) -> None:
    (declared,) = re.findall(
        rf'^{extra} = \["([^"]+)"\]$', PYPROJECT.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert EXTRAS[extra] == declared
    assert f"pip install '{declared}' (the extra [{extra}] of unspool)" in missing(extra)
