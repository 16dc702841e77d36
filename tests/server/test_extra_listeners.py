"""The optional listeners for health checks and HTTP."""

import sys
import threading
from dataclasses import replace
from queue import SimpleQueue

import pytest
import uvicorn

from in_process import ANY_PORT, run_runner
from tensor_reshape.server import extra_listeners
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.extra_listeners import import_gateway

CONFIG = Config(listen=(ANY_PORT,), drain_seconds=0, shutdown_grace_seconds=0)


def test_process_ends_when_the_http_thread_has_ended(monkeypatch: pytest.MonkeyPatch):
    reasons = SimpleQueue[str]()

    async def fail(_server: uvicorn.Server, _counter: int) -> bool:
        raise ValueError

    monkeypatch.setattr(extra_listeners, "end_process", reasons.put)
    monkeypatch.setattr(uvicorn.Server, "on_tick", fail)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    with run_runner(replace(CONFIG, http_listen=ANY_PORT)):
        assert reasons.get(timeout=60) == "the thread that serves HTTP has ended"


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tensor_reshape.server.http.gateways", None)
    with pytest.raises(ConfigError, match=r"--http-listen needs the extra tensor-reshape\[http\]: "):
        import_gateway()
