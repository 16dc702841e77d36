"""The trace that a client passes on."""

import subprocess
import sys

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_span_id, format_trace_id

from tensor_reshape.client.traces import TRACE_KEY, find_trace_reader

TRACER = TracerProvider().get_tracer("test")
WITHOUT = "import sys; sys.modules['opentelemetry.trace.propagation.tracecontext'] = None; "
WITHOUT += "from tensor_reshape.client import Client; Client(tracing=True)"


def test_outside_of_any_span_there_is_nothing_to_pass_on():
    assert find_trace_reader()() == ()


def test_the_trace_is_that_of_the_current_span():
    with TRACER.start_as_current_span("mine") as span:
        context = span.get_span_context()
        ((key, value),) = find_trace_reader()()
    version, trace, parent, _ = str(value).split("-")
    expected = (TRACE_KEY, "00", format_trace_id(context.trace_id), format_span_id(context.span_id))
    assert (key, version, trace, parent) == expected


def test_without_opentelemetry_a_client_says_what_to_install():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert "install tensor-reshape[tracing]" in done.stderr
