"""One span for each call.

The span of a call is created when the call is over, so that running calls need no memory for spans.

- Attributes that begin with `rpc.` follow OpenTelemetry's conventions for gRPC. Other attributes of a span begin with
  `tensor_reshape.`.
- If the metadata of a call contain a W3C Trace Context, the client's span is the parent of the call's span.
- A span contains only two values of the client, which are the W3C Trace Context with its `tracestate` and the request
  id. These two values are omitted if they are invalid. The limit for metadata also limits their length.
- The server first decides whether a call is sampled (see `sampling`). A call that is not sampled has no other cost.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final

from google.rpc.code_pb2 import Code
from opentelemetry.trace import Span, SpanKind, Status, Tracer
from opentelemetry.trace import StatusCode as SpanStatus

from tensor_reshape.server.calls.call_info import CallInfo, Metadata
from tensor_reshape.server.calls.records import EndedCall
from tensor_reshape.server.calls.results import GONE
from tensor_reshape.server.telemetry.sampling import CallSampling, find_parent
from tensor_reshape.wire.fields import find_inferred_rank, find_output_rank, find_stream_rank
from tensor_reshape.wire.methods import SERVICE, split_method

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
        self._sampling = sampling

    def chooses(self, metadata: Metadata) -> bool:
        """See `CallLog`."""
        return self._sampling.chooses(metadata)

    def begin(self, info: CallInfo) -> None:
        """Does nothing, because a span is created when its call is over."""

    def write(self, call: EndedCall) -> None:
        """See `CallLog`."""
        end = time.time_ns()
        service, method = split_method(call.method)
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
    rank = _find_rank(call)
    if rank is not None:
        span.set_attribute("tensor_reshape.rank", rank)
    for state in _REPORTED_STATES:
        if call.seconds.get(state):
            span.set_attribute(f"tensor_reshape.{state}_seconds", call.seconds[state])
    if result.code in _FAILURES:
        span.set_status(Status(SpanStatus.ERROR, result.reason or None))


def _find_rank(call: EndedCall) -> int | None:
    find = _RANKS.get(call.method)
    return find(call.info.response) if find and call.info.response else None
