"""Servers and clients under tracing tools that change grpcio: the calls succeed, and spans of clients arrive."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import traced_calls
from both_clients import CLIENTS
from certificates import Certificates
from server_processes import ServerProcess, run_server
from telemetry import run_collector
from tensor_reshape.client import Client, HealthStatus
from tensor_reshape.wire.methods import BATCH_INFER_SHAPE, INFER_SHAPE, OPERATION_METHODS, STREAM_RESHAPE
from tensor_reshape.wire.servers import CHECK_METHOD
from traced_calls import LAUNCHER, OPENTELEMETRY, SENTRY

RESHAPE = next(method for operation, method in OPERATION_METHODS.items() if operation.name == "reshape")
PATHS = [CHECK_METHOD, INFER_SHAPE.path, BATCH_INFER_SHAPE.path, RESHAPE.path, STREAM_RESHAPE.path]
# the calls without and with TLS
SPANS = Counter({**{(path, True): 2 for path in PATHS}, (INFER_SHAPE.path, False): 2})
# Sentry has no interceptor for streams.
UNARY_SPANS = Counter({span: count for span, count in SPANS.items() if span[0] != STREAM_RESHAPE.path})
# what the script opentelemetry-instrument does
LAUNCH = "from opentelemetry.instrumentation.auto_instrumentation import run; run()"
TELEMETRY = {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}


@pytest.fixture(scope="module")
def tls_server(files: Certificates) -> Iterator[ServerProcess]:
    with run_server(*files.flags) as server:
        yield server


@pytest.fixture
def run(server: ServerProcess, tls_server: ServerProcess, files: Certificates) -> Callable[..., str]:
    """Runs the program with a tool, after the arguments of a launcher, and returns its output."""

    def run(tool: str, kind: str, *launcher: str) -> str:
        program = [str(traced_calls.__file__), tool, kind, server.address, tls_server.address, str(files.authority)]
        env = {**os.environ, **TELEMETRY, "PYTHONPATH": str(Path(traced_calls.__file__).parent)}
        command = [*launcher, sys.executable, *program]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=env, timeout=120).stdout

    return run


def read_spans(output: str) -> Iterator[tuple[str, bool]]:
    """Yields the method and the success of each span that OpenTelemetry has printed as JSON."""
    decoder = json.JSONDecoder()
    while output := output.lstrip():
        span: dict[str, Any]
        span, end = decoder.raw_decode(output)
        yield span["name"], span["status"]["status_code"] != "ERROR"
        output = output[end:]


@pytest.mark.parametrize("kind", CLIENTS)
def test_calls_of_an_instrumented_program_have_opentelemetry_spans(run: Callable[..., str], kind: str):
    spans = json.loads(run(OPENTELEMETRY, kind))
    assert Counter(map(tuple, spans)) == SPANS


@pytest.mark.parametrize("kind", CLIENTS)
def test_calls_under_opentelemetry_instrument_have_spans(run: Callable[..., str], kind: str):
    output = run(LAUNCHER, kind, sys.executable, "-c", LAUNCH)
    assert Counter(read_spans(output)) == SPANS


@pytest.mark.parametrize("kind", CLIENTS)
def test_unary_calls_under_sentry_have_spans(run: Callable[..., str], kind: str):
    spans = json.loads(run(SENTRY, kind))
    assert Counter(map(tuple, spans)) == UNARY_SPANS


SIX = np.arange(6, dtype=np.float32)
SCRIPTS = Path(sys.executable).parent
COMMAND = (str(SCRIPTS / "opentelemetry-instrument"), str(SCRIPTS / "tensor-reshape"), "serve")
FLAGS = ("--listen", "127.0.0.1:0", "--log-format", "json", "--drain-seconds", "0")
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
