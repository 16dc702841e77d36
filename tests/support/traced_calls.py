"""Calls of a client under a tracing tool. The tools change grpcio for a whole process, so this module is a program.

It makes the same calls without and with TLS, and prints the method and the success of each span that has arrived. With
the tool "launcher", it starts no tool itself: a launcher prints the spans.
"""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
import sentry_sdk
from opentelemetry import trace
from opentelemetry.instrumentation.grpc import GrpcAioInstrumentorClient, GrpcInstrumentorClient
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.grpc import GRPCIntegration
from sentry_sdk.transport import Transport

from both_clients import open_client
from tensor_reshape.client import ReshapeError, ShapeQuery

Spans = list[tuple[str, bool]]

LAUNCHER, OPENTELEMETRY, SENTRY = "launcher", "opentelemetry", "sentry"
SIX = np.arange(6, dtype=np.float32)


def main() -> None:
    tool, kind, plain, secure, authority = sys.argv[1:]
    trace_calls = {LAUNCHER: print_nothing, OPENTELEMETRY: trace_with_opentelemetry, SENTRY: trace_with_sentry}[tool]
    credentials = grpc.ssl_channel_credentials(Path(authority).read_bytes())

    def call_all() -> None:
        call(kind, plain)
        call(kind, secure, credentials=credentials, interceptors=[build_interceptor(kind)])

    spans = trace_calls(call_all)
    if tool != LAUNCHER:
        print(json.dumps(spans))


def call(kind: str, target: str, **settings: Any) -> None:
    with open_client(kind, target, **settings) as client:
        client.check_health()
        client.infer_shape([6], [2, -1])
        with suppress(ReshapeError):
            client.infer_shape([6], [4, -1])
        client.infer_shapes([ShapeQuery(data_shape=[6], shape=[6], special_zero=False)])
        client.reshape(SIX, [2, 3])
        client.reshape(SIX, [2, 3], transfer="stream")


def build_interceptor(kind: str) -> grpc.UnaryUnaryClientInterceptor | grpc.aio.UnaryUnaryClientInterceptor:
    """Returns an interceptor of the program's own, which changes nothing."""

    class Interceptor(grpc.UnaryUnaryClientInterceptor):
        def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:  # noqa: ANN401
            return continuation(client_call_details, request)

    class AsyncInterceptor(grpc.aio.UnaryUnaryClientInterceptor):
        async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:  # noqa: ANN401
            return await continuation(client_call_details, request)

    return AsyncInterceptor() if kind == "AsyncClient" else Interceptor()


def print_nothing(call_all: Callable[[], None]) -> Spans:
    call_all()
    return []


def trace_with_opentelemetry(call_all: Callable[[], None]) -> Spans:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    GrpcInstrumentorClient().instrument()  # type: ignore[no-untyped-call]
    GrpcAioInstrumentorClient().instrument()  # type: ignore[no-untyped-call]
    call_all()
    return [(span.name, span.status.is_ok) for span in exporter.get_finished_spans()]


class RecordingTransport(Transport):
    """Keeps the spans that a program would send to Sentry."""

    def __init__(self, options: dict[str, Any] | None = None) -> None:
        super().__init__(options)
        self.spans: Spans = []

    def capture_envelope(self, envelope: Envelope) -> None:
        event: dict[str, Any] = {**(envelope.get_transaction_event() or {})}
        for span in event.get("spans", ()):
            self.spans.append((span["data"]["method"], span["data"]["code"] == "OK"))


def trace_with_sentry(call_all: Callable[[], None]) -> Spans:
    transport = RecordingTransport()
    sentry_sdk.init(
        dsn="http://key@127.0.0.1:1/1", transport=transport, traces_sample_rate=1.0, integrations=[GRPCIntegration()]
    )
    with sentry_sdk.start_transaction(name="program"):
        call_all()
    sentry_sdk.flush()
    return transport.spans


if __name__ == "__main__":
    main()
