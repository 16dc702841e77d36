"""Health checks on their own port, and health watches."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from certificates import Certificates
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client, HealthStatus, UnavailableError
from tensor_reshape.wire.methods import SERVICE

ROUNDS, CHANNELS = 50, 8
SERVING = health_pb2.HealthCheckResponse.SERVING


@contextmanager
def run_demanding(files: Certificates, *flags: str) -> Iterator[tuple[ServerProcess, str]]:
    """Runs a server that requires client certificates. Yields it, and its health address without TLS."""
    with run_server("--health-listen", "127.0.0.1:0", *files.mutual_flags, *flags) as server:
        (record,) = server.await_records(1, "listening for health checks")
        yield server, record["address"]


@pytest.mark.usefixtures("impatience")
def test_health_port_serves_probes_without_a_client_certificate(files: Certificates):
    with run_demanding(files, "--drain-seconds", "60") as (server, address), grpc.insecure_channel(address) as channel:
        with Client(server.address) as client, pytest.raises(UnavailableError):  # needs a certificate
            client.infer_shape([2, 3], [6], special_zero=False, timeout=60)
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
        assert next(watch).status == SERVING
        server.process.send_signal(signal.SIGTERM)
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        server.process.send_signal(signal.SIGTERM)
        assert server.wait() == 0


def test_server_with_workers_serves_the_health_port(files: Certificates):
    with run_demanding(files, "--workers", "2") as (server, address):
        with Client(address) as client:
            assert client.check_health() is HealthStatus.SERVING
        assert server.stop() == 0


def test_health_listen_address_in_use_is_an_error(tmp_path: Path):
    address = f"unix:{tmp_path / 's'}"
    with (
        run_server(listen=(address,)),
        pytest.raises(RuntimeError, match="cannot listen on unix:"),
        run_server("--health-listen", address),
    ):
        pass


def test_health_list_has_all_services_with_their_status(channel: grpc.Channel):
    response = health_pb2_grpc.HealthStub(channel).List(health_pb2.HealthListRequest())
    assert {name: answer.status for name, answer in response.statuses.items()} == {"": SERVING, SERVICE: SERVING}


def watch_and_leave(address: str) -> int:
    """Opens and cancels watches, one after another. Returns how many reported SERVING within their deadline."""
    served = 0
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        for _ in range(ROUNDS):
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
            served += next(watch).status == SERVING
            watch.cancel()
    return served


def test_many_short_health_watches_do_not_affect_the_server():
    with run_server() as server:
        with ThreadPoolExecutor(CHANNELS) as pool:
            served = list(pool.map(watch_and_leave, [server.address] * CHANNELS))
        with Client(server.address) as client:
            assert (served, client.check_health("", timeout=60)) == ([ROUNDS] * CHANNELS, HealthStatus.SERVING)
        assert server.stop() == 0
