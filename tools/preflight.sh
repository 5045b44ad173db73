#!/bin/sh
# Say in one line what a build needs and this machine lacks, before pip says it in two hundred.
# usage: preflight.sh PYTHON
python=$1
fail() { echo "error: $1" >&2; exit 1; }

command -v "$python" >/dev/null ||
  fail "no '$python' on this machine; install Python 3.10 or later, or name one: make PYTHON=python3.12"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
  fail "$("$python" --version) is too old; unspool needs 3.10 or later: make PYTHON=python3.12"
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
  fail "'$python' cannot create environments; on Debian: apt-get install python3-venv"
header=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"] + "/Python.h")')
[ -e "$header" ] || fail "Python's C headers are missing ($header); on Debian: apt-get install python3-dev"
command -v "${CXX:-c++}" >/dev/null ||
  fail "no C++ compiler ('${CXX:-c++}'); on Debian: apt-get install g++"
