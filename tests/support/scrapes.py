"""The metrics that a server serves to Prometheus."""

import time
from collections.abc import Callable
from urllib.request import urlopen

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
