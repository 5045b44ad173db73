"""Create an environment on top of the running one and install an extra of unspool into it.

usage: python tools/layer_environment.py FOLDER EXTRA

The new environment sees everything of the one that runs this script (through a .pth file, which also
brings the editable install of unspool) and adds what the extra names. Nothing is built twice.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from packaging.requirements import Requirement


def requirements_of(extra: str) -> list[str]:
    """The installed package's requirements that hold only under `extra`, without their marker."""
    wanted = []
    for line in importlib.metadata.requires("unspool") or []:
        requirement = Requirement(line)
        marker = requirement.marker
        if marker and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""}):
            wanted.append(f"{requirement.name}{requirement.specifier}")
    return wanted


def main(folder: str, extra: str) -> None:
    wanted = requirements_of(extra)
    if not wanted:
        sys.exit(f"error: unspool has no extra '{extra}'")
    venv.EnvBuilder(with_pip=True, clear=True, symlinks=True).create(folder)
    python = Path(folder) / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    answer = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True)
    below = sysconfig.get_paths()["purelib"]
    (Path(answer.stdout.strip()) / "layer.pth").write_text(f"import site; site.addsitedir({below!r})\n")
    pip = [str(python), "-m", "pip", "install", "-qq", "--no-input", "--disable-pip-version-check"]
    subprocess.run([*pip, *wanted], check=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
