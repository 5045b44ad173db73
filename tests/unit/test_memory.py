"""The memory there is, from the files of a system that the test writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool import memory

GIB = 1 << 30
UNLIMITED_V1 = "9223372036854771712"


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes files of a machine of 16 GiB, 12 of them free."""
    pages = {"SC_PHYS_PAGES": 16 * GIB // 4096, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr("os.sysconf", pages.__getitem__)

    def write(files: dict[str, object]) -> Path:
        meminfo = f"MemTotal: {16 << 20} kB\nMemAvailable: {12 << 20} kB\nHugePages_Total: 0\n"
        for name, text in {"proc/meminfo": meminfo, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        return tmp_path

    return write


def test_without_groups_it_is_the_machine_s(system):
    root = system({})
    assert (memory.total_bytes(root), memory.free_bytes(root)) == (16 * GIB, 12 * GIB)


def test_a_group_of_version_2_limits_it_and_its_file_cache_is_free(system):
    root = system(
        {
            "proc/self/cgroup": "0::/app",
            "sys/fs/cgroup/app/memory.max": 4 * GIB,
            "sys/fs/cgroup/app/memory.current": 3 * GIB,
            "sys/fs/cgroup/app/memory.stat": f"anon {2 * GIB}\ninactive_file {GIB}",
        }
    )
    assert (memory.total_bytes(root), memory.free_bytes(root)) == (4 * GIB, 2 * GIB)


def test_the_tightest_of_nested_groups_counts(system):
    root = system(
        {
            "proc/self/cgroup": "0::/pod/app",
            "sys/fs/cgroup/pod/app/memory.max": "max",
            "sys/fs/cgroup/pod/app/memory.current": GIB,
            "sys/fs/cgroup/pod/memory.max": 2 * GIB,
            "sys/fs/cgroup/pod/memory.current": GIB + GIB // 2,
        }
    )
    assert (memory.total_bytes(root), memory.free_bytes(root)) == (2 * GIB, GIB // 2)


@pytest.mark.parametrize("group", ["/", "/../../elsewhere", "/a/path/that/only/the/host/sees"])
def test_a_container_that_sees_its_group_as_the_root_finds_the_limit_there(system, group):
    root = system(
        {
            "proc/self/cgroup": f"0::{group}",
            "sys/fs/cgroup/memory.max": GIB,
            "sys/fs/cgroup/memory.current": 2 * GIB,
        }
    )
    assert (memory.total_bytes(root), memory.free_bytes(root)) == (GIB, 0)


def test_a_group_of_version_1_limits_it(system):
    base = "sys/fs/cgroup/memory"
    root = system(
        {
            "proc/self/cgroup": "5:cpuset:/\n4:memory,hugetlb:/docker/0f:1\n0::/",
            f"{base}/docker/0f:1/memory.limit_in_bytes": 3 * GIB,
            f"{base}/docker/0f:1/memory.usage_in_bytes": GIB,
            f"{base}/docker/0f:1/memory.stat": f"total_inactive_file {GIB // 4}",
            f"{base}/memory.limit_in_bytes": UNLIMITED_V1,
        }
    )
    assert memory.total_bytes(root) == 3 * GIB
    assert memory.free_bytes(root) == 2 * GIB + GIB // 4


def test_a_system_that_says_nothing_has_none(tmp_path, monkeypatch):
    def unknown(name):
        raise ValueError(name)

    monkeypatch.setattr("os.sysconf", unknown)
    assert memory.total_bytes(tmp_path) is None
    assert memory.free_bytes(tmp_path) is None
