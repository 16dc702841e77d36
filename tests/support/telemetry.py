"""What a server reports: its metrics as Prometheus scrapes them, and its spans as a collector of OpenTelemetry."""

import gzip
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any
from urllib.request import urlopen

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from prometheus_client.parser import text_string_to_metric_families

from server_processes import ServerProcess

WAIT_SECONDS = 60.0
_LOOK_AGAIN_SECONDS = 0.2


class Scrape:
    def __init__(self, page: str) -> None:
        """Parses `page`. Raises ValueError if its format is invalid."""
        self._samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        }

    def find(self, name: str, **labels: str) -> float:
        """Returns the value of the sample with exactly these labels; 0 if there is none."""
        return self._samples.get((name, frozenset(labels.items())), 0.0)

    def sum(self, name: str, **labels: str) -> float:
        """Returns the sum of all samples that have these labels and possibly others."""
        wanted = labels.items()
        return sum(value for (one, found), value in self._samples.items() if one == name and wanted <= found)

    def list_calls(self) -> dict[frozenset[tuple[str, str]], float]:
        return {
            labels: value for (name, labels), value in self._samples.items() if name == "tensor_reshape_calls_total"
        }

    def list_values(self, label: str) -> set[str]:
        return {value for _, labels in self._samples for name, value in labels if name == label}


def find_metrics(server: ServerProcess) -> str:
    """Returns the URL of the metrics of a server that was started with `--metrics-listen`."""
    (record,) = server.await_records(1, "listening for metrics")
    return f"http://{record['address']}/metrics"


def scrape(url: str) -> Scrape:
    with urlopen(url, timeout=WAIT_SECONDS) as response:
        return Scrape(response.read().decode())


def await_scrape(url: str, is_awaited: Callable[[Scrape], bool]) -> Scrape:
    """Scrapes until `is_awaited` accepts a page, because values may be up to two seconds old."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_awaited(page := scrape(url)):
        assert time.monotonic() < deadline, page.list_calls()
        time.sleep(_LOOK_AGAIN_SECONDS)
    return page


class Collector:
    """The received spans.

    Attributes:
        variables: environment variables that make OpenTelemetry send to this collector, without a long delay.
        services: the service names of the senders.
    """

    def __init__(self, port: int) -> None:
        self.variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_BSP_SCHEDULE_DELAY": "20"}
        self.services: set[str] = set()
        self._spans: list[Span] = []
        self._news = Condition()

    def add(self, request: ExportTraceServiceRequest) -> None:
        with self._news:
            for traces in request.resource_spans:
                self.services.add(read_attributes(traces.resource)["service.name"])
                self._spans.extend(span for scope in traces.scope_spans for span in scope.spans)
            self._news.notify_all()

    def clear(self) -> None:
        with self._news:
            self._spans.clear()

    def await_spans(self, count: int, trace: str = "") -> list[Span]:
        """Waits for `count` spans, of one trace if it is given. Returns all of them in the order of their ends."""

        def find() -> list[Span]:
            return [span for span in self._spans if trace in {"", span.trace_id.hex()}]

        with self._news:
            assert self._news.wait_for(lambda: len(find()) >= count, WAIT_SECONDS), self._spans
            return sorted(find(), key=lambda span: span.end_time_unix_nano)


def read_attributes(holder: Span | Resource) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "") for pair in holder.attributes}


@contextmanager
def run_collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            collector.add(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(server.server_address[1])
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
