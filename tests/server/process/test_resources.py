"""Limits of memory, cores and file descriptors."""

import math
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tensor_reshape.server.process.resources import (
    MAX_CONNECTIONS,
    RESERVED_DESCRIPTORS,
    count_connections,
    count_cores,
    find_available_memory,
    find_cgroup_limit,
)

GIB = 1 << 30


def write_limits(mount: Path, name: str, limits: dict[str, str]) -> None:
    for group, limit in limits.items():
        folder = mount / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{limit}\n")


def test_cgroup_memory_limit_is_the_smallest_of_all_ancestors(tmp_path: Path):
    rows: list[tuple[str, dict[str, str], float]] = [
        ("0::/a/b\n", {"a/b": "max", "a": "max"}, math.inf),
        ("0::/a/b\n", {"a/b": "4096", "a": "max"}, 4096),
        ("0::/a/b\n", {"a/b": "max", "a": "8192"}, 8192),
        ("0::/a/b\n", {"a/b": "4096", "a": "1024"}, 1024),
        ("0::/\n", {"": "512"}, 512),
        ("0::/outside/of/the/container\n", {"": "512"}, 512),
        ("0::/../other\n", {"": "512"}, 512),
        ("", {"": "512"}, math.inf),
    ]
    for number, (groups, limits, expected) in enumerate(rows):
        folder = tmp_path / f"{number}"
        write_limits(folder / "mount", "memory.max", limits)
        (folder / "groups").write_text(groups)
        assert find_cgroup_limit(folder / "groups", folder / "mount") == expected, (groups, limits)
    assert find_cgroup_limit(tmp_path / "missing", tmp_path) == math.inf


def test_cgroup_version_1_memory_limit_is_supported(tmp_path: Path):
    (tmp_path / "groups").write_text("9:cpu:/x\n4:memory,hugetlb:/a\n0::/a\n")
    write_limits(tmp_path / "mount" / "memory", "memory.limit_in_bytes", {"a": "4096", "": str(2**63 - 4096)})
    write_limits(tmp_path / "mount" / "memory", "memory.max", {"": "1"})
    assert find_cgroup_limit(tmp_path / "groups", tmp_path / "mount") == 4096


def test_core_count_is_the_smallest_quota_of_all_ancestors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cores = 8
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    rows: list[tuple[dict[str, str], int]] = [
        ({"a/b": "max 100000", "a": "max 100000"}, cores),
        ({"a/b": "900000 100000"}, cores),
        ({"a/b": "300000 100000", "a": "500000 100000"}, 3),
        ({"a/b": "199999 100000", "a": "max 100000"}, 1),
        ({"a/b": "max 100000", "a": "50000 50000"}, 1),
        ({"a/b": "1000 100000"}, 1),
        ({"": "140000 20000"}, 7),
    ]
    for number, (limits, expected) in enumerate(rows):
        folder = tmp_path / f"{number}"
        write_limits(folder / "mount", "cpu.max", limits)
        (folder / "groups").write_text("0::/a/b\n")
        assert count_cores(folder / "groups", folder / "mount") == expected, limits
    assert count_cores(tmp_path / "missing", tmp_path) == cores


def test_core_count_supports_cgroup_version_1(tmp_path: Path):
    (tmp_path / "groups").write_text("9:cpu,cpuacct:/x\n4:memory:/a\n0::/a\n")
    for folder in ("cpu,cpuacct", "cpu"):
        mount = tmp_path / folder
        write_limits(mount / folder, "cpu.cfs_period_us", {"x": "50000", "": "100000"})
        for quota, expected in (("-1", len(os.sched_getaffinity(0))), ("50000", 1)):
            write_limits(mount / folder, "cpu.cfs_quota_us", {"x": quota, "": "-1"})
            assert count_cores(tmp_path / "groups", mount) == expected


def test_available_memory_respects_the_address_space_limit():
    # The process sets the limit itself, because grpcio may abort code that runs between fork and exec.
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({GIB}, {GIB}));"
        "from tensor_reshape.server.process.resources import *; "
        "print(find_available_memory(1), find_available_memory(2))"
    )
    outcome = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    one, two = map(int, outcome.stdout.split())
    assert (GIB / 8 < one < GIB / 2, two) == (True, 2 * one)
    assert find_available_memory(8) < find_available_memory(1)


def test_connection_limit_depends_on_the_file_descriptor_limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (RESERVED_DESCRIPTORS + 1000, hard))
    try:
        assert [count_connections(listeners) for listeners in (1, 4, 10**9)] == [1000, 250, 1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        assert count_connections(1) == min(MAX_CONNECTIONS, hard - RESERVED_DESCRIPTORS)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
