"""The unsafe side: from a fresh interpreter to a locked-down process that runs an answer.

    launcher   its own session and process group; leaves the caller's namespaces
    keeper     first process of the new namespace: when it ends, the kernel kills all others there
    runner     gives up all rights, and runs what nobody has read

Each dies with the one before it. What the runner and the keeper report goes through a pipe, a line each.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from unspool.search.verifiers.sandbox import landlock, limits, namespaces, seccomp
from unspool.search.verifiers.sandbox.libc import PR_SET_PDEATHSIG, drop_capabilities, prctl
from unspool.search.verifiers.sandbox.limits import SandboxLimits

_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo")


def main() -> None:  # pragma: no cover - in another process
    """Arguments: the pipe's descriptor, the caller's process id. Standard input has the job."""
    report_fd, caller = int(sys.argv[1]), int(sys.argv[2])
    _die_with(caller)
    job = json.loads(sys.stdin.buffer.read())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()  # Python itself may have set LC_CTYPE
    guards: list[str] = []
    if sys.platform == "linux" and "namespaces" not in job["leave_out"]:
        try:
            namespaces.leave()
            guards += ["processes", "network"]
        except OSError:
            pass
    keeper = os.fork()
    if keeper == 0:
        _keep(job, report_fd, guards)
    os.waitpid(keeper, 0)
    os._exit(0)


def _keep(
    job: dict[str, Any], report_fd: int, guards: list[str]
) -> None:  # pragma: no cover - in another process
    """Be the keeper: start the runner, wait for it, tell how it ended."""
    _die_with(None)
    if "processes" in guards:
        try:
            caps = job["limits"]
            namespaces.furnish(job["work"], n_bytes=caps["file_bytes"], n_files=caps["n_files"])
            guards.append("own files")
        except OSError:
            pass
    os.chdir(job["work"])
    keeper = os.getpid()
    runner = os.fork()
    if runner == 0:
        try:
            _run(job, report_fd, guards, keeper)
        except BaseException as error:
            _tell(job, report_fd, {"broken": f"{type(error).__name__}: {error}"})
        os._exit(0)
    status = None
    while status is None:
        pid, code = os.wait()
        status = code if pid == runner else None
    _tell(job, report_fd, {"status": status})
    os._exit(0)


def _run(
    job: dict[str, Any], report_fd: int, guards: list[str], keeper: int
) -> None:  # pragma: no cover - in another process
    """Be the runner."""
    from unspool.search.verifiers.sandbox import harness

    caps = SandboxLimits(**job["limits"])
    _lock(job, guards, caps, keeper)
    if not {"signals", "network", "files"} <= set(guards) and not job["allow_weak"]:
        _tell(job, report_fd, {"refused": True, "guards": guards})
        return
    _tell(job, report_fd, {"guards": guards})
    for name in [name for name in sys.modules if name.partition(".")[0] == "unspool"]:
        del sys.modules[name]
    run = harness.run_tests if job["kind"] == "tests" else harness.run_examples
    sys.argv[:] = [harness.ANSWER]
    tally = run(job["code"], job["tests"])
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:  # the answer may have closed them
        pass
    told = {"n_passed": tally.n_passed, "n_failed": tally.n_failed, "failure": tally.first_failure}
    _tell(job, report_fd, told)


def _lock(
    job: dict[str, Any], guards: list[str], caps: SandboxLimits, keeper: int
) -> None:  # pragma: no cover - in another process
    """Give up everything, what needs rights first; `guards` learns what holds."""
    limits.apply(caps)
    library = os.path.dirname(os.__file__)
    if sys.platform != "linux":
        if os.geteuid() == 0:
            _become_nobody(job["work"], job["user"])
            guards.append("user")
        return
    if os.geteuid() == 0:
        shown = job["shown"]
        if not _is_open_to_all(library) and "own files" in guards:
            namespaces.show(library, shown)
            _move_imports(library, shown)
            library = shown
        if _is_open_to_all(library) and _is_open_to_all(job["work"]):
            own_fence = _fence(library, job)
            _become_nobody(job["work"], job["user"])
            guards.append("user")
            import resource

            resource.setrlimit(resource.RLIMIT_NPROC, (caps.n_threads + 1, caps.n_threads + 1))
        else:
            own_fence = _fence(library, job)
    else:
        own_fence = _fence(library, job)
    if os.getppid() != keeper:
        os._exit(0)
    drop_capabilities()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user forgets it
    if own_fence is not None:
        own_fence.enter()
        guards.append("files")
    try:
        if "seccomp" in job["leave_out"]:
            raise OSError("left out")
        seccomp.install()
        guards += ["calls", "network", "signals"]
    except OSError:
        if "processes" in guards:
            guards.append("signals")


def _fence(  # pragma: no cover - in another process
    library: str, job: dict[str, Any]
) -> landlock.Fence | None:
    if "landlock" in job["leave_out"]:
        return None
    readable = [library, *_LIBRARIES]
    try:
        return landlock.Fence(readable, [job["work"]], _DEVICES)
    except OSError:
        return None


def _move_imports(library: str, shown: str) -> None:  # pragma: no cover - in another process
    """Import from another path what is not yet imported."""
    sys.path[:] = [path.replace(library, shown, 1) for path in sys.path]
    sys.path_importer_cache.clear()
    for module in list(sys.modules.values()):
        folders = getattr(module, "__path__", None)
        if isinstance(folders, list):
            folders[:] = [folder.replace(library, shown, 1) for folder in folders]


def _become_nobody(work: str, user: int) -> None:  # pragma: no cover - in another process
    """A user that nobody else is, so that limits by user count this process alone."""
    for number in (user, 65534):
        try:
            os.chown(work, number, number)
            os.setgroups([])
            os.setresgid(number, number, number)
            os.setresuid(number, number, number)
            return
        except OSError:  # a user namespace that has fewer numbers
            continue
    raise OSError("there is no other user to become")


def _is_open_to_all(path: str) -> bool:  # pragma: no cover - in another process
    """Whether everybody may pass through the folders of a path, and read the last."""
    path = os.path.realpath(path)
    if os.stat(path).st_mode & 0o5 != 0o5:
        return False
    while path != "/":
        path = os.path.dirname(path)
        if not os.stat(path).st_mode & 0o1:
            return False
    return True


def _die_with(parent: int | None) -> None:  # pragma: no cover - in another process
    """Be killed when the parent ends, also where it is not there to kill."""
    if sys.platform == "linux":
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(0)


def _tell(  # pragma: no cover - in another process
    job: dict[str, Any], report_fd: int, what: dict[str, Any]
) -> None:
    """A line for the safe side; it believes those with the nonce alone."""
    os.write(report_fd, json.dumps({"nonce": job["nonce"], **what}).encode() + b"\n")
