"""Files that are read again when they change, so that what they hold is rotated without a restart.

- A file counts as changed when its inode, its size or one of its times does: also where a symbolic link on the way to
  it has another target, which is how Kubernetes replaces what it mounts.
- What is no regular file is not read: to wait for a pipe would keep all else waiting that is done on the same thread.
- What cannot be used changes nothing, and is logged once: the next attempt is made when the files change again. So a
  certificate that is replaced before its key is taken with the key.
- No record holds anything of a file but what the loader says of it, which is nothing secret.
"""

import logging
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from tensor_reshape.server.config import ConfigError

RELOAD_SECONDS = 1.0
"""How long a change of a file may go unnoticed."""

_LOGGER = logging.getLogger(__name__)
_Value = TypeVar("_Value")
_Version = tuple[tuple[int, ...] | None, ...]


class Reloaded(Generic[_Value]):
    """What some files hold.

    Attributes:
        value: what was read last, and could be used; replaced by one thread, and read by any.
    """

    def __init__(self, what: str, paths: Sequence[Path], load: Callable[[], _Value]) -> None:
        """Reads the files.

        Args:
            what: is read, for the log.
            paths: of the files.
            load: reads them; raises ConfigError where what they hold cannot be used.

        Raises:
            ConfigError: they cannot be used.
        """
        self._what = what
        self._paths = tuple(paths)
        self._load = load
        self._version = self._find_version()  # before they are read: what changes meanwhile is read again
        self.value = load()

    def look(self) -> None:
        """Reads the files again if they have changed; called by one thread, every RELOAD_SECONDS."""
        version = self._find_version()
        if version == self._version:
            return
        self._version = version
        try:
            value = self._load()
        except ConfigError as error:
            _LOGGER.error(  # noqa: TRY400 - what is wrong is in the files: a traceback says nothing of them
                "not reloaded", extra={"what": self._what, "reason": str(error)}
            )
            return
        if self._find_version() != version:
            return  # they were replaced while they were read, and may not belong together: the next look reads again
        self.value = value
        _LOGGER.info("reloaded", extra={"what": self._what})

    def _find_version(self) -> _Version:
        return tuple(map(_find_version, self._paths))


def read_file(path: Path) -> bytes:
    """Returns what a file holds.

    Raises:
        ConfigError: it cannot be read.
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
    """Returns what changes with a file; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    # The inode of a file that was removed is soon that of another; and what copies a file may keep the time when it was
    # written, but not that of its change.
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
