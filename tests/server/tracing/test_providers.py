"""The start of tracing, and errors in its configuration. Each run imports OpenTelemetry in a separate process."""

import subprocess
import sys

START = "from tensor_reshape.server.tracing.providers import Tracing; Tracing().end()"
REJECTION = "ConfigError: --tracing cannot start with OpenTelemetry's environment variables"


def run(program: str, **variables: str) -> str:
    """Runs a program; returns its output, and then its errors."""
    command = [sys.executable, "-c", program]
    outcome = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    return outcome.stdout + outcome.stderr


def test_tracing_starts_with_the_default_name_or_the_given_one():
    program = (
        START
        + """
from tensor_reshape.server.tracing.providers import build_resource
print(build_resource().attributes['service.name'], build_resource().attributes['service.version'])"""
    )
    assert run(program).split() == ["tensor-reshape", "0.1.0"]
    assert run(program, OTEL_SERVICE_NAME="mine").split() == ["mine", "0.1.0"]


def test_tracing_is_rejected_in_an_instrumented_process():
    instrument = "from opentelemetry import trace; from opentelemetry.sdk.trace import TracerProvider; "
    instrument += "trace.set_tracer_provider(TracerProvider()); "
    assert "Use only one of them" in run(instrument + START).splitlines()[-1]


def test_invalid_variable_raises_config_error():
    assert f"{REJECTION}: " in run(START, OTEL_BSP_MAX_QUEUE_SIZE="0").splitlines()[-1]
    start = (
        "from tensor_reshape.server.watchers import start_tracing; start_tracing()"  # an import reads the next variable
    )
    assert f"{REJECTION}: OTEL" in run(start, OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT="many").splitlines()[-1]


def test_malformed_header_is_rejected_without_quoting_it():
    complaint = run(START, OTEL_EXPORTER_OTLP_HEADERS="Authorization: Bearer secret")
    assert "not NAME=VALUE" in complaint
    assert "secret" not in complaint
