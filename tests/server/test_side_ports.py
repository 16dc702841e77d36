"""What a server listens on besides is there where it is asked for."""

import socket
import sys
import threading
from dataclasses import replace
from queue import SimpleQueue

import pytest

from http_calls import connect, request
from in_process import ANY_PORT, run_runner
from tensor_reshape.client import Client, HealthStatus
from tensor_reshape.server import side_ports
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.http.ports import HttpPort
from tensor_reshape.server.side_ports import import_gateway

CONFIG = Config(listen=(ANY_PORT,), drain_seconds=0, grace_seconds=0)


def test_there_is_nothing_where_nothing_is_asked_for():
    with run_runner(CONFIG) as runner:
        assert (runner.health_address, runner.http_address) == (None, None)


def test_both_ports_are_served():
    with run_runner(replace(CONFIG, health_listen=ANY_PORT, http_listen=ANY_PORT)) as runner:
        assert runner.health_address is not None
        assert runner.http_address is not None
        with Client(runner.health_address) as client:
            assert client.check_health() is HealthStatus.SERVING
        assert request(runner.http_address, "GET", "/healthz").document == {"status": "SERVING"}


def test_a_server_whose_thread_for_http_has_ended_ends(monkeypatch: pytest.MonkeyPatch):
    reasons = SimpleQueue[str]()

    def fail(_port: HttpPort, accepted: socket.socket) -> None:
        accepted.close()
        raise ValueError

    monkeypatch.setattr(side_ports, "end_process", reasons.put)
    monkeypatch.setattr(HttpPort, "_admit", fail)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    with run_runner(replace(CONFIG, http_listen=ANY_PORT)) as runner:
        assert runner.http_address is not None
        connect(runner.http_address).close()
        assert reasons.get(timeout=60) == "the thread that serves HTTP has ended"


def test_where_the_extra_is_missing_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tensor_reshape.server.http.gateways", None)
    with pytest.raises(ConfigError, match=r"--http-listen needs the extra tensor-reshape\[http\]: "):
        import_gateway()
