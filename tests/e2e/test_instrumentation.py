"""A server under `opentelemetry-instrument`."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from server_processes import ServerProcess
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
WARNING = "using the fallback server (grpcio's public API)"


@pytest.fixture(params=[pytest.param(1, marks=pytest.mark.measured), 2])
def traced(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[ServerProcess, Path]]:
    """A server, and the file with its traces. With an instrumentation, a process starts slowly."""
    traces = tmp_path / "traces"
    command = [*COMMAND, *FLAGS, "--workers", str(request.param)]
    pipe, env = subprocess.PIPE, {**os.environ, **TELEMETRY}
    with traces.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=pipe, text=True, env=env) as process:
        try:
            server = ServerProcess(process)
            server.read_addresses(1)
            yield server, traces
        finally:
            process.kill()


def test_server_instrumented_by_opentelemetry_uses_the_fallback_server(traced: tuple[ServerProcess, Path]):
    server, traces = traced
    with Client(server.address) as client:
        for transfer in ("inline", "stream"):
            assert client.static_reshape(SIX, [2, 3], special_zero=False, transfer=transfer).shape == (2, 3)
        assert client.check_health() is HealthStatus.SERVING
        assert client.server_info().grpc_api == "public"
    with grpc.insecure_channel(server.address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        server.process.terminate()
        assert [response.status for response in watch] == [health_pb2.HealthCheckResponse.NOT_SERVING]
    assert server.wait() == 0
    written = traces.read_text()
    assert "StaticReshape" in written
    (said,) = [record for record in server.records if record["message"] == WARNING]
    assert "grpc.server was replaced" in said["cause"]
    assert not [record for record in server.records if record.get("level") == "ERROR"]
