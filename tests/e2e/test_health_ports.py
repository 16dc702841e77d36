"""A port for health alone beside one that demands certificates, as probes of an orchestrator use it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from certificates import Certificates, issue_certificates
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client, HealthStatus, UnavailableError

ANY = "127.0.0.1:0"
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return issue_certificates(tmp_path_factory.mktemp("certificates"))


@contextmanager
def run_demanding(files: Certificates, *flags: str) -> Iterator[tuple[ServerProcess, str]]:
    """Runs a server whose clients have to show who they are; yields it, and where it serves health in plain text."""
    tls = ["--tls-certificate", files.server, "--tls-key", files.server_key, "--tls-client-ca", files.authority]
    with run_server("--health-listen", ANY, *map(str, tls), *flags) as server:
        (record,) = server.await_records(1, "listening for health checks")
        yield server, record["address"]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_probe_without_a_certificate_is_answered_and_ends_with_the_server(files: Certificates, workers: str):
    with run_demanding(files, "--workers", workers) as (server, address):
        with Client(address) as client:
            assert client.check_health() is HealthStatus.SERVING
        assert server.stop() == 0


@pytest.mark.usefixtures("impatience")
def test_the_other_port_demands_certificates_all_the_same(files: Certificates):
    with (
        run_demanding(files) as (server, _),
        Client(server.address) as client,
        pytest.raises(UnavailableError),
    ):
        client.infer_shape([2, 3], [6], special_zero=False, timeout=60)


def test_a_server_that_drains_is_not_ready(files: Certificates):
    with run_demanding(files, "--drain-seconds", "60") as (server, address), grpc.insecure_channel(address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
        next(watch)
        server.process.send_signal(signal.SIGTERM)
        assert next(watch).status == NOT_SERVING
        server.process.send_signal(signal.SIGTERM)
        assert server.wait() == 0


def test_an_address_that_is_taken_is_refused(tmp_path: Path):
    address = f"unix:{tmp_path / 's'}"
    with (
        run_server("--health-listen", address),
        pytest.raises(RuntimeError, match="cannot listen on unix:"),
        run_server("--health-listen", address),
    ):
        pass
