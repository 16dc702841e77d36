"""The trace that a call belongs to, as W3C Trace Context writes it, from OpenTelemetry's current span.

Law: a call is made in the trace of whoever makes it; where there is none, nothing is sent.
"""

from collections.abc import Callable

from tensor_reshape.client.contexts import CheckedMetadata

TRACE_KEY = "traceparent"
"""The name under which a trace is sent."""


def find_trace_reader() -> Callable[[], CheckedMetadata]:
    """Returns what reads the current trace, in the thread or the task that calls it.

    Raises:
        ImportError: OpenTelemetry is not installed.
    """
    try:
        # An extra; and to import it takes a while.
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415
    except ImportError as error:
        message = "tracing=True takes the trace from OpenTelemetry: install tensor-reshape[tracing]"
        raise ImportError(message) from error
    inject = TraceContextTextMapPropagator().inject

    def read_trace() -> CheckedMetadata:
        headers: dict[str, str] = {}
        inject(headers)
        return tuple(headers.items())

    return read_trace
