"""The trace context that a client sends."""

import sys

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_span_id, format_trace_id

from tensor_reshape.client import Client
from tensor_reshape.client.traces import TRACE_KEY, find_trace_reader

TRACER = TracerProvider().get_tracer("test")


def test_traceparent_metadata_has_the_ids_of_the_current_span():
    assert find_trace_reader()() == ()
    with TRACER.start_as_current_span("mine") as span:
        context = span.get_span_context()
        ((key, value),) = find_trace_reader()()
    version, trace, parent, _ = str(value).split("-")
    expected = (TRACE_KEY, "00", format_trace_id(context.trace_id), format_span_id(context.span_id))
    assert (key, version, trace, parent) == expected


def test_missing_opentelemetry_error_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.trace.propagation.tracecontext", None)
    with pytest.raises(ImportError, match=r"pip install 'tensor-reshape\[tracing\]'"):
        Client(tracing=True)
