"""The configured observers of calls."""

import sys

import pytest

from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.engine.call_logs import AccessLog
from tensor_reshape.server.watchers import Watchers


def test_configured_access_log_is_an_admission_check_and_observer():
    watchers = Watchers(Config(access_log=0))
    assert (watchers.gates, watchers.observers) == ((), ())
    watchers.end()
    watchers = Watchers(Config(access_log=0.5))
    (log,) = watchers.observers
    assert isinstance(log, AccessLog)
    assert watchers.gates == (log,)


def test_missing_tracing_extra_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tensor_reshape.server.tracing.providers", None)
    with pytest.raises(ConfigError, match=r"--tracing needs the extra tensor-reshape\[tracing\]: "):
        Watchers(Config(tracing=True))
