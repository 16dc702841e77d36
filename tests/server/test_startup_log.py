"""Log records about the start of a server."""

import logging
import socket
from pathlib import Path

import pytest

from tensor_reshape.server.config import Config
from tensor_reshape.server.startup_log import announce
from waits import WAIT_SECONDS


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


@pytest.mark.parametrize("is_abstract", [False, True])
def test_start_is_reported_to_systemd(is_abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = f"\0{tmp_path}" if is_abstract else f"{tmp_path}/notify"
    monkeypatch.setenv("NOTIFY_SOCKET", path.replace("\0", "@"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(WAIT_SECONDS)
        announce(("a:1",), Config())
        assert manager.recv(64) == b"READY=1"


def test_startup_log_record_omits_disabled_listeners(caplog: pytest.LogCaptureFixture, tmp_path: Path):
    config = Config(listen=("unix:/tmp/a",), token_file=tmp_path / "tokens")
    with caplog.at_level(logging.INFO):
        announce(("unix:/tmp/a",), config)
    told = vars(caplog.records[-1])
    assert told["tokens"] == "required"
    assert told.keys().isdisjoint({"health_address", "http_address", "metrics_address"})
