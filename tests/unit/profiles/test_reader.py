"""Files that are no profiles say where and why, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.errors import BadRequest
from unspool.profiles.check import check_profile
from unspool.profiles.reader import MAX_BYTES, read_profile

WHOLE = """
description = "Mine"

[temperature]
value = 0.5
reason = "two\\n lines become one"

[needs.beam]
reason = "r"
otherwise = "sample"

[needs.beam.width]
value = 2
reason = "w"
"""


def test_a_whole_profile_is_read(write) -> None:
    profile = read_profile(write(WHOLE))
    assert (profile.name, profile.description, profile.is_shipped) == ("mine", "Mine", False)
    assert profile.settings["temperature"].value == 0.5
    assert profile.settings["temperature"].reason == "two lines become one"
    (need,) = profile.needs
    assert (need.kind, need.otherwise, need.settings["width"].value) == ("beam", "sample", 2)
    assert check_profile(profile.path) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("temperature 0.5", "is not TOML: "),
        ("[temperature]\nvalue = 1\n[temperature]\n", "is not TOML: "),
        ("a = " + "[" * 100_000, "is not TOML: "),
        (b"description = '\xff'", "is not UTF-8 (byte 15)"),
        (b" " * (MAX_BYTES + 1), "more than 1048576 bytes"),
        ("description = 5", "description: must be one line of text, got 5"),
        ("description = 'a\\nb'\n".replace("'", '"'), "description: must be one line of text"),
        ("[temperature]\nreason = 'x'", "temperature: has no value"),
        (
            "[temperature]\nvalue = 1\nreasn = 'x'",
            "temperature: there is no 'reasn' here; did you mean 'reason'?",
        ),
        ("[temperature]\nvalue = 1\nreason = 5", "temperature.reason: must be a text, got 5"),
        ("needs = 5", "needs: must be tables"),
        ("[needs]\nbeam = 4", "needs.beam: must be a table [needs.beam]"),
        ("[needs.bean]", "needs: there is no 'bean' here; did you mean 'beam'?"),
        ("[needs.beam]\nwidht = 4", "needs.beam: there is no 'widht' here; did you mean 'width'?"),
        ("[needs.beam]\nwidth = 0", "needs.beam: width must be a whole number in [1, 256], got 0"),
        ("[needs.beam]\nlength_norm = 'long'", "length_norm must be one of 'gnmt'"),
        ("[needs.beam]\notherwise = 'guess'", "needs.beam.otherwise: must be 'sample', got 'guess'"),
    ],
)
def test_what_is_no_profile_is_refused_in_one_line(write, content, said: str) -> None:
    path = write(content)
    with pytest.raises(BadRequest) as caught:
        read_profile(path)
    message = str(caught.value)
    assert message.startswith(f"{path}")
    assert said in message
    assert "\n" not in message
    (finding,) = check_profile(path)
    assert finding.severity == "error"
    assert said in str(finding)


@pytest.mark.parametrize("name", [".", "no-such.toml", "nul\0.toml"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadRequest, match=r"cannot read the profile .*; check the name"):
        read_profile(tmp_path / name)


def test_the_mark_that_windows_editors_write_first_is_no_part_of_a_profile(write) -> None:
    assert read_profile(write("\ufeff" + WHOLE)).description == "Mine"
