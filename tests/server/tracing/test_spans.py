"""Calls become spans with their times, methods and endings."""

import time

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tensor_reshape.server.calls.heads import CallHead, note_answer
from tensor_reshape.server.calls.lifecycle import Ending, Event, State
from tensor_reshape.server.calls.observers import CallRecord
from tensor_reshape.server.tracing.spans import SpanObserver

METHOD = "/tensor_reshape.v1.ReshapeService/StaticReshape"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def observer(exporter: InMemorySpanExporter) -> SpanObserver:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return SpanObserver(provider.get_tracer("test"))


def build_record(ending: Ending | None, method: str = METHOD) -> CallRecord:
    began = time.monotonic() - 1.5
    record = CallRecord(CallHead(method, ()), method, "", began, State.DONE, began, ending=ending)
    record.seconds = {State.WAITING: 0.25, State.WORKING: 1.0, State.ENDING: 0.25}
    return record


def test_running_call_is_not_a_span(observer: SpanObserver, exporter: InMemorySpanExporter):
    for state in set(State) - {State.DONE}:
        record = build_record(None)
        record.state = state
        observer.observe(record, Event.END)
        assert exporter.get_finished_spans() == (), state


def test_span_has_the_times_and_the_method_of_the_call(observer: SpanObserver, exporter: InMemorySpanExporter):
    observer.observe(build_record(Ending("OK")), Event.OVER)
    (span,) = exporter.get_finished_spans()
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.end_time - span.start_time >= 1_500_000_000
    expected = {
        "rpc.system": "grpc",
        "rpc.service": "tensor_reshape.v1.ReshapeService",
        "rpc.method": "StaticReshape",
        "tensor_reshape.waiting_seconds": 0.25,
        "tensor_reshape.working_seconds": 1.0,
    }
    assert dict(span.attributes or {}).items() >= expected.items()


def test_failure_of_the_server_is_an_error_but_a_refusal_is_not(observer: SpanObserver, exporter: InMemorySpanExporter):
    for ending, code, status in (
        (Ending("OK"), 0, StatusCode.UNSET),
        (Ending("INVALID_ARGUMENT", "VOLUME_MISMATCH"), 3, StatusCode.UNSET),
        (Ending("RESOURCE_EXHAUSTED", "SERVER_BUSY"), 8, StatusCode.UNSET),
        (Ending("INTERNAL", "INTERNAL_ERROR"), 13, StatusCode.ERROR),
        (None, 1, StatusCode.UNSET),
    ):
        observer.observe(build_record(ending), Event.OVER)
        *_, span = exporter.get_finished_spans()
        assert (dict(span.attributes or {})["rpc.grpc.status_code"], span.status.status_code) == (code, status)
        assert span.status.description == ("INTERNAL_ERROR" if status is StatusCode.ERROR else None)


def test_span_of_an_answer_without_rank_has_none(observer: SpanObserver, exporter: InMemorySpanExporter):
    record = build_record(Ending("OK"), "/tensor_reshape.v1.ReshapeService/BatchInferShape")
    note_answer(record.head, b"\x0a\x00")
    observer.observe(record, Event.OVER)
    (span,) = exporter.get_finished_spans()
    assert "tensor_reshape.rank" not in dict(span.attributes or {})
