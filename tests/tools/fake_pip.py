"""Stands in for pip in the tests: `fake_pip.py download ... --dest FOLDER NAME==VERSION`.

Copies the wheel from FAKE_PIP_WHEELS, and keeps a list of what it was asked for in FAKE_PIP_LOG.
FAKE_PIP_SAYS is printed before it fails; FAKE_PIP_HANGS_ON names a project of which half is written
to TMPDIR before it hangs.
"""

import os
import sys
import time

arguments = sys.argv[1:]
assert arguments[0] == "download", arguments
for option in ("--no-deps", "--only-binary", "--no-input"):
    assert option in arguments, (option, arguments)
folder = arguments[arguments.index("--dest") + 1]
project, _, version = arguments[-1].partition("==")
wheel = f"{project.replace('-', '_')}-{version}-py3-none-any.whl"

with open(os.environ["FAKE_PIP_LOG"], "a") as log:
    log.write(arguments[-1] + "\n")

if text := os.environ.get("FAKE_PIP_SAYS"):
    print("Looking in indexes: somewhere")
    print(text, file=sys.stderr)
    sys.exit(1)

path = os.path.join(os.environ["FAKE_PIP_WHEELS"], wheel)
if not os.path.exists(path):
    print(f"ERROR: No matching distribution found for {arguments[-1]}", file=sys.stderr)
    sys.exit(1)
with open(path, "rb") as file:
    data = file.read()
if os.environ.get("FAKE_PIP_HANGS_ON") == project:
    with open(os.path.join(os.environ["TMPDIR"], wheel), "wb") as half:
        half.write(data[: len(data) // 2])
    time.sleep(60)
with open(os.path.join(folder, wheel), "wb") as whole:
    whole.write(data)
