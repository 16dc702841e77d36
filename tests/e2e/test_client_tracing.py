"""Clients under tracing tools that change grpcio: the calls succeed, and their spans arrive."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import traced_calls
from both_clients import CLIENTS
from certificates import Certificates, issue_certificates
from server_processes import ServerProcess, run_server
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
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return issue_certificates(tmp_path_factory.mktemp("certificates"))


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
