"""Reads files again after a change, so that an operator can replace certificates and tokens without a restart.

- A file counts as changed if its inode, its size or one of its times has changed. If a symbolic link in the path gets a
  new target, the file therefore counts as changed. Kubernetes updates mounted files with such links.
- Only regular files are read, because reading a pipe could block the thread, which also does other work.
- If the new contents of a file are invalid, the server logs an error once and keeps the previous contents. The server
  reads the files again after their next change. If an operator replaces a certificate before its key, the server
  therefore loads both files when the key changes.
- Log records contain nothing from a reloaded file except the error message of the code that loads it. This message
  contains no secrets.
"""

import logging
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from tensor_reshape.server.config import ConfigError

RELOAD_SECONDS = 1.0
"""Seconds between two checks for changed files."""

_LOGGER = logging.getLogger(__name__)
_Value = TypeVar("_Value")
_Version = tuple[tuple[int, ...] | None, ...]


class Reloaded(Generic[_Value]):
    """Stores the contents of files, and reads the files again after a change.

    Attributes:
        value: the last valid contents of the files. Only one thread replaces the value, but any thread may read the
            value.
    """

    def __init__(self, name: str, paths: Sequence[Path], load: Callable[[], _Value]) -> None:
        """Reads the files.

        Args:
            name: the name that log records use for the contents.
            paths: the paths of the files to watch.
            load: a function that reads the files and returns the value. It raises ConfigError if the contents are
                invalid.

        Raises:
            ConfigError: the contents are invalid.
        """
        self._name = name
        self._paths = tuple(paths)
        self._load = load
        # The version is determined before the files are read, so that a change during reading is detected later.
        self._version = self._find_version()
        self.value = load()

    def reload_if_changed(self) -> None:
        """Reads the files again if they have changed. One thread must call this method every RELOAD_SECONDS."""
        version = self._find_version()
        if version == self._version:
            return
        self._version = version
        try:
            value = self._load()
        except ConfigError as error:
            _LOGGER.error(  # noqa: TRY400 - the files are wrong, and a traceback does not help
                "not reloaded", extra={"what": self._name, "reason": str(error)}
            )
            return
        if self._find_version() != version:
            # The files have changed during reading, so their contents may not belong together. The next call of
            # `reload_if_changed` reads the files again.
            return
        self.value = value
        _LOGGER.info("reloaded", extra={"what": self._name})

    def _find_version(self) -> _Version:
        return tuple(map(_find_version, self._paths))


def read_file(path: Path) -> bytes:
    """Returns the contents of a file.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            message = f"{path} is not a regular file"
            raise ConfigError(message)
        return path.read_bytes()
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise ConfigError(message) from None


def _find_version(path: Path) -> tuple[int, ...] | None:
    """Returns a value that changes when a file changes, or None if the file does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    # Neither the inode number nor the modification time changes in every case. The system may reuse the inode number of
    # a removed file, and a copied file may have the modification time of the original. However, a copied file cannot
    # have the inode change time (ctime) of the original.
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
