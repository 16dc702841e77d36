"""Exports the spans of calls. A thread of OpenTelemetry sends the queued spans by OTLP over HTTP.

- OpenTelemetry itself reads its environment variables, such as OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER and
  OTEL_SERVICE_NAME.
- The tracer provider belongs to this server and is not registered globally.
- An OpenTelemetry collector that does not respond never delays calls, and delays the end of the server by at most
  `END_SECONDS`.
"""

import logging
import os
import threading
from contextlib import suppress
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.telemetry.sampling import CallSampling
from tensor_reshape.server.telemetry.spans import SpanLog

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
        """Starts the thread that sends spans.

        Raises:
            ConfigError: OpenTelemetry's variables are invalid.
        """
        logging.getLogger("opentelemetry.util.re").addFilter(_hide_header)
        try:
            sampling = CallSampling(os.environ)  # noqa: TID251 - OpenTelemetry reads the same variables
            self._provider = TracerProvider(sampling.sampler, build_resource(), shutdown_on_exit=False)
            self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        except (ValueError, OSError) as error:
            message = f"--tracing cannot start with OpenTelemetry's environment variables: {error}"
            raise ConfigError(message) from error
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
