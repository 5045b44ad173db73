"""`unspool profiles`: list, show, check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def mine(config_folder: Path) -> Path:
    """The user's own profile `mine`."""
    path = config_folder / "profiles" / "mine.toml"
    path.parent.mkdir(parents=True)
    path.write_text('description = "Mine"\n[top_k]\nvalue = 7\nreason = "lucky"\n')
    return path


def test_the_list_has_shipped_and_own_profiles(unspool, mine: Path, config_folder: Path) -> None:
    ran = unspool("profiles", "list")
    rows = [line.split(maxsplit=3) for line in ran.out.splitlines() if line]
    assert rows[0] == ["NAME", "FROM", "READY", "WHAT FOR"]
    assert ["mine", "user", "yes", "Mine"] in rows
    assert ["json", "shipped", "no"] in [row[:3] for row in rows]
    assert f"Your own go into {config_folder / 'profiles'}" in ran.out
    listed = {row["name"]: row for row in json.loads(unspool("profiles", "list", "--json").out)}
    assert len(listed) == 13
    assert listed["mine"]["path"] == str(mine)
    assert (listed["chat"]["source"], listed["chat"]["ready"]) == ("shipped", True)


def test_a_broken_file_does_not_hide_the_others(unspool, mine: Path) -> None:
    mine.write_text("[")
    ran = unspool("profiles", "list")
    assert ran.exit_code == 0
    assert f"mine       user     no     cannot be read: {mine} is not TOML" in ran.out
    assert "chat       shipped" in ran.out


def test_a_profile_is_shown_with_its_reasons_and_the_parameters_it_comes_to(unspool) -> None:
    out = unspool("profiles", "show", "creative").out
    assert out.startswith("creative: Stories and ideas")
    assert "presence_penalty  0.6    moves on to words" in out
    assert out.endswith("\nDecodingParams(top_p=0.95, presence_penalty=0.6)\n")


def test_a_profile_of_ones_own_is_shown_with_its_file(unspool, mine: Path) -> None:
    assert unspool("profiles", "show", "mine").out.splitlines()[:2] == ["mine: Mine", str(mine)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "summarise",
            "`explain`, `best`, `chat` and `eval` do it; elsewhere it samples",
        ),
        ("reason", "best of n (n 8, verifier majority): `unspool best --profile reason` does it\n"),
        ("translate", "\nDecodingParams()\n"),
    ],
)
def test_what_a_profile_needs_and_is_not_there_is_said(unspool, name: str, said: str) -> None:
    ran = unspool("profiles", "show", name)
    assert (ran.exit_code, ran.err) == (0, "")
    assert said in ran.out


def test_a_profile_is_shown_as_json(unspool) -> None:
    facts = json.loads(unspool("profiles", "show", "summarise", "--json").out)
    assert facts["settings"]["temperature"]["value"] == 0.4
    assert facts["params"]["top_p"] == 0.9
    assert (facts["ready"], facts["shipped"]) == (True, True)
    (need,) = facts["needs"]
    assert (need["kind"], need["otherwise"], need["available"]) == ("beam", "sample", False)
    assert need["settings"]["width"]["value"] == 4


def test_a_check_of_all_is_green_and_takes_the_users_own(unspool, mine: Path) -> None:
    ran = unspool("profiles", "check")
    assert ran.exit_code == 0
    assert ran.out.splitlines()[0] == f"{mine}: ok"
    assert "warning" not in ran.out


def test_a_check_that_finds_an_error_says_all_and_fails(unspool, tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text("top_p = 1.4\n")
    ran = unspool("profiles", "check", str(bad), "chat")
    assert ran.exit_code == 2
    assert f"{bad}: error: top_p: top_p must be a number in (0, 1], got 1.4" in ran.out
    assert f"{bad}: error: top_p: has no reason" in ran.out
    assert "chat.toml: ok" in ran.out
    rows = json.loads(unspool("profiles", "check", str(bad), "--json").out)
    assert {(row["severity"], row["key"]) for row in rows} == {("error", "description"), ("error", "top_p")}


def test_an_unknown_profile_is_one_line(unspool) -> None:
    ran = unspool("profiles", "show", "chta")
    assert (ran.exit_code, ran.err.count("\n")) == (2, 1)
    assert "did you mean 'chat'?" in ran.err
