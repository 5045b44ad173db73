"""Where profiles are found, and which wins."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unspool.errors import BadRequest
from unspool.profiles import all_profiles, find, load_profile, user_folder
from unspool.profiles.lookup import SHIPPED


def test_a_profile_of_the_user_wins_over_a_shipped_one(config_folder: Path) -> None:
    assert load_profile("chat").is_shipped
    config_folder.mkdir(parents=True)
    (config_folder / "chat.toml").write_text("temperature = 0.1\n")
    (config_folder / "zebra.toml").write_text("temperature = 0.2\n")
    assert load_profile("chat").values == {"temperature": 0.1}
    assert not load_profile("chat").is_shipped
    names = [path.stem for path in all_profiles()]
    assert names[:2] == ["chat", "zebra"]
    assert names.count("chat") == 1
    assert set(names) == {"zebra", *(path.stem for path in SHIPPED.glob("*.toml"))}


def test_what_has_a_slash_or_the_ending_is_a_path(write, monkeypatch) -> None:
    path = write("temperature = 0.3\n", "chat.toml")
    monkeypatch.chdir(path.parent)
    for given in (path, str(path), "chat.toml", "./chat.toml", Path("chat.toml")):
        assert load_profile(given).values == {"temperature": 0.3}
    assert load_profile("chat").is_shipped
    assert find("a/b") == Path("a/b")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("chatt", "there is no profile 'chatt'; did you mean 'chat'?"),
        ("zzzz", "there are: chat, code, complete"),
        ("", "a profile is a name or a path, got ''"),
        (b"chat", "a profile is a name or a path, got b'chat'"),
    ],
)
def test_an_unknown_name_offers_the_nearest(given, said: str) -> None:
    with pytest.raises(BadRequest) as caught:
        load_profile(given)
    assert said in str(caught.value)
    assert caught.value.code == "unknown_profile"


@pytest.mark.parametrize(
    ("platform", "variables", "folder"),
    [
        ("linux", {"XDG_CONFIG_HOME": "/x"}, "/x/unspool/profiles"),
        ("linux", {"HOME": "/h"}, "/h/.config/unspool/profiles"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Application Support/unspool/profiles"),
        ("win32", {"APPDATA": "/a"}, "/a/unspool/profiles"),
        ("linux", {"UNSPOOL_CONFIG": "/c", "XDG_CONFIG_HOME": "/x"}, "/c/profiles"),
    ],
)
def test_the_users_folder_is_the_platforms(monkeypatch, platform, variables, folder: str) -> None:
    for name in ("UNSPOOL_CONFIG", "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert user_folder() == Path(folder)


def test_a_folder_that_is_a_file_is_no_folder_of_profiles(monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNSPOOL_CONFIG", str(tmp_path / "file"))
    assert load_profile("chat").is_shipped
