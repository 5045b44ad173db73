"""Where profiles are: a path as it stands, the user's folder, then those that come with unspool."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from unspool.errors import BadRequest, brief, nearest
from unspool.profiles.profile import Profile
from unspool.profiles.reader import read_profile

SHIPPED: Final = Path(__file__).parent
SUFFIX: Final = ".toml"


def user_folder() -> Path:
    """Where the user's own profiles lie: below $UNSPOOL_CONFIG, or below the platform's config folder."""
    if given := os.environ.get("UNSPOOL_CONFIG"):
        return Path(os.path.expanduser(given)) / "profiles"
    if sys.platform == "win32":
        base = Path(os.environ.get("APPDATA") or os.path.expanduser("~/AppData/Roaming"))
    elif sys.platform == "darwin":
        base = Path(os.path.expanduser("~/Library/Application Support"))
    else:
        base = Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"))
    return base / "unspool" / "profiles"


def load_profile(name_or_path: str | os.PathLike[str]) -> Profile:
    """A profile by its name, or by the path of its file. Raises BadRequest."""
    path = find(name_or_path)
    return read_profile(path, is_shipped=path.parent == SHIPPED)


def find(name_or_path: str | os.PathLike[str]) -> Path:
    """The file of a profile. What has a slash in it or ends in .toml is a path, all else is a name."""
    given = os.fspath(name_or_path)
    if not isinstance(given, str) or not given:
        raise BadRequest(f"a profile is a name or a path, got {brief(given)}", code="unknown_profile")
    if isinstance(name_or_path, Path) or is_path(given):
        return Path(os.path.expanduser(given))
    files = _files()
    if given not in files:
        raise BadRequest(
            f"there is no profile {given!r}; {nearest(given, files)} "
            f"(a path has a slash or ends in {SUFFIX})",
            code="unknown_profile",
        )
    return files[given]


def is_path(text: str) -> bool:
    return "/" in text or os.sep in text or text.endswith(SUFFIX)


def all_profiles() -> list[Path]:
    """The file of every name: the user's own first, then the shipped ones that they do not replace."""
    return list(_files().values())


def _files() -> dict[str, Path]:
    files: dict[str, Path] = {}
    for folder in (user_folder(), SHIPPED):
        try:
            found = sorted(folder.glob(f"*{SUFFIX}"))
        except OSError as error:
            raise BadRequest(
                f"cannot read the folder {folder}: {error.strerror}; check its permissions, or set "
                "UNSPOOL_CONFIG",
                code="bad_profile",
            ) from error
        for path in found:
            files.setdefault(path.stem, path)
    return files
