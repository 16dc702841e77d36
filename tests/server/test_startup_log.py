"""Log records about the start of a server."""

import logging
from pathlib import Path

import pytest

from tensor_reshape.server.config import Config
from tensor_reshape.server.startup_log import announce


def test_startup_log_record_has_version_limits_and_addresses(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    config = Config(workers=3, max_calls=7)
    monkeypatch.delenv("GRPC_EXPERIMENTS", raising=False)
    with caplog.at_level(logging.INFO):
        announce(("a:1", "b:2"), config, health_address="c:3", http_address="e:5", metrics_address="d:4")
    (told,) = [vars(record) for record in caplog.records if record.message == "serving"]
    expected = {
        "io_engine": "event",
        "workers": 3,
        "addresses": "a:1,b:2",
        "health_address": "c:3",
        "http_address": "e:5",
        "metrics_address": "d:4",
        "tls": "none",
        "tokens": "none",
        "max_calls": 7,
        "max_message_bytes": config.max_message_bytes,
        "memory_budget_bytes": config.memory_budget_bytes,
    }
    assert {name: told[name] for name in expected} == expected
    assert told["version"]


def test_startup_log_record_omits_disabled_listeners(caplog: pytest.LogCaptureFixture, tmp_path: Path):
    config = Config(listen=("unix:/tmp/a",), token_file=tmp_path / "tokens")
    with caplog.at_level(logging.INFO):
        announce(("unix:/tmp/a",), config)
    told = vars(caplog.records[-1])
    assert told["tokens"] == "required"
    assert told.keys().isdisjoint({"health_address", "http_address", "metrics_address"})
