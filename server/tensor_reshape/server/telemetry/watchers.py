"""The logs of calls that the configuration can enable, which are the access log and tracing.

- The logs start before the server and end after the server, so the last calls are logged and traced.
- The modules of tracing are not imported unless tracing is enabled.
"""

from typing import TYPE_CHECKING

from tensor_reshape.runtime.lazy_imports import describe_missing
from tensor_reshape.server.calls.records import CallLog
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.telemetry.access_logs import AccessLog

if TYPE_CHECKING:
    from tensor_reshape.server.telemetry.providers import Tracing


class Watchers:
    """The logs of calls of one process.

    Attributes:
        logs: the configured logs.
    """

    def __init__(self, config: Config) -> None:
        """Starts the logs that `config` enables.

        Raises:
            ConfigError: the extra `[tracing]` is not installed, or OpenTelemetry's variables are invalid.
        """
        logs: list[CallLog] = [AccessLog()] if config.log_level == "debug" else []
        self._tracing = start_tracing() if config.tracing else None
        self.logs: tuple[CallLog, ...] = (*logs, *([self._tracing.log] if self._tracing else ()))

    def end(self) -> None:
        """Sends the remaining spans."""
        if self._tracing is not None:
            self._tracing.end()


def start_tracing() -> "Tracing":
    """Starts to send spans to OpenTelemetry.

    Raises:
        ConfigError: the extra `[tracing]` is not installed, or OpenTelemetry's variables are invalid.
    """
    try:
        from tensor_reshape.server.telemetry.providers import Tracing  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise ConfigError(describe_missing("--tracing", "tracing", error)) from error
    except ValueError as error:  # importing OpenTelemetry raises ValueError if one of its variables is invalid
        message = f"--tracing cannot start with OpenTelemetry's environment variables: {error}"
        raise ConfigError(message) from error
    return Tracing()
