"""Files that are written completely or not at all."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tensor_reshape.cli.outputs import create_file, is_replaceable, reserve, write_file

# nohup, under which the tests may run, ignores SIGHUP.
WAIT = """
import signal, sys, time
from tensor_reshape.cli.outputs import create_file
signal.signal(signal.SIGHUP, signal.SIG_DFL)
with create_file(sys.argv[1], 100):
    print("writing", flush=True)
    time.sleep(60)
"""


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_output_file_appears_only_when_it_is_complete(tmp_path: Path):
    path = tmp_path / "file"
    with create_file(str(path), 3) as file:
        file.write(b"abc")
        assert not path.exists()
    assert (path.read_bytes(), list_names(tmp_path)) == (b"abc", ["file"])
    with pytest.raises(ZeroDivisionError), create_file(str(path), 3) as file:
        file.write(b"new" * (1 // 0))
    assert (path.read_bytes(), list_names(tmp_path)) == (b"abc", ["file"])


def test_replacing_a_file_keeps_its_symbolic_link_and_mode(tmp_path: Path):
    path, link = tmp_path / "file", tmp_path / "link"
    path.touch(mode=0o640)
    link.symlink_to(path)
    with create_file(str(link)) as file:
        file.write(b"new")
    assert (link.is_symlink(), path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (True, b"new", 0o640)


def test_missing_disk_space_or_folder_is_an_error_before_writing(tmp_path: Path):
    free = os.statvfs(tmp_path)
    with pytest.raises(OSError, match=r"No space left|File too large"):
        create_file(str(tmp_path / "file"), (free.f_bavail + 1000) * free.f_frsize * 1000).__enter__()
    with pytest.raises(FileNotFoundError):
        create_file(str(tmp_path / "no" / "file")).__enter__()
    assert list_names(tmp_path) == []


def test_reserving_zero_bytes_takes_no_disk_space(tmp_path: Path):
    with (tmp_path / "file").open("wb") as file:
        reserve(file, 0)
        assert os.fstat(file.fileno()).st_size == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_during_a_write_leaves_no_file(tmp_path: Path, number: signal.Signals):
    with subprocess.Popen([sys.executable, "-c", WAIT, tmp_path / "file"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert len(list_names(tmp_path)) == 1
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert list_names(tmp_path) == []


def test_signal_handlers_are_restored_after_a_write(tmp_path: Path):
    terminated, before = (
        signal.getsignal(signal.SIGTERM),
        signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # the state under nohup
    try:
        with create_file(str(tmp_path / "file")):
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) != terminated
        assert signal.getsignal(signal.SIGTERM) == terminated
    finally:
        signal.signal(signal.SIGHUP, before)


def test_only_regular_or_missing_files_are_replaced(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").touch()
    names = ("fifo", "file", "new")
    assert [is_replaceable(str(tmp_path / name)) for name in names] == [False, True, True]
    with pytest.raises(IsADirectoryError):
        is_replaceable(str(tmp_path))


def test_write_file_replaces_a_file_atomically(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with path.open("rb") as old:
        write_file(path, b"new")
        assert (old.read(), path.read_bytes(), list_names(tmp_path)) == (b"old", b"new", ["file"])
    write_file(Path(os.devnull), b"new")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    with pytest.raises(click.FileError, match="No such file or directory") as caught:
        write_file(tmp_path / "none" / "file", b"new")
    assert caught.value.filename == str(tmp_path / "none" / "file")
