"""Calls of unknown methods."""

from dataclasses import dataclass

from tensor_reshape.server.calls.heartbeats import METHOD
from tensor_reshape.server.metrics.unknown_calls import UnknownCalls


@dataclass
class Details:
    method: str
    invocation_metadata: tuple[tuple[str, str | bytes], ...] = ()


def test_unknown_calls_count_but_heartbeats_do_not():
    counted: list[int] = []
    calls = UnknownCalls(lambda: counted.append(1))
    for method in ("/a/B", METHOD, "/\x1b[31m"):
        calls.service(Details(method))
    assert len(counted) == 2
