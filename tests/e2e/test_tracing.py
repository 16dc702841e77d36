"""The spans that a server with --tracing sends to a collector."""

import socket
from collections.abc import Iterator

import grpc
import numpy as np
import pytest
from opentelemetry.sdk.trace import TracerProvider

from both_clients import CLIENTS, open_client
from plain_requests import STATIC_RESHAPE, build_static_request
from server_processes import ServerProcess, run_server
from telemetry import Collector, read_attributes, run_collector
from tensor_reshape.client import Client, ReshapeError, ShapeQuery

SIX = np.arange(6, dtype=np.float32)
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACER = TracerProvider().get_tracer("test")
TRACEPARENT = ("traceparent", f"00-{TRACE}-{PARENT}-01")
ATTRIBUTES = ("rpc.grpc.status_code", *(f"tensor_reshape.{name}" for name in ("rank", "reason", "request_id")))


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[ServerProcess, Collector]]:
    with (
        run_collector() as collector,
        run_server("--tracing", env=collector.variables) as server,
    ):
        yield server, collector


@pytest.fixture
def traced(running: tuple[ServerProcess, Collector]) -> tuple[ServerProcess, Collector]:
    """The server and its collector, without spans of other tests, because each test waits for all its spans."""
    running[1].clear()
    return running


def reshape(client: Client) -> None:
    client.static_reshape(SIX, [2, 3], special_zero=False)


def test_server_span_belongs_to_the_trace_of_the_client(traced: tuple[ServerProcess, Collector]):
    server, collector = traced
    with Client(server.address, metadata=[TRACEPARENT, ("x-request-id", "mine")]) as client:
        reshape(client)
        client.reshape(SIX, [1, 2, 3], special_zero=False, transfer="stream")
        client.infer_shape((2, 3), (6,), special_zero=False)
        with pytest.raises(ReshapeError):
            client.infer_shape((2, 3), (7,), special_zero=False)
    spans = collector.await_spans(4)
    assert [(span.name.rpartition("/")[2], *map(read_attributes(span).get, ATTRIBUTES)) for span in spans] == [
        ("StaticReshape", 0, 2, None, "mine"),
        ("StreamReshape", 0, 3, None, "mine"),
        ("InferShape", 0, 1, None, "mine"),
        ("InferShape", 3, None, "VOLUME_MISMATCH", "mine"),
    ]
    assert {(span.trace_id.hex(), span.parent_span_id.hex()) for span in spans} == {(TRACE, PARENT)}
    assert all(span.start_time_unix_nano < span.end_time_unix_nano for span in spans)
    sizes = [read_attributes(spans[0])[f"tensor_reshape.{which}_bytes"] for which in ("request", "response")]
    assert min(sizes) > SIX.nbytes
    assert collector.services == {"tensor-reshape"}


def test_invalid_trace_header_starts_a_new_trace(traced: tuple[ServerProcess, Collector]):
    server, collector = traced
    values = ("", "00-zz", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "x" * 2000)
    others = (("tracestate", "s" * 600), ("authorization", "secret"), ("blob-bin", b"\xff"))
    with grpc.insecure_channel(server.address) as channel:
        method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(STATIC_RESHAPE)
        for value in values:
            method(build_static_request(), metadata=(("traceparent", value), *others))
    spans = collector.await_spans(len(values))
    assert {(len(span.trace_id), span.parent_span_id, span.trace_state) for span in spans} == {(16, b"", "")}
    assert "secret" not in str(spans)


def test_call_in_an_unsampled_trace_has_no_server_span(traced: tuple[ServerProcess, Collector]):
    server, collector = traced
    with Client(server.address, metadata=[("traceparent", f"00-{TRACE}-{PARENT}-00")]) as client:
        reshape(client)
    with Client(server.address, metadata=[TRACEPARENT]) as client:
        client.infer_shape((2, 3), (6,), special_zero=False)
    (span,) = collector.await_spans(1)
    assert span.name.endswith("InferShape")


def test_workers_export_their_spans_before_exit():
    late = {"OTEL_BSP_SCHEDULE_DELAY": "600000"}  # so that spans are sent only at the end
    flags = ("--tracing", "--workers", "2")
    with run_collector() as collector, run_server(*flags, env={**collector.variables, **late}) as server:
        with Client(server.address) as client:
            reshape(client)
        assert server.stop() == 0
        assert len(collector.await_spans(1)) == 1


def test_unresponsive_trace_collector_does_not_delay_calls():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        with run_server("--tracing", env={**variables, "OTEL_BSP_MAX_QUEUE_SIZE": "512"}) as server:
            with Client(server.address) as client:
                for _ in range(1000):  # more spans than the queue holds
                    reshape(client)
            assert server.stop() == 0


@pytest.mark.parametrize("caller", CLIENTS)
def test_server_spans_have_the_current_client_span_as_parent(traced: tuple[ServerProcess, Collector], caller: str):
    server, collector = traced
    with open_client(caller, server.address, tracing=True) as client, TRACER.start_as_current_span("mine") as span:
        client.reshape(SIX, [2, 3])
        client.reshape(SIX, [2, 3], transfer="stream")
        client.infer_shapes([ShapeQuery(data_shape=(2, 3), shape=(6,), special_zero=False)])
        context = span.get_span_context()
    spans = collector.await_spans(3)
    assert {span.name.rpartition("/")[2] for span in spans} == {"Reshape", "StreamReshape", "BatchInferShape"}
    parents = {(span.trace_id, span.parent_span_id) for span in spans}
    assert parents == {(context.trace_id.to_bytes(16, "big"), context.span_id.to_bytes(8, "big"))}


def test_traceparent_in_call_metadata_overrides_the_current_span(traced: tuple[ServerProcess, Collector]):
    server, collector = traced
    with Client(server.address, tracing=True) as client, TRACER.start_as_current_span("mine"):
        client.infer_shape((2, 3), (6,), special_zero=False, metadata=[TRACEPARENT])
    (span,) = collector.await_spans(1)
    assert span.trace_id.hex() == TRACE
