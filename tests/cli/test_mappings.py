"""Mapped files."""

import mmap
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from tensor_reshape.cli.mappings import WINDOW_BYTES, Mapping

SIZE = 3 * WINDOW_BYTES
OFFSET = 128  # the size of a .npy header, which is not a multiple of a page


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


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_released_part_of_a_mapped_file_leaves_memory(path: Path, mode: Literal["r", "r+"]):
    array: np.memmap[Any, Any] = np.memmap(path, np.uint8, mode, offset=OFFSET)
    mapping = Mapping(array)
    assert not array.any()
    before = read_resident(path)
    mapping.give_back(2 * WINDOW_BYTES)
    assert read_resident(path) <= (WINDOW_BYTES + mmap.PAGESIZE) // 1024 < before


def test_released_part_of_a_mapped_file_keeps_written_bytes(path: Path):
    array: np.memmap[Any, Any] = np.memmap(path, np.uint8, "r+", offset=OFFSET)
    array[:3] = 7
    Mapping(array).give_back(array.nbytes)
    assert array[:4].tolist() == [7, 7, 7, 0]
    assert path.read_bytes()[OFFSET : OFFSET + 4] == b"\7\7\7\0"


def test_mapped_file_can_be_released_again_after_a_restart(path: Path):
    array: np.memmap[Any, Any] = np.memmap(path, np.uint8, "r", offset=OFFSET)
    mapping = Mapping(array)
    mapping.give_back(array.nbytes)
    mapping.give_back(0)
    assert not array.any()
    mapping.give_back(array.nbytes)
    assert read_resident(path) == 0


CUT = """
import os, sys
from tensor_reshape.cli.sources import open_source
with open_source(sys.argv[1]) as source:
    os.truncate(sys.argv[1], 0)
    source.array.tobytes()
"""


def test_reading_a_truncated_mapped_file_raises_sigbus(tmp_path: Path):
    """No program that maps files can prevent this, as the documentation says."""
    path = tmp_path / "file.npy"
    np.save(path, np.zeros(10_000))
    assert subprocess.run([sys.executable, "-c", CUT, path], check=False).returncode == -signal.SIGBUS
