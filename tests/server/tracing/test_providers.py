"""Whether a server can tell a collector, and what it says where it cannot."""

import subprocess
import sys

import pytest

START = "from tensor_reshape.server.tracing.providers import Tracing; Tracing().end()"
INSTRUMENTED = "from opentelemetry import trace; from opentelemetry.sdk.trace import TracerProvider; "
INSTRUMENTED += "trace.set_tracer_provider(TracerProvider()); "


def run(program: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=False)


def test_it_starts_and_ends_where_nothing_is_said():
    assert run(START).returncode == 0


def test_a_process_that_is_instrumented_already_would_tell_of_each_call_twice():
    assert "leave one of them" in run(INSTRUMENTED + START).stderr


def test_a_variable_that_cannot_hold_is_a_fault_of_the_configuration():
    assert "ConfigError: --tracing: " in run(START, OTEL_BSP_MAX_QUEUE_SIZE="0").stderr


def test_a_variable_that_is_read_at_import_is_no_bug_either():
    start = "from tensor_reshape.server.watchers import start_tracing; start_tracing()"
    assert "ConfigError: --tracing: OTEL" in run(start, OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT="many").stderr


def test_a_header_that_cannot_be_read_is_said_to_be_none_and_not_shown():
    complaint = run(START, OTEL_EXPORTER_OTLP_HEADERS="Authorization: Bearer secret").stderr
    assert "not NAME=VALUE" in complaint
    assert "secret" not in complaint


@pytest.mark.parametrize(("variables", "name"), [({}, "tensor-reshape"), ({"OTEL_SERVICE_NAME": "mine"}, "mine")])
def test_the_service_has_the_name_that_it_was_given(variables: dict[str, str], name: str):
    program = "from tensor_reshape.server.tracing.providers import build_resource; "
    program += "print(build_resource().attributes['service.name'], build_resource().attributes['service.version'])"
    assert run(program, **variables).stdout.split() == [name, "0.1.0"]
