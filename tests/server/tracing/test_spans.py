"""Which calls become spans, and what these say."""

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


@pytest.mark.parametrize("state", [state for state in State if state is not State.DONE])
def test_a_call_that_is_not_over_is_no_span(observer: SpanObserver, exporter: InMemorySpanExporter, state: State):
    record = build_record(None)
    record.state = state
    observer.observe(record, Event.END)
    assert exporter.get_finished_spans() == ()


def test_a_span_lasts_as_long_as_the_call(observer: SpanObserver, exporter: InMemorySpanExporter):
    observer.observe(build_record(Ending("OK")), Event.OVER)
    (span,) = exporter.get_finished_spans()
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.end_time - span.start_time >= 1_500_000_000
    assert (
        dict(span.attributes or {}).items()
        >= {
            "rpc.system": "grpc",
            "rpc.service": "tensor_reshape.v1.ReshapeService",
            "rpc.method": "StaticReshape",
            "tensor_reshape.waiting_seconds": 0.25,
            "tensor_reshape.working_seconds": 1.0,
        }.items()
    )


@pytest.mark.parametrize(
    ("ending", "code", "status"),
    [
        (Ending("OK"), 0, StatusCode.UNSET),
        (Ending("INVALID_ARGUMENT", "VOLUME_MISMATCH"), 3, StatusCode.UNSET),
        (Ending("RESOURCE_EXHAUSTED", "SERVER_BUSY"), 8, StatusCode.UNSET),
        (Ending("INTERNAL", "INTERNAL_ERROR"), 13, StatusCode.ERROR),
        (None, 1, StatusCode.UNSET),
    ],
)
def test_a_failure_of_the_server_is_an_error_and_a_refusal_is_none(
    observer: SpanObserver, exporter: InMemorySpanExporter, ending: Ending | None, code: int, status: StatusCode
):
    observer.observe(build_record(ending), Event.OVER)
    (span,) = exporter.get_finished_spans()
    assert (dict(span.attributes or {})["rpc.grpc.status_code"], span.status.status_code) == (code, status)


def test_a_method_whose_answer_has_no_rank_has_none(observer: SpanObserver, exporter: InMemorySpanExporter):
    record = build_record(Ending("OK"), "/tensor_reshape.v1.ReshapeService/BatchInferShape")
    note_answer(record.head, b"\x0a\x00")
    observer.observe(record, Event.OVER)
    (span,) = exporter.get_finished_spans()
    assert "tensor_reshape.rank" not in dict(span.attributes or {})
