"""Exports one OpenTelemetry span for each call that the sampler chooses.

The span of a call is created when the call is over, so that running calls need no memory for spans.

- OpenTelemetry asks its sampler when a span is created, which is too late here. `CallSampling` therefore asks the same
  sampler when a call begins, so that the server keeps no data for calls without a span.
- The environment variables `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG` choose the sampler. If the sampler is
  parent-based and the client of a call has a trace, the client decides whether the call gets a span.
- Attributes that begin with `rpc.` follow OpenTelemetry's conventions for gRPC. Other attributes of a span begin with
  `tensor_reshape.`.
- If the metadata of a call contain a W3C Trace Context, the client's span is the parent of the call's span.
- A span contains only two values from the client. They are the W3C Trace Context with its `tracestate`, and the request
  id. An invalid value is omitted. The limit for metadata also limits the length of these values.
- OpenTelemetry itself reads its environment variables, such as OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER and
  OTEL_SERVICE_NAME.
- The tracer provider belongs to this server and is not registered globally.
- If the OpenTelemetry collector does not respond, calls are not delayed, and the end of the server is delayed by at
  most `END_SECONDS`.
"""

import logging
import random
import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Final

from google.rpc.code_pb2 import Code
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Decision, ParentBased, Sampler
from opentelemetry.trace import Span, SpanKind, Status, Tracer, get_current_span
from opentelemetry.trace import StatusCode as SpanStatus
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tensor_reshape.server.calls.call_info import CallInfo, Metadata
from tensor_reshape.server.calls.results import GONE, EndedCall
from tensor_reshape.v1 import tensor_pb2
from tensor_reshape.wire.fields import read_field
from tensor_reshape.wire.methods import SERVICE, split_method

_PARENT_KEYS = ("traceparent", "tracestate")
# If a client does not sample its trace, its `traceparent` header usually matches this expression.
_UNSAMPLED = re.compile("00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-00")
_PROPAGATOR = TraceContextTextMapPropagator()


def find_parent(metadata: Metadata) -> Context:
    """Returns the context of the client's span. It is empty if the metadata contain no valid W3C Trace Context."""
    carrier: dict[str, list[str]] = {key: [] for key in _PARENT_KEYS}
    for name, value in metadata:
        if name in carrier:
            carrier[name].append(str(value))
    # The client's context is not added to the current context of this thread, because the thread serves calls of all
    # clients.
    return _PROPAGATOR.extract(carrier, Context()) if carrier[_PARENT_KEYS[0]] else Context()


class CallSampling:
    """Decides for each call whether it gets a span."""

    def __init__(self, sampler: Sampler) -> None:
        """Creates an object that asks `sampler` about each call."""
        self._sampler = sampler
        self._follows_parents = isinstance(sampler, ParentBased)

    def chooses(self, metadata: Metadata) -> bool:
        """Whether a call with this metadata gets a span."""
        if self._follows_parents:
            parents = [str(value) for name, value in metadata if name == _PARENT_KEYS[0]]
            if parents and _UNSAMPLED.fullmatch(parents[0]):  # this check is much faster than asking OpenTelemetry
                return False
        parent = find_parent(metadata)
        trace = get_current_span(parent).get_span_context().trace_id
        trace = trace or random.getrandbits(128)
        return self._sampler.should_sample(parent, trace, "", SpanKind.SERVER).decision is not Decision.DROP


# OpenTelemetry's conventions count these status codes as failures of the server, and other error codes as failures of
# the client.
_FAILURES = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})
# For each method, this dict has the class of the message that contains the output.
_OUTPUTS: Final[Mapping[str, type[tensor_pb2.Tensor | tensor_pb2.Shape]]] = {
    f"/{SERVICE}/StaticReshape": tensor_pb2.Tensor,
    f"/{SERVICE}/DynamicReshape": tensor_pb2.Tensor,
    f"/{SERVICE}/Reshape": tensor_pb2.Tensor,
    f"/{SERVICE}/StreamReshape": tensor_pb2.Tensor,
    f"/{SERVICE}/InferShape": tensor_pb2.Shape,
}
_OUTPUT_TAGS = (0x0A, 0x7A)  # the tags of the fields 1 and 15, because one of these two fields contains the output
_REPORTED_STATES = ("waiting", "receiving", "queued", "working", "sending")


class SpanLog:
    """Creates the span of each chosen call after its end (see `CallLog`)."""

    def __init__(self, tracer: Tracer, sampling: CallSampling) -> None:
        """Creates a log for the calls that `sampling` chooses.

        Args:
            tracer: the OpenTelemetry tracer that creates and exports the spans. It must queue its spans, because
                `write` must not block.
            sampling: the object that decides which calls get a span.
        """
        self._tracer = tracer
        self.chooses = sampling.chooses

    def begin(self, info: CallInfo) -> None:
        """Does nothing, because the span is only created after the end of the call."""

    def write(self, call: EndedCall) -> None:
        """Creates and exports the span of an ended call (see `CallLog`)."""
        end = time.time_ns()
        service, method = split_method(call.info.method)
        span = self._tracer.start_span(
            f"{service}/{method}",
            find_parent(call.info.metadata),
            SpanKind.SERVER,
            {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method},
            start_time=end - round((time.monotonic() - call.began) * 1e9),
        )
        if span.is_recording():
            _describe(span, call)
        span.end(end)


def _describe(span: Span, call: EndedCall) -> None:
    result = call.result or GONE
    span.set_attribute("rpc.grpc.status_code", Code.Value(result.code))
    span.set_attribute("tensor_reshape.request_id", call.info.request_id)
    span.set_attribute("tensor_reshape.request_bytes", call.request_bytes)
    span.set_attribute("tensor_reshape.response_bytes", call.response_bytes)
    if result.reason:
        span.set_attribute("tensor_reshape.reason", result.reason)
    rank = find_rank(call.info.method, call.info.response)
    if rank is not None:
        span.set_attribute("tensor_reshape.rank", rank)
    for state in _REPORTED_STATES:
        if call.seconds.get(state):
            span.set_attribute(f"tensor_reshape.{state}_seconds", call.seconds[state])
    if result.code in _FAILURES:
        span.set_status(Status(SpanStatus.ERROR, result.reason or None))


def find_rank(method: str, response: bytes) -> int | None:
    """Returns the rank of the output, or None if it is not known.

    `response` may contain only the beginning of the response.
    """
    output = read_field(response, 0) if method in _OUTPUTS else None
    if output is None or output[0] not in _OUTPUT_TAGS:
        return None
    _, start, end = output
    position = start
    while position < end and (field := read_field(response, position)) and field[2] <= len(response):
        position = field[2]
    return len(_OUTPUTS[method].FromString(response[start:position]).dims)


END_SECONDS = 2.0
"""Maximum number of seconds that a stopping server waits until its last spans are sent."""

_NAME = "tensor-reshape"
_UNNAMED = "unknown_service"  # the beginning of OpenTelemetry's default service name


class Tracing:
    """Sends the spans of calls to an OpenTelemetry collector.

    Attributes:
        log: the log that creates the spans of calls.
    """

    def __init__(self) -> None:
        """Starts the thread that sends spans.

        Raises ValueError or OSError if OpenTelemetry rejects an environment variable.
        """
        logging.getLogger("opentelemetry.util.re").addFilter(_hide_header)
        self._provider = TracerProvider(resource=build_resource(), shutdown_on_exit=False)
        sampling = CallSampling(self._provider.sampler)
        self._provider.sampler = ALWAYS_ON  # `SpanLog` passes only chosen calls to the tracer
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self.log = SpanLog(self._provider.get_tracer(_NAME, version(_NAME)), sampling)

    def end(self) -> None:
        """Sends the remaining spans, but waits at most `END_SECONDS`.

        A thread calls OpenTelemetry's method `shutdown`, because this method has no time limit.
        """
        ending = threading.Thread(target=self._provider.shutdown, name="tracing-end", daemon=True)
        with suppress(RuntimeError):  # `start` raises RuntimeError if the system cannot start another thread
            ending.start()
            ending.join(END_SECONDS)


def _hide_header(record: logging.LogRecord) -> bool:
    """Removes an invalid header from OpenTelemetry's log record, because the header may contain a password or token."""
    record.msg, record.args = "a header for the collector is not sent, because it is not NAME=VALUE", ()
    return True


def build_resource() -> Resource:
    """Returns the description of this server for OpenTelemetry. A configured service name replaces the default name."""
    configured = Resource.create()
    name = str(configured.attributes.get(SERVICE_NAME, _UNNAMED))
    named = {SERVICE_NAME: _NAME} if name.startswith(_UNNAMED) else {}
    return configured.merge(Resource({SERVICE_VERSION: version(_NAME), **named}))
