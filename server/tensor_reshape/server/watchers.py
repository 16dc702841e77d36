"""What watches the calls of a server, as its configuration says: its access log, and its traces.

- They are made before the server is, and end after it: what was seen last is told.
- What is not configured is not imported, made or asked.
"""

from typing import TYPE_CHECKING

from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.engine.call_logs import AccessLog
from tensor_reshape.server.engine.gates import Gate
from tensor_reshape.server.engine.observers import Observer

if TYPE_CHECKING:
    from tensor_reshape.server.tracing.providers import Tracing


class Watchers:
    """The observers of one server.

    Attributes:
        gates: theirs, which refuse nobody; to be asked before those that do.
        observers: of every call.
    """

    def __init__(self, config: Config) -> None:
        """Starts to tell of calls, whatever `config` asks for.

        Raises:
            ConfigError: what it needs is not installed, or cannot be told.
        """
        logs = [AccessLog(config.access_log)] if config.access_log else []
        self._tracing = start_tracing() if config.tracing else None
        self.gates: tuple[Gate, ...] = tuple(logs)
        self.observers: tuple[Observer, ...] = (*logs, *([self._tracing.observer] if self._tracing else ()))

    def end(self) -> None:
        """Tells what has not been told yet."""
        if self._tracing is not None:
            self._tracing.end()


def start_tracing() -> "Tracing":
    """Starts to tell OpenTelemetry of calls.

    Raises:
        ConfigError: it is not installed, or cannot be told.
    """
    try:
        from tensor_reshape.server.tracing.providers import Tracing  # noqa: PLC0415 - an extra, which few servers need
    except ImportError as error:
        message = f"--tracing needs the extra tensor-reshape[tracing]: {error}"
        raise ConfigError(message) from error
    except ValueError as error:  # some of OpenTelemetry's variables are read when it is imported
        message = f"--tracing: {error}"
        raise ConfigError(message) from error
    return Tracing()
