"""Where spans go: queued, and sent by a thread of OpenTelemetry's, by OTLP over HTTP.

- What OpenTelemetry's variables say holds (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME, ...):
  its own modules read them.
- The provider is this server's alone, and is not made the global one.
- A collector that does not answer costs neither a call anything nor the end of the server more than `END_SECONDS`.
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
"""How long the end of a server waits for its last spans."""

_NAME = "tensor-reshape"
_UNNAMED = "unknown_service"  # what OpenTelemetry begins the name with where nobody has said one


class Tracing:
    """Tells a collector of calls.

    Attributes:
        observer: what sees the calls.
    """

    def __init__(self) -> None:
        """Starts the thread that sends.

        Raises:
            ConfigError: OpenTelemetry instruments this process already, or its variables cannot be read.
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
        """Sends what is left, and gives up after `END_SECONDS`: nothing else of OpenTelemetry's bounds that."""
        ending = threading.Thread(target=self._provider.shutdown, name="tracing-end", daemon=True)
        with suppress(RuntimeError):  # no thread can be had
            ending.start()
            ending.join(END_SECONDS)


def _hide_header(record: logging.LogRecord) -> bool:
    """Has a header that OpenTelemetry cannot read be complained about without being shown: it may be a credential."""
    record.msg, record.args = "a header for the collector is not NAME=VALUE, and is not sent", ()
    return True


def build_resource() -> Resource:
    """Returns what is said of this server: the name that OpenTelemetry was told, or the product's, and a version."""
    told = Resource.create()
    name = str(told.attributes.get(SERVICE_NAME, _UNNAMED))
    named = {SERVICE_NAME: _NAME} if name.startswith(_UNNAMED) else {}
    return told.merge(Resource({SERVICE_VERSION: version(_NAME), **named}))
