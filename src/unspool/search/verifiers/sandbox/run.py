"""The safe side of the sandbox: starts it, reads what it says, ends it.

What holds where (`SandboxResult.guards` says what held in a run):

- everywhere (POSIX): no environment, no input, a temporary folder as working directory, an interpreter
  without site packages (-I -S); limits of processor time, wall clock, memory, output, size of a file, open
  files; a session and process group of its own, killed as a whole at the end.
- Linux: it dies with the caller, even when that is killed.
- "processes", "network": own namespaces of processes, network, mounts and shared memory. For root, and for
  everybody where user namespaces are permitted. All processes die with the first, whatever they do.
- "own files": the working directory is a file system in memory, limited in bytes and in number of files.
  Without it the number is watched from outside, ten times a second.
- "files": Landlock. Nothing is readable but Python's library and the system's, nothing writable but the
  working directory. Names, sizes and dates of other files can still be looked up.
- "calls", "network", "signals": a filter of system calls (x86-64 and ARM64). No socket, no new process, no
  program, no signal to any other process. Threads are allowed.
- "user": for root, another user that owns nothing.

The answer and its tests share one process, so an answer written to forge the result of its tests can do so;
ending early (sys.exit, os._exit) is no way to pass.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final, Literal

from unspool.errors import VerifierError, named
from unspool.search.verifiers.sandbox.limits import SandboxLimits

_PROGRAM: Final = (
    "import sys; source = sys.argv.pop(); sys.path.insert(0, source); "
    "from unspool.search.verifiers.sandbox import child; sys.path.remove(source); child.main()"
)
_MAX_REPORT_BYTES: Final = 1 << 16
_WATCH_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """What became of a run."""

    n_passed: int
    n_failed: int
    problem: str  # the first failure, or what ended the run; empty when all passed
    output: str  # the beginning of what was written to standard output and error
    guards: tuple[str, ...]

    @property
    def has_passed(self) -> bool:
        return not self.problem and self.n_failed == 0 and self.n_passed > 0


def run(
    code: str,
    tests: str,
    *,
    kind: Literal["tests", "examples"] = "tests",
    limits: SandboxLimits | None = None,
    allow_weak: bool = False,
    leave_out: tuple[str, ...] = (),
) -> SandboxResult:
    """Run an answer with its tests. Raises VerifierError where no sandbox can be made.

    `allow_weak` runs it also where signals, network or files could not be shut off. `leave_out` does without
    "namespaces", "landlock" or "seccomp", as on systems that have none: to see what the others hold.
    """
    if os.name != "posix" or not sys.executable:
        raise VerifierError("the sandbox needs Linux or macOS, and Python as a program of its own")
    limits = limits or SandboxLimits()
    folder = tempfile.mkdtemp(prefix=f"unspool-sandbox-{os.getpid()}-")
    work, shown = os.path.join(folder, "work"), os.path.join(folder, "library")
    nonce = secrets.token_hex(16)
    job = {"code": code, "tests": tests, "kind": kind, "limits": asdict(limits), "nonce": nonce}
    user = 1_500_000_000 + secrets.randbelow(500_000_000)  # where ids of users are not given out
    try:
        os.chmod(folder, 0o711)
        os.mkdir(work, 0o755)
        os.mkdir(shown, 0o755)
        heard = _watched(
            {
                **job,
                "work": work,
                "shown": shown,
                "user": user,
                "allow_weak": allow_weak,
                "leave_out": leave_out,
            },
            work,
            limits,
        )
    finally:
        _remove(folder)
    return heard.result(nonce, limits)


@dataclass(slots=True)
class _Heard:
    """What came through the pipes, and why the safe side ended the run, if it did."""

    output: bytearray
    report: bytearray
    ended: str = ""

    def result(self, nonce: str, limits: SandboxLimits) -> SandboxResult:
        facts: dict[str, Any] = {}
        for line in map(_object, bytes(self.report).splitlines()):
            if line is not None and line.get("nonce") == nonce:
                facts.update(line)
        guards = tuple(sorted(set(facts.get("guards", ()))))
        if facts.get("refused"):
            missing = ", ".join(sorted({"signals", "network", "files"} - set(guards)))
            raise VerifierError(
                f"this system gives the sandbox no hold on: {missing}; run it on Linux 5.13 or later, or "
                f"give {named('allow_weak', True)} for answers that you trust",
                code="no_sandbox",
            )
        if "broken" in facts or (not facts and not self.ended):
            why = facts.get("broken") or " ".join(self.output[-200:].decode("utf-8", "replace").split())
            raise VerifierError(f"the sandbox could not start: {why}", code="no_sandbox")
        output = bytes(self.output[: limits.output_bytes]).decode("utf-8", "replace")
        problem = self.ended or _problem(facts, limits)
        n_passed = int(facts.get("n_passed", 0))
        return SandboxResult(n_passed, int(facts.get("n_failed", 0)), problem, output, guards)


def _watched(job: dict[str, Any], work: str, limits: SandboxLimits) -> _Heard:
    """Start the child and hear it out, to its end or to that of its time or room."""
    read_fd, write_fd = os.pipe()
    with tempfile.TemporaryFile() as given:
        given.write(json.dumps(job).encode())
        given.seek(0)
        source = str(Path(__file__).resolve().parents[4])
        arguments = [str(write_fd), str(os.getpid()), source]
        try:
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", _PROGRAM, *arguments],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={},
                cwd=work,
                pass_fds=(write_fd,),
                start_new_session=True,
            )
        except OSError as error:
            os.close(read_fd)
            raise VerifierError(f"the sandbox could not start: {error}", code="no_sandbox") from error
        finally:
            os.close(write_fd)
    assert child.stdout is not None, "it is a pipe"
    heard = _Heard(bytearray(), bytearray())
    try:
        _listen(child.stdout.fileno(), read_fd, heard, work, limits)
    finally:
        # Before the launcher is waited for: until then nobody else can have the number of its group.
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # all gone; macOS says the second of zombies
            child.kill()
        child.wait()
        child.stdout.close()
        os.close(read_fd)
    return heard


def _listen(output_fd: int, report_fd: int, heard: _Heard, work: str, limits: SandboxLimits) -> None:
    deadline = monotonic() + limits.wall_s
    with selectors.DefaultSelector() as selector:
        selector.register(output_fd, selectors.EVENT_READ, (heard.output, limits.output_bytes, "output"))
        selector.register(report_fd, selectors.EVENT_READ, (heard.report, _MAX_REPORT_BYTES, "report"))
        while selector.get_map():
            left = deadline - monotonic()
            if left <= 0:
                heard.ended = f"took longer than {limits.wall_s:g} s"
                return
            for key, _ in selector.select(min(left, _WATCH_S)):
                into, n_bytes_max, name = key.data
                data = os.read(key.fd, 1 << 16)
                into += data
                if not data:
                    selector.unregister(key.fd)
                if len(into) > n_bytes_max:
                    heard.ended = f"wrote more than {n_bytes_max} bytes of {name}"
                    del into[n_bytes_max:]
                    return
            if _has_more_files(work, limits.n_files):
                heard.ended = f"made more than {limits.n_files} files"
                return


def _problem(facts: dict[str, Any], limits: SandboxLimits) -> str:
    if "n_passed" in facts:
        return str(facts["failure"])[:300] or ("" if facts["n_passed"] else "there are no tests")
    status = int(facts.get("status", 0))
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number in (signal.SIGXCPU, signal.SIGKILL):
            return f"took more than {limits.cpu_s} s of processor time, or was killed"
        return f"crashed ({signal.Signals(number).name})"
    return f"ended before its tests did (exit code {os.WEXITSTATUS(status)})"


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _has_more_files(folder: str, n_max: int) -> bool:
    """Whether there are more files and folders than that below a folder; looks no further than needed."""
    n_found, folders = 0, [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    n_found += 1
                    if n_found > n_max:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:  # gone meanwhile, or closed by whoever made it
            continue
    return False


def _remove(folder: str) -> None:
    """Delete a folder, also one that was nested as deeply as could be, or closed."""
    try:
        shutil.rmtree(folder)
    except (OSError, RecursionError):
        subprocess.run(["chmod", "-R", "u+rwx", folder], check=False, capture_output=True)
        subprocess.run(["rm", "-rf", folder], check=False, capture_output=True)
