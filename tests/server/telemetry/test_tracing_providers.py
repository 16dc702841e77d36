"""The start of tracing, and errors in its configuration. Each run imports OpenTelemetry in a separate process."""

import subprocess
import sys

START = """
from tensor_reshape.server.config import Config
from tensor_reshape.server.telemetry.call_logs import CallLogs
CallLogs(Config(tracing=True)).end()
"""
REJECTION = "ConfigError: --tracing cannot start with OpenTelemetry's environment variables"


def run(program: str, **variables: str) -> str:
    """Runs a program; returns its output, and then its errors."""
    command = [sys.executable, "-c", program]
    outcome = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    return outcome.stdout + outcome.stderr


def test_tracing_service_name_has_a_default_and_can_be_set():
    program = (
        START
        + """
from tensor_reshape.server.telemetry.tracing import build_resource
print(build_resource().attributes['service.name'], build_resource().attributes['service.version'])"""
    )
    assert run(program).split() == ["tensor-reshape", "0.1.0"]
    assert run(program, OTEL_SERVICE_NAME="mine").split() == ["mine", "0.1.0"]


def test_invalid_opentelemetry_variable_raises_config_error():
    assert f"{REJECTION}: " in run(START, OTEL_BSP_MAX_QUEUE_SIZE="0").splitlines()[-1]
    # an import reads the next variable
    assert f"{REJECTION}: OTEL" in run(START, OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT="many").splitlines()[-1]


def test_malformed_opentelemetry_header_error_hides_the_header():
    complaint = run(START, OTEL_EXPORTER_OTLP_HEADERS="Authorization: Bearer secret")
    assert "not NAME=VALUE" in complaint
    assert "secret" not in complaint
