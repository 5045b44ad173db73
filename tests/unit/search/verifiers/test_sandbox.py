"""Programs that nobody has read: what they may do, and that nothing of what they try gets out.

What is asserted of files, network and signals holds where a system has what `sandbox/run.py` names; the
tests say what they need.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from time import monotonic

import pytest

from unspool.errors import BadRequest, VerifierError
from unspool.search.verifiers.sandbox import run as sandbox
from unspool.search.verifiers.sandbox.limits import SandboxLimits
from unspool.search.verifiers.sandbox.run import run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the sandbox needs POSIX")

_PREFIX = f"unspool-sandbox-{os.getpid()}-"
LIMITS = SandboxLimits(cpu_s=1, wall_s=20, output_bytes=4000, file_bytes=1 << 20, n_files=8)
SHORT = SandboxLimits(wall_s=0.8, output_bytes=4000)


@pytest.fixture(scope="module")
def guards():
    """What holds on this machine; some tests ask for more than others."""
    return set(run("", "assert True", limits=LIMITS, allow_weak=True).guards)


@pytest.fixture(autouse=True)
def nothing_stays_behind():
    """No folder and no process of a run is left when it has returned."""
    yield
    assert not list(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"))
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def attempt(code, tests="assert True", limits=LIMITS):
    return run(code, tests, limits=limits, allow_weak=True)


def test_a_program_that_passes_its_tests_has_passed():
    result = attempt(
        "def f(x):\n    return x + 1", "assert f(1) == 2\nimport answer\nassert answer.f(2) == 3"
    )
    assert result.has_passed
    assert (result.n_passed, result.n_failed, result.problem, result.output) == (2, 0, "", "")


def test_a_program_that_fails_some_says_which():
    result = attempt("print('hi')\ndef f(x):\n    return 2", "assert f(1) == 2\nassert f(2) == 3, 'three'")
    assert (result.n_passed, result.n_failed, result.has_passed) == (1, 1, False)
    assert (result.problem, result.output) == ("line 2: AssertionError: three", "hi\n")


def test_the_library_is_there():
    modules = "asyncio, collections, decimal, hashlib, json, re, sqlite3, threading, typing, unittest, zlib"
    program = f"import {modules}\nt = threading.Thread(target=print, args=('ran',)); t.start(); t.join()"
    result = attempt(program)
    assert result.has_passed, result.problem
    assert result.output == "ran\n"


@pytest.mark.parametrize(
    ("code", "limits", "problem"),
    [
        ("while True: pass", LIMITS, "processor time"),
        ("import time; time.sleep(60)", SHORT, "took longer than 0.8 s"),
        ("while True: print('x' * 1000)", LIMITS, "wrote more than 4000 bytes of output"),
        ("x = 'a' * (1 << 33)", LIMITS, "MemoryError"),
        ("open('a', 'w').write('x' * (1 << 22))", LIMITS, "File too large|No space left"),
        (
            "for i in range(99): open(str(i), 'w')\nimport time; time.sleep(9)",
            LIMITS,
            "No space|made more than 8",
        ),
        (
            "open(__import__('os').pipe()) if 0 else [open('/dev/null') for _ in range(99)]",
            LIMITS,
            "Too many open",
        ),
        ("import sys; sys.exit(0)", LIMITS, "SystemExit"),
        ("import os; os._exit(0)", LIMITS, r"ended before its tests did \(exit code 0\)"),
        ("import ctypes; ctypes.string_at(0)", LIMITS, "crashed .SIGSEGV"),
        ("def f(:", LIMITS, "the answer: SyntaxError"),
        ("input()", LIMITS, "EOFError"),
        ("import numpy", LIMITS, "ModuleNotFoundError"),
    ],
)
def test_a_program_that_takes_too_much_or_breaks_off_fails(code, limits, problem):
    result = attempt(code, limits=limits)
    assert not result.has_passed
    assert re.search(problem, result.problem), result.problem
    assert len(result.output) <= limits.output_bytes


def test_a_fork_bomb_comes_to_nothing():
    bomb = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
    started = monotonic()
    result = attempt(bomb, limits=SHORT)
    assert not result.has_passed
    assert monotonic() - started < 15  # a bomb that went off would take the machine with it


def test_threads_without_end_come_to_nothing():
    bomb = "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(9,)).start()"
    assert "can't start new thread" in attempt(bomb).problem


@pytest.mark.parametrize(
    "attack",
    [
        "os.kill(os.getppid(), 9)",
        f"os.kill({os.getpid()}, 9)",
        "os.kill(-1, 9)",
        "os.killpg(0, 9)",
        "os.setsid()",
        "os.fork()",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "os.execv('/bin/true', ['true'])",
        "__import__('subprocess').run(['/bin/true'])",
        "__import__('socket').socket()",
        "__import__('socket').create_connection(('127.0.0.1', 22))",
        "__import__('socket').create_server(('127.0.0.1', 0))",
        f"__import__('resource').prlimit({os.getpid()}, 7, (0, 0))",
        f"os.sched_setaffinity({os.getpid()}, [0])",
        "os.setuid(0) if os.getuid() else os.setuid(12345)",
        "os.chroot('.')",
        f"__import__('fcntl').fcntl(os.pipe()[0], 8, {os.getpid()})",
    ],
)
def test_what_reaches_beyond_the_process_is_refused(guards, attack):
    if "calls" not in guards:
        pytest.skip("needs a filter of system calls")
    result = attempt(f"import os\n{attack}")
    # Refused, and by the system: the process lives on and says so.
    assert result.n_failed == 1
    assert "the answer: " in result.problem
    assert "Error" in result.problem, result.problem


@pytest.mark.parametrize(
    "peek",
    [
        "open('/etc/passwd')",
        f"open({__file__!r})",
        f"os.listdir({str(Path.home())!r})",
        "os.listdir('/proc/1')",
    ],
)
def test_files_of_others_cannot_be_read(guards, peek):
    if "files" not in guards:
        pytest.skip("needs Landlock")
    assert "Error: [Errno" in attempt(f"import os\n{peek}").problem


def test_a_file_is_written_in_the_working_directory_and_nowhere_else(guards, tmp_path):
    tmp_path.chmod(0o777)
    assert attempt("open('a', 'w').write('x')", "assert open('a').read() == 'x'").has_passed
    if "files" not in guards:
        pytest.skip("needs Landlock")
    assert not attempt(f"open({str(tmp_path / 'a')!r}, 'w')").has_passed
    assert not list(tmp_path.iterdir())


def test_the_environment_is_empty(monkeypatch):
    monkeypatch.setenv("SECRET", "1")
    assert attempt("import os", "assert not os.environ").has_passed


def test_a_result_that_is_written_into_the_pipe_does_not_count():
    forged = b'{"n_passed": 9, "n_failed": 0, "failure": "", "nonce": "x"}\n'
    write = f"os.write(fd, {forged!r})"
    code = f"import os\nfor fd in range(3, 30):\n  try: {write}\n  except OSError: pass\nos._exit(0)"
    result = attempt(code)
    assert (result.has_passed, result.n_passed) == (False, 0)


def test_a_folder_as_deep_as_can_be_is_removed():
    code = "import os\nwhile True:\n    os.mkdir('d'); os.chdir('d')"
    assert not attempt(code, limits=SHORT).has_passed


def test_when_the_caller_is_killed_so_is_the_program(tmp_path):
    if sys.platform != "linux":
        pytest.skip("needs Linux")
    program = (
        "from unspool.search.verifiers.sandbox.run import run\n"
        "from unspool.search.verifiers.sandbox.limits import SandboxLimits\n"
        "print(flush=True)\n"
        "run('import time; time.sleep(30)', '', limits=SandboxLimits(wall_s=40), allow_weak=True)"
    )
    source = str(Path(sandbox.__file__).parents[4])
    environment = {**os.environ, "PYTHONPATH": source, "TMPDIR": str(tmp_path)}
    caller = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment)
    with caller:
        caller.stdout.readline()
        launcher = _wait_for(lambda: _processes_with(str(tmp_path)))
        assert launcher
        caller.send_signal(signal.SIGKILL)
    assert _wait_for(lambda: not _processes_with(str(tmp_path)))


def _processes_with(folder):
    """Processes whose working directory is below a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                where = os.readlink(entry / "cwd")
            except OSError:
                continue
            if where.startswith(folder):
                found.append(int(entry.name))
    return found


def _wait_for(condition):
    deadline = monotonic() + 20
    while monotonic() < deadline:
        if found := condition():
            return found
        threading.Event().wait(0.02)  # leaves the processor to those that are waited for
    return condition()


@pytest.mark.parametrize(
    ("left_out", "attack"),
    [
        ("namespaces", "os.kill(os.getppid(), 9)"),
        ("namespaces", "os.fork()"),
        ("namespaces", "__import__('socket').socket()"),
        ("namespaces", "open(f'/proc/{os.getppid()}/environ')"),
        ("landlock", "open(f'/proc/{os.getppid()}/environ')"),
        ("seccomp", f"os.kill({os.getpid()}, 9)"),
        ("seccomp", "__import__('socket').create_connection(('127.0.0.1', 22), timeout=0.5)"),
        ("seccomp", "open('/etc/passwd')"),
    ],
)
def test_what_one_guard_would_hold_another_does(guards, left_out, attack):
    if not {"processes", "calls", "files"} <= guards:
        pytest.skip("needs a system that has all of them")
    result = run(f"import os\n{attack}", "assert True", limits=LIMITS, allow_weak=True, leave_out=(left_out,))
    assert "Error: [Errno" in result.problem, result


def test_processes_that_outlive_their_parent_die_with_their_namespace(guards, tmp_path):
    if "processes" not in guards:
        pytest.skip("needs namespaces")
    leave = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(60)\n"
    run(leave, "assert True", limits=LIMITS, allow_weak=True, leave_out=("seccomp",))
    assert _wait_for(lambda: not _processes_with(os.path.join(tempfile.gettempdir(), _PREFIX)))


def test_files_without_a_file_system_of_their_own_are_counted(guards):
    made = "for i in range(99): open(str(i), 'w')\nimport time; time.sleep(9)"
    result = run(made, "", limits=LIMITS, allow_weak=True, leave_out=("namespaces",))
    assert result.problem == "made more than 8 files"


def test_without_any_guard_an_answer_is_not_run():
    nothing = ("namespaces", "landlock", "seccomp")
    with pytest.raises(VerifierError, match="allow_weak"):
        run("", "assert True", leave_out=nothing)
    assert run("", "assert True", leave_out=nothing, allow_weak=True).has_passed


def test_where_nothing_can_be_shut_off_an_answer_is_not_run(monkeypatch):
    told = sandbox._Heard(bytearray(), bytearray(b'{"nonce": "n", "refused": true, "guards": ["network"]}\n'))
    monkeypatch.setattr(sandbox, "_watched", lambda *_: told)
    monkeypatch.setattr(sandbox.secrets, "token_hex", lambda _: "n")
    with pytest.raises(VerifierError, match=r"no hold on: files, signals; .*allow_weak") as caught:
        run("", "assert True")
    assert caught.value.code == "no_sandbox"


@pytest.mark.parametrize(
    ("report", "output"),
    [
        (b'{"nonce": "n", "broken": "OSError: no"}\n', b""),
        (b"", b"python: can't open\nOSError: no\n"),
        (b"[1]\nx\n", b"OSError: no"),
    ],
)
def test_a_sandbox_that_does_not_start_says_why(monkeypatch, report, output):
    monkeypatch.setattr(sandbox.secrets, "token_hex", lambda _: "n")
    monkeypatch.setattr(sandbox, "_watched", lambda *_: sandbox._Heard(bytearray(output), bytearray(report)))
    with pytest.raises(VerifierError, match=r"could not start: .*OSError: no"):
        run("", "assert True")


def test_a_python_that_is_not_there_is_one_line(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(VerifierError, match="could not start"):
        run("", "assert True")
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(VerifierError, match="as a program"):
        run("", "assert True")


def test_files_are_counted_from_outside_where_the_file_system_does_not(tmp_path):
    for name in ("a", "b", "c/d", "c/e"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert sandbox._has_more_files(str(tmp_path), 4)
    assert not sandbox._has_more_files(str(tmp_path), 5)
    assert not sandbox._has_more_files(str(tmp_path / "gone"), 0)


@pytest.mark.parametrize(
    "limits",
    [{"cpu_s": 0}, {"cpu_s": 1.5}, {"wall_s": 0}, {"memory_bytes": 1}, {"n_files": -1}, {"wall_s": True}],
)
def test_limits_must_leave_room_to_run(limits):
    with pytest.raises(BadRequest, match="of the sandbox must be"):
        SandboxLimits(**limits)
