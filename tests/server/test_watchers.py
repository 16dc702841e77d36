"""What watches the calls of a server is what its configuration asks for."""

import sys

import pytest

from tensor_reshape.server.calls.call_logs import AccessLog
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.watchers import Watchers


def test_nothing_watches_where_nothing_is_asked_for():
    watchers = Watchers(Config(access_log=0))
    assert (watchers.gates, watchers.observers) == ((), ())
    watchers.end()


def test_an_access_log_observes_calls_and_has_them_told_their_ids():
    watchers = Watchers(Config(access_log=0.5))
    (log,) = watchers.observers
    assert isinstance(log, AccessLog)
    assert watchers.gates == (log,)


def test_where_the_extra_is_missing_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tensor_reshape.server.tracing.providers", None)
    with pytest.raises(ConfigError, match=r"--tracing needs the extra tensor-reshape\[tracing\]: "):
        Watchers(Config(tracing=True))
