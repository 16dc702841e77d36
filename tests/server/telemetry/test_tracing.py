"""Tracing: the choice of calls that get a span, their spans, and errors in the configuration."""

import random
import subprocess
import sys
import time

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.server.calls.call_info import MAX_RESPONSE_BYTES, CallInfo, record_response
from tensor_reshape.server.calls.results import CallResult
from tensor_reshape.server.engine.engine import CallRecord
from tensor_reshape.server.telemetry.tracing import CallSampling, SpanLog, find_rank
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.inference import build_infer_response
from tensor_reshape.wire.methods import SERVICE
from tensor_reshape.wire.reshapes import encode_accept, encode_response_header
from tensor_reshape.wire.tensors import TensorView

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
SAMPLED, UNSAMPLED = [("traceparent", f"{TRACE}-01")], [("traceparent", f"{TRACE}-00")]
UNSAMPLED_IN_A_NEW_VERSION = [("traceparent", f"01-{TRACE[3:]}-00-more")]
INVALID = [("traceparent", f"00-{'0' * 32}-b7ad6b7169203331-01")]
CALLS = {
    "no trace": [("user-agent", "grpc")],
    "a sampled trace": SAMPLED,
    "an unsampled trace": UNSAMPLED,
    "an unsampled trace in a new version": UNSAMPLED_IN_A_NEW_VERSION,
    "an invalid trace": INVALID,
}
# sampler, argument; the calls that get a span
ROWS = [
    ("parentbased_always_on", "", {"no trace", "a sampled trace", "an invalid trace"}),
    ("parentbased_always_off", "", {"a sampled trace"}),
    ("parentbased_traceidratio", "0", {"a sampled trace"}),
    ("parentbased_traceidratio", "1", {"no trace", "a sampled trace", "an invalid trace"}),
    ("always_on", "", set(CALLS)),
    ("always_off", "", set()),
    ("traceidratio", "0.0", set()),
    ("traceidratio", "1", set(CALLS)),
]
METHOD = f"/{SERVICE}/StaticReshape"
OUTPUT = encode_response_header(DataType.U8, (2, 1, 3), 6) + bytes(6)
ANSWERS = {  # responses by method, each of rank 3
    "StaticReshape": OUTPUT,
    "DynamicReshape": OUTPUT,
    "Reshape": OUTPUT,
    "StreamReshape": encode_accept(TensorView(DataType.U8, (2, 1, 3), None, memoryview(b""))),
    "InferShape": build_infer_response(ShapeAnswer((2, 1, 3))).SerializeToString(),
}
START = """
from tensor_reshape.server.config import Config
from tensor_reshape.server.telemetry.call_logs import CallLogs
CallLogs(Config(tracing=True)).end()
"""
REJECTION = "ConfigError: --tracing cannot start with OpenTelemetry's environment variables"


def build(monkeypatch: pytest.MonkeyPatch, sampler: str, argument: str) -> CallSampling:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument)
    return CallSampling(TracerProvider(shutdown_on_exit=False).sampler)


@pytest.mark.parametrize(("sampler", "argument", "chosen"), ROWS)
def test_calls_are_chosen_as_the_sampler_says(
    monkeypatch: pytest.MonkeyPatch, sampler: str, argument: str, chosen: set[str]
):
    sampling = build(monkeypatch, sampler, argument)
    assert {name for name, metadata in CALLS.items() if sampling.chooses(metadata)} == chosen


@pytest.mark.parametrize("name", ["no trace", "an invalid trace"])
def test_ratio_is_the_fraction_of_calls_without_a_trace(monkeypatch: pytest.MonkeyPatch, name: str):
    random.seed(7)
    sampling = build(monkeypatch, "parentbased_traceidratio", "0.25")
    assert 200 < sum(sampling.chooses(CALLS[name]) for _ in range(1000)) < 300


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def log(exporter: InMemorySpanExporter) -> SpanLog:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return SpanLog(provider.get_tracer("test"), CallSampling(provider.sampler))


def build_record(result: CallResult | None, method: str = METHOD) -> CallRecord:
    began = time.monotonic() - 1.5
    record = CallRecord(CallInfo(method, ()), time.monotonic())
    record.began, record.result = began, result
    record.seconds = {"waiting": 0.25, "working": 1.0, "ending": 0.25}
    return record


def test_call_span_has_the_times_and_method_of_the_call(log: SpanLog, exporter: InMemorySpanExporter):
    log.write(build_record(CallResult("OK")))
    (span,) = exporter.get_finished_spans()
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.end_time - span.start_time >= 1_500_000_000
    expected = {
        "rpc.system": "grpc",
        "rpc.service": SERVICE,
        "rpc.method": "StaticReshape",
        "tensor_reshape.waiting_seconds": 0.25,
        "tensor_reshape.working_seconds": 1.0,
    }
    assert dict(span.attributes or {}).items() >= expected.items()


def test_only_server_failures_mark_spans_as_errors(log: SpanLog, exporter: InMemorySpanExporter):
    for result, code, status in (
        (CallResult("OK"), 0, StatusCode.UNSET),
        (CallResult("INVALID_ARGUMENT", "VOLUME_MISMATCH"), 3, StatusCode.UNSET),
        (CallResult("RESOURCE_EXHAUSTED", "SERVER_BUSY"), 8, StatusCode.UNSET),
        (CallResult("INTERNAL", "INTERNAL_ERROR"), 13, StatusCode.ERROR),
        (None, 1, StatusCode.UNSET),
    ):
        log.write(build_record(result))
        *_, span = exporter.get_finished_spans()
        assert (dict(span.attributes or {})["rpc.grpc.status_code"], span.status.status_code) == (code, status)
        assert span.status.description == ("INTERNAL_ERROR" if status is StatusCode.ERROR else None)


@pytest.mark.parametrize("method", ANSWERS)
def test_call_span_has_the_output_rank(log: SpanLog, exporter: InMemorySpanExporter, method: str):
    record = build_record(CallResult("OK"), f"/{SERVICE}/{method}")
    record_response(record.info, ANSWERS[method])
    log.write(record)
    (span,) = exporter.get_finished_spans()
    assert dict(span.attributes or {})["tensor_reshape.rank"] == 3


def test_rank_is_read_from_the_first_bytes_of_a_response():
    response = encode_response_header(DataType.F32, [2**40] * 64, 2000) + bytes(2000)
    assert find_rank(METHOD, response[:MAX_RESPONSE_BYTES]) == 64


def test_response_without_an_output_shape_has_no_rank():
    unknown = reshape_pb2.InferShapeResponse(origins=[reshape_pb2.Origin(text="a")]).SerializeToString()
    assert find_rank(f"/{SERVICE}/InferShape", unknown) is None
    assert find_rank(f"/{SERVICE}/BatchInferShape", b"\x0a\x00") is None


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
