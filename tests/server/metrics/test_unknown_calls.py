"""Calls of nobody's methods."""

from collections.abc import Sequence
from typing import NamedTuple

from tensor_reshape.server.calls.heartbeats import METHOD
from tensor_reshape.server.metrics.unknown_calls import UnknownCalls


class Details(NamedTuple):
    method: str
    invocation_metadata: Sequence[tuple[str, str]] = ()


def test_each_call_counts_but_those_of_a_worker_itself():
    counted: list[int] = []
    calls = UnknownCalls(lambda: counted.append(1))
    for method in ("/a/B", METHOD, "/\x1b[31m"):
        calls.service(Details(method))
    assert len(counted) == 2
