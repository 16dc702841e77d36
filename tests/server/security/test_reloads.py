"""Files that are read again when they change."""

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.security.reloads import Reloaded, read_file


class Counted:
    """Reads files, and counts the reads."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self.count = 0

    def load(self) -> list[bytes]:
        self.count += 1
        contents = [read_file(path) for path in self._paths]
        if b"junk" in contents:
            message = "junk"
            raise ConfigError(message)
        return contents


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    return path


def test_unchanged_files_are_not_reloaded(path: Path):
    counted = Counted(path)
    reloaded = Reloaded("files", [path], counted.load)
    for _ in range(3):
        reloaded.reload_if_changed()
    assert (reloaded.value, counted.count) == ([b"one"], 1)


def test_modified_file_is_reloaded(path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    reloaded = Reloaded("files", [path], Counted(path).load)
    path.write_bytes(b"another")
    reloaded.reload_if_changed()
    assert reloaded.value == [b"another"]
    assert [record.message for record in caplog.records] == ["reloaded"]


def test_modified_file_of_equal_size_and_time_is_reloaded(path: Path):
    reloaded, found = Reloaded("files", [path], Counted(path).load), path.stat()
    times = (found.st_atime_ns, found.st_mtime_ns)
    other = path.with_name("other")
    other.write_bytes(b"two")
    os.utime(other, ns=times)
    other.replace(path)
    reloaded.reload_if_changed()
    assert reloaded.value == [b"two"]

    before = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == before:  # until the clock of the file system has advanced
        path.write_bytes(b"six")
        os.utime(path, ns=times)
    reloaded.reload_if_changed()
    assert reloaded.value == [b"six"]


def test_reload_ignores_a_pipe_in_place_of_the_file(path: Path):
    reloaded = Reloaded("files", [path], Counted(path).load)
    path.unlink()
    os.mkfifo(path)
    reloaded.reload_if_changed()
    assert reloaded.value == [b"one"]
    with pytest.raises(ConfigError, match="not a regular file"):
        Counted(path).load()


def test_symbolic_link_with_a_new_target_is_reloaded(tmp_path: Path):
    # Kubernetes mounts secrets as cert.pem -> ..data/cert.pem and ..data -> ..2026_1, and replaces only the second
    # link.
    for version in ("1", "2"):
        (tmp_path / f"..{version}").mkdir()
        (tmp_path / f"..{version}" / "file").write_text(version)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "file").symlink_to("..data/file")
    path = tmp_path / "file"
    reloaded = Reloaded("files", [path], Counted(path).load)
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").replace(tmp_path / "..data")
    reloaded.reload_if_changed()
    assert reloaded.value == [b"2"]


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"junk"), Path.unlink], ids=["junk", "gone"])
def test_unusable_reloaded_file_keeps_the_old_value(
    damage: Callable[[Path], object], path: Path, caplog: pytest.LogCaptureFixture
):
    reloaded = Reloaded("files", [path], Counted(path).load)
    damage(path)
    for _ in range(3):
        reloaded.reload_if_changed()
    assert reloaded.value == [b"one"]
    assert [record.message for record in caplog.records] == ["not reloaded"]
    path.write_bytes(b"again")
    reloaded.reload_if_changed()
    assert reloaded.value == [b"again"]


def test_files_that_change_during_a_reload_are_reloaded_next_time(tmp_path: Path):
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_text("1")

    def load() -> list[str]:
        contents = [path.read_text() for path in paths]
        if contents == ["22", "1"]:  # the second file is being replaced
            paths[1].write_text("22")
        return contents

    reloaded = Reloaded("files", paths, load)
    paths[0].write_text("22")
    reloaded.reload_if_changed()
    assert reloaded.value == ["1", "1"]
    reloaded.reload_if_changed()
    assert reloaded.value == ["22", "22"]
