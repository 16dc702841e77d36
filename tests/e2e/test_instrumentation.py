"""A server under `opentelemetry-instrument`."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from server_processes import ServerProcess
from telemetry import run_collector
from tensor_reshape.client import Client, HealthStatus

SIX = np.arange(6, dtype=np.float32)
SCRIPTS = Path(sys.executable).parent
COMMAND = (str(SCRIPTS / "opentelemetry-instrument"), str(SCRIPTS / "tensor-reshape"), "serve")
FLAGS = ("--listen", "127.0.0.1:0", "--log-format", "json", "--drain-seconds", "0")
TELEMETRY = {
    "OTEL_TRACES_EXPORTER": "console",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_LOGS_EXPORTER": "none",
}
WARNING = "the tool that has replaced grpc.server creates no spans for calls of this server. Use --tracing"


@contextmanager
def run_instrumented(traces: Path, *flags: str, **variables: str) -> Iterator[ServerProcess]:
    """Runs a server whose instrumentation writes its spans to the file `traces`."""
    pipe, env = subprocess.PIPE, {**os.environ, **TELEMETRY, **variables}
    command = [*COMMAND, *FLAGS, *flags]
    with traces.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=pipe, text=True, env=env) as process:
        try:
            server = ServerProcess(process)
            server.read_addresses(1)
            yield server
        finally:
            process.kill()


def list_warnings(server: ServerProcess) -> list[str]:
    """Returns the level of each record with the warning."""
    return [record["level"] for record in server.records if record["message"] == WARNING]


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.measured), "2"])
def test_server_instrumented_by_opentelemetry_serves_calls_without_spans(workers: str, tmp_path: Path):
    traces = tmp_path / "traces"
    with run_instrumented(traces, "--workers", workers) as server:
        with Client(server.address) as client:
            for transfer in ("inline", "stream"):
                assert client.static_reshape(SIX, [2, 3], special_zero=False, transfer=transfer).shape == (2, 3)
            assert client.check_health() is HealthStatus.SERVING
        with grpc.insecure_channel(server.address) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
            server.process.terminate()
            assert [response.status for response in watch] == [health_pb2.HealthCheckResponse.NOT_SERVING]
        assert server.wait() == 0
    assert traces.read_text() == ""  # neither the calls nor the test call of the server to itself
    assert list_warnings(server) == ["WARNING"]
    assert not [record for record in server.records if record.get("level") == "ERROR"]


def test_instrumented_server_with_tracing_sends_one_span_per_call(tmp_path: Path):
    with (
        run_collector() as collector,
        run_instrumented(tmp_path / "traces", "--tracing", **collector.variables) as server,
    ):
        with Client(server.address) as client:
            client.static_reshape(SIX, [2, 3], special_zero=False)
        assert server.stop() == 0
        assert [span.name.rpartition("/")[2] for span in collector.await_spans(1)] == ["StaticReshape"]
    assert list_warnings(server) == []
