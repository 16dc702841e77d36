"""Calls of nobody's methods."""

from dataclasses import dataclass

from tensor_reshape.server.calls.heartbeats import METHOD
from tensor_reshape.server.metrics.unknown_calls import UnknownCalls


@dataclass
class Details:
    method: str
    invocation_metadata: tuple[tuple[str, str | bytes], ...] = ()


def test_each_call_counts_but_those_of_a_worker_itself():
    counted: list[int] = []
    calls = UnknownCalls(lambda: counted.append(1))
    for method in ("/a/B", METHOD, "/\x1b[31m"):
        calls.service(Details(method))
    assert len(counted) == 2
