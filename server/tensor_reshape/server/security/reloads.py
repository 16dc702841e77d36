"""Files that are read again after a change, so that their contents can be rotated without a restart.

- A file has changed if its inode, its size or one of its times has. This includes a new target of a symbolic link in
  its path, which is how Kubernetes updates mounted files.
- Only regular files are read, because reading a pipe would block the other work of the same thread.
- Invalid contents change nothing and are logged once. The next attempt follows the next change. A certificate that is
  replaced before its key is therefore loaded together with the key.
- Log records contain nothing of a file except the loader's message, which contains no secrets.
"""

import logging
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from tensor_reshape.server.config import ConfigError

RELOAD_SECONDS = 1.0
"""The longest time until a change of a file is noticed."""

_LOGGER = logging.getLogger(__name__)
_Value = TypeVar("_Value")
_Version = tuple[tuple[int, ...] | None, ...]


class Reloaded(Generic[_Value]):
    """The contents of some files.

    Attributes:
        value: the last valid contents. One thread replaces it; any thread may read it.
    """

    def __init__(self, what: str, paths: Sequence[Path], load: Callable[[], _Value]) -> None:
        """Reads the files.

        Args:
            what: the name of the contents, for the log.
            paths: the files.
            load: reads them; raises ConfigError if the contents are invalid.

        Raises:
            ConfigError: the contents are invalid.
        """
        self._what = what
        self._paths = tuple(paths)
        self._load = load
        self._version = self._find_version()  # before reading, so that a change during reading is noticed
        self.value = load()

    def look(self) -> None:
        """Reads the files again if they have changed. One thread calls this every RELOAD_SECONDS."""
        version = self._find_version()
        if version == self._version:
            return
        self._version = version
        try:
            value = self._load()
        except ConfigError as error:
            _LOGGER.error(  # noqa: TRY400 - the files are wrong, and a traceback does not help
                "not reloaded", extra={"what": self._what, "reason": str(error)}
            )
            return
        if self._find_version() != version:
            return  # the files changed while they were read and may not match: the next look reads them again
        self.value = value
        _LOGGER.info("reloaded", extra={"what": self._what})

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
    """Returns a value that changes with a file; None if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    # An inode can be reused after its file is removed. A copy may keep the modification time, but not the time of the
    # inode change.
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
