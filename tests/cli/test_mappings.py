"""Mapped files."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tensor_reshape.cli.mappings import WINDOW_BYTES, Mapping

SIZE = 3 * WINDOW_BYTES


def read_resident(path: Path) -> int:
    """Returns how many KiB of a mapped file are in this process's memory."""
    _, _, rest = Path("/proc/self/smaps").read_text().partition(str(path))
    found = re.search(r"^Rss: +(\d+) kB", rest, re.MULTILINE)
    assert found
    return int(found[1])


@pytest.mark.parametrize("writable", [False, True])
def test_what_is_given_back_is_no_memory_of_the_process(tmp_path: Path, writable: bool):
    path = tmp_path / "file"
    path.write_bytes(bytes(SIZE))
    with path.open("r+b") as file:
        mapping = Mapping(file, writable=writable)
        assert bytes(mapping.buffer) == bytes(SIZE)
        before = read_resident(path)
        mapping.give_back(2 * WINDOW_BYTES + 5)
        assert (before, read_resident(path)) == (SIZE // 1024, WINDOW_BYTES // 1024)


def test_what_was_written_and_given_back_is_in_the_file(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(bytes(SIZE))
    with path.open("r+b") as file:
        mapping = Mapping(file, writable=True)
        mapping.buffer[:3] = b"abc"
        mapping.give_back(SIZE)
        assert bytes(mapping.buffer[:4]) == b"abc\0"
    assert path.read_bytes()[:4] == b"abc\0"


def test_a_transfer_that_begins_anew_gives_back_again(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(bytes(SIZE))
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


def test_a_file_that_is_cut_short_while_it_is_read_ends_the_process_by_sigbus(tmp_path: Path):
    """Which the page says: no program that maps files can do better."""
    (tmp_path / "file").write_bytes(bytes(2**20))
    assert subprocess.run([sys.executable, "-c", CUT, tmp_path / "file"], check=False).returncode == -signal.SIGBUS
