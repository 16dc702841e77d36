"""Reads the current OpenTelemetry span as W3C Trace Context.

A call belongs to the trace of its caller. Without a current span, the call sends no trace.
"""

from collections.abc import Callable

from tensor_reshape.client.contexts import CheckedMetadata
from tensor_reshape.runtime.lazy_imports import advise_install

TRACE_KEY = "traceparent"
"""The metadata key of a trace."""


def find_trace_reader() -> Callable[[], CheckedMetadata]:
    """Returns a function that returns the current trace of the thread or task that calls it.

    Raises:
        ImportError: OpenTelemetry is not installed.
    """
    try:
        # OpenTelemetry is imported only when it is used, because it is optional and slow to import.
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415
    except ImportError as error:
        message = f"tracing=True needs OpenTelemetry: {advise_install('tracing')}"
        raise ImportError(message) from error
    inject = TraceContextTextMapPropagator().inject

    def read_trace() -> CheckedMetadata:
        headers: dict[str, str] = {}
        inject(headers)
        return tuple(headers.items())

    return read_trace
