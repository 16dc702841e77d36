"""Mapped files."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tensor_reshape.cli.mappings import WINDOW_BYTES, Mapping

SIZE = 3 * WINDOW_BYTES


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(bytes(SIZE))
    return tmp_path / "file"


def read_resident(path: Path) -> int:
    """Returns the KiB of a mapped file in this process's memory."""
    _, _, rest = Path("/proc/self/smaps").read_text().partition(str(path))
    found = re.search(r"^Rss: +(\d+) kB", rest, re.MULTILINE)
    assert found
    return int(found[1])


@pytest.mark.parametrize("writable", [False, True])
def test_released_part_of_a_mapped_file_leaves_memory(path: Path, writable: bool):
    with path.open("r+b") as file:
        mapping = Mapping(file, writable=writable)
        assert bytes(mapping.buffer) == bytes(SIZE)
        before = read_resident(path)
        mapping.give_back(2 * WINDOW_BYTES + 5)
        assert read_resident(path) <= WINDOW_BYTES // 1024 < before


def test_released_part_of_a_mapped_file_keeps_written_bytes(path: Path):
    with path.open("r+b") as file:
        mapping = Mapping(file, writable=True)
        mapping.buffer[:3] = b"abc"
        mapping.give_back(SIZE)
        assert bytes(mapping.buffer[:4]) == b"abc\0"
    assert path.read_bytes()[:4] == b"abc\0"


def test_mapped_file_can_be_released_again_after_a_restart(path: Path):
    with path.open("rb") as file:
        mapping = Mapping(file)
        mapping.give_back(SIZE)
        mapping.give_back(0)
        assert bytes(mapping.buffer) == bytes(SIZE)
        mapping.give_back(SIZE)
        assert read_resident(path) == 0


CUT = """
import os, sys
from tensor_reshape.cli.mappings import Mapping
with open(sys.argv[1], "r+b") as file:
    mapping = Mapping(file)
    os.truncate(sys.argv[1], 0)
    bytes(mapping.buffer)
"""


def test_reading_a_truncated_mapped_file_raises_sigbus(path: Path):
    """No program that maps files can prevent this, as the documentation says."""
    assert subprocess.run([sys.executable, "-c", CUT, path], check=False).returncode == -signal.SIGBUS
