"""The export of spans: a thread of OpenTelemetry sends queued spans by OTLP over HTTP.

- OpenTelemetry's own modules read its environment variables (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER,
  OTEL_SERVICE_NAME, ...).
- The provider belongs to this server and is not registered globally.
- A collector that does not respond delays no call, and the end of the server by at most `END_SECONDS`.
"""

import logging
import threading
from contextlib import suppress
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.tracing.spans import SpanObserver

END_SECONDS = 2.0
"""The time that a stopping server waits for its last spans."""

_NAME = "tensor-reshape"
_UNNAMED = "unknown_service"  # the default service name of OpenTelemetry begins with this


class Tracing:
    """Sends traces of calls to a collector.

    Attributes:
        observer: observes the calls.
    """

    def __init__(self) -> None:
        """Starts the thread that sends.

        Raises:
            ConfigError: OpenTelemetry already instruments this process, or its variables are invalid.
        """
        if not isinstance(get_tracer_provider(), ProxyTracerProvider):
            message = "--tracing and opentelemetry-instrument would both report every call: use only one of them"
            raise ConfigError(message)
        logging.getLogger("opentelemetry.util.re").addFilter(_hide_header)
        try:
            self._provider = TracerProvider(resource=build_resource(), shutdown_on_exit=False)
            self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        except (ValueError, OSError) as error:
            message = f"--tracing: {error}"
            raise ConfigError(message) from error
        self.observer = SpanObserver(self._provider.get_tracer(_NAME, version(_NAME)))

    def end(self) -> None:
        """Sends the remaining spans for at most `END_SECONDS`, because OpenTelemetry has no limit of its own."""
        ending = threading.Thread(target=self._provider.shutdown, name="tracing-end", daemon=True)
        with suppress(RuntimeError):  # no thread could be started
            ending.start()
            ending.join(END_SECONDS)


def _hide_header(record: logging.LogRecord) -> bool:
    """Removes a header that OpenTelemetry cannot parse from its log record, because it may be a credential."""
    record.msg, record.args = "a header for the collector is not NAME=VALUE, and is not sent", ()
    return True


def build_resource() -> Resource:
    """Returns the resource of this server: the configured service name, or the product's, and the version."""
    told = Resource.create()
    name = str(told.attributes.get(SERVICE_NAME, _UNNAMED))
    named = {SERVICE_NAME: _NAME} if name.startswith(_UNNAMED) else {}
    return told.merge(Resource({SERVICE_VERSION: version(_NAME), **named}))
