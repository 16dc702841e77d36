"""Exports one span for each chosen call.

The span of a call is created when the call is over, so that running calls need no memory for spans.

- OpenTelemetry's samplers decide when a span starts, and need a context and a trace id. With a sampling rate of 1 %,
  this preparation of 99 % of the calls would take longer than the spans. `CallSampling` makes the same choices without
  it.
- The choice follows `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`. With a parent-based sampler, a call whose
  client has a trace gets a span if the client samples this trace.
- If OpenTelemetry does not accept these variables, OpenTelemetry's own sampler decides.
- Attributes that begin with `rpc.` follow OpenTelemetry's conventions for gRPC. Other attributes of a span begin with
  `tensor_reshape.`.
- If the metadata of a call contain a W3C Trace Context, the client's span is the parent of the call's span.
- A span contains only two values of the client, which are the W3C Trace Context with its `tracestate` and the request
  id. These two values are omitted if they are invalid. The limit for metadata also limits their length.
- The server first decides whether a call is sampled (see `CallSampling`). A call that is not sampled has no other cost.
- OpenTelemetry itself reads its environment variables, such as OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER and
  OTEL_SERVICE_NAME.
- The tracer provider belongs to this server and is not registered globally.
- An OpenTelemetry collector that does not respond never delays calls, and delays the end of the server by at most
  `END_SECONDS`.
"""

import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Final

from google.rpc.code_pb2 import Code
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagators.textmap import Getter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, DEFAULT_ON, Decision, Sampler, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, Tracer, get_current_span
from opentelemetry.trace import StatusCode as SpanStatus
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tensor_reshape.server.calls.call_info import CallInfo, Metadata
from tensor_reshape.server.calls.results import GONE, EndedCall
from tensor_reshape.wire.fields import find_inferred_rank, find_output_rank, find_stream_rank
from tensor_reshape.wire.methods import SERVICE, split_method

_PARENT_KEY = "traceparent"
_DEFAULT = "parentbased_always_on"
_PREFIX = "parentbased_"
_RATES = {"always_on": 1.0, "always_off": 0.0}
_RATIO = "traceidratio"
# Most valid `traceparent` headers of clients that do not sample the trace match this expression.
_UNSAMPLED = re.compile("00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-00")
_PROPAGATOR = TraceContextTextMapPropagator()


class _MetadataGetter(Getter[Metadata]):
    """Lets OpenTelemetry read the metadata of a call like the headers of a request."""

    def get(self, carrier: Metadata, key: str) -> list[str] | None:
        """Returns the values of a name, or None if the name is missing."""
        return [value for name, value in carrier if name == key and isinstance(value, str)] or None

    def keys(self, carrier: Metadata) -> list[str]:
        """Returns the names."""
        return [name for name, _ in carrier]


_GETTER = _MetadataGetter()


def find_parent(metadata: Metadata) -> Context:
    """Returns the context of the client's span, which is empty if the metadata contain no valid W3C Trace Context."""
    # The parent context must not be the current context of this thread, because the thread serves calls of all clients.
    return _PROPAGATOR.extract(metadata, Context(), _GETTER)


class CallSampling:
    """Chooses calls as the sampler of OpenTelemetry's environment variables does.

    Attributes:
        sampler: the sampler for the tracer of the chosen calls. None: OpenTelemetry's own sampler.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Reads the variables of `environ`."""
        name = environ.get("OTEL_TRACES_SAMPLER", _DEFAULT).lower()
        rate = _find_rate(name.removeprefix(_PREFIX), environ.get("OTEL_TRACES_SAMPLER_ARG", ""))
        self._asks_parent = name.startswith(_PREFIX)
        self._rate = 1.0 if rate is None else rate
        # This sampler chooses the same traces as the samplers of other servers with the same rate.
        self._ratio = TraceIdRatioBased(self._rate) if name == _RATIO else None
        self.sampler: Sampler | None = None
        if rate is not None:
            self.sampler = DEFAULT_ON if self._asks_parent else ALWAYS_ON

    def chooses(self, metadata: Metadata) -> bool:
        """Whether a new call gets a span."""
        if self._asks_parent or self._ratio is not None:
            for name, value in metadata:
                if name == _PARENT_KEY:
                    return self._follow(str(value), metadata)
        return random.random() < self._rate  # noqa: S311 - a sample, not a secret

    def _follow(self, traceparent: str, metadata: Metadata) -> bool:
        """Whether a call whose client has a trace gets a span. If the trace is invalid, the rate decides."""
        if self._asks_parent and _UNSAMPLED.fullmatch(traceparent):  # this check is much faster than OpenTelemetry's
            return False
        parent = get_current_span(find_parent(metadata)).get_span_context()
        if not parent.is_valid:
            return random.random() < self._rate  # noqa: S311 - as above
        if self._ratio is None:
            return parent.trace_flags.sampled
        return self._ratio.should_sample(None, parent.trace_id, "").decision is not Decision.DROP


def _find_rate(sampler: str, argument: str) -> float | None:
    """Returns the sampling rate of calls without a trace, or None if OpenTelemetry does not accept the variables."""
    if sampler != _RATIO:
        return _RATES.get(sampler)
    try:
        rate = float(argument)
    except ValueError:
        return None
    return rate if 0 <= rate <= 1 else None


# OpenTelemetry's conventions count these status codes as failures of the server, and other error codes as failures of
# the client.
_FAILURES = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})
_RANKS: Final[Mapping[str, Callable[[bytes], int | None]]] = {
    f"/{SERVICE}/StaticReshape": find_output_rank,
    f"/{SERVICE}/DynamicReshape": find_output_rank,
    f"/{SERVICE}/Reshape": find_output_rank,
    f"/{SERVICE}/StreamReshape": find_stream_rank,
    f"/{SERVICE}/InferShape": find_inferred_rank,
}
_REPORTED_STATES = ("waiting", "receiving", "queued", "working", "sending")


class SpanLog:
    """Creates the spans of calls that are over (see `CallLog`)."""

    def __init__(self, tracer: Tracer, sampling: CallSampling) -> None:
        """Creates spans of the calls that `sampling` chooses.

        Args:
            tracer: the tracer of the spans. The tracer must queue its spans, because `write` must not block.
            sampling: chooses the calls, before the sampler of the tracer decides.
        """
        self._tracer = tracer
        self.chooses = sampling.chooses

    def begin(self, info: CallInfo) -> None:
        """Does nothing, because a span is created when its call is over."""

    def write(self, call: EndedCall) -> None:
        """See `CallLog`."""
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
    find_rank = _RANKS.get(call.info.method)
    rank = find_rank(call.info.response) if find_rank and call.info.response else None
    if rank is not None:
        span.set_attribute("tensor_reshape.rank", rank)
    for state in _REPORTED_STATES:
        if call.seconds.get(state):
            span.set_attribute(f"tensor_reshape.{state}_seconds", call.seconds[state])
    if result.code in _FAILURES:
        span.set_status(Status(SpanStatus.ERROR, result.reason or None))


END_SECONDS = 2.0
"""Maximum number of seconds that a stopping server waits until its last spans are sent."""

_NAME = "tensor-reshape"
_UNNAMED = "unknown_service"  # the default service name of OpenTelemetry begins with this text


class Tracing:
    """Sends traces of calls to a collector.

    Attributes:
        log: creates the spans of calls.
    """

    def __init__(self) -> None:
        """Starts the thread that sends spans. Raises ValueError or OSError if OpenTelemetry's variables are invalid."""
        logging.getLogger("opentelemetry.util.re").addFilter(_hide_header)
        sampling = CallSampling(os.environ)  # noqa: TID251 - OpenTelemetry reads the same variables
        self._provider = TracerProvider(sampling.sampler, build_resource(), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self.log = SpanLog(self._provider.get_tracer(_NAME, version(_NAME)), sampling)

    def end(self) -> None:
        """Sends the remaining spans, but waits at most `END_SECONDS`. The method of OpenTelemetry has no time limit."""
        ending = threading.Thread(target=self._provider.shutdown, name="tracing-end", daemon=True)
        with suppress(RuntimeError):  # `start` raises RuntimeError if the system cannot start another thread
            ending.start()
            ending.join(END_SECONDS)


def _hide_header(record: logging.LogRecord) -> bool:
    """Removes an invalid header from OpenTelemetry's log record, because the header may contain a credential."""
    record.msg, record.args = "a header for the collector is not sent, because it is not NAME=VALUE", ()
    return True


def build_resource() -> Resource:
    """Returns OpenTelemetry's description of this server. A configured service name replaces the default name."""
    configured = Resource.create()
    name = str(configured.attributes.get(SERVICE_NAME, _UNNAMED))
    named = {SERVICE_NAME: _NAME} if name.startswith(_UNNAMED) else {}
    return configured.merge(Resource({SERVICE_VERSION: version(_NAME), **named}))
