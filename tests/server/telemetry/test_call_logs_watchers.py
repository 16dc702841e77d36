"""The configured observers of calls."""

import sys

import pytest

from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.telemetry.call_logs import CallLogs


def test_missing_tracing_extra_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tensor_reshape.server.telemetry.tracing", None)
    with pytest.raises(ConfigError, match=r"--tracing needs the extra tracing, because .* is missing: pip install"):
        CallLogs(Config(tracing=True))
