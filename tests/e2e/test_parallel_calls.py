"""One stock channel that many threads call at once: no call is refused by the transport."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from plain_requests import STATIC_RESHAPE, build_static_request
from server_processes import run_server

CALLERS, CALLS_EACH = 64, 50


@pytest.mark.parametrize("engine", ["event", "polling"])
def test_a_channel_with_64_callers_loses_no_call(serving: str, engine: str):
    request = build_static_request()
    with (
        run_server("--serving", serving, "--engine", engine) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(STATIC_RESHAPE)

        def count_ends() -> Counter[str]:
            ends = (call.future(request, timeout=60).exception() for _ in range(CALLS_EACH))
            return Counter("OK" if end is None else str(end) for end in ends)

        with ThreadPoolExecutor(CALLERS) as pool:
            counts = [pool.submit(count_ends) for _ in range(CALLERS)]
            assert sum((each.result() for each in counts), Counter()) == {"OK": CALLERS * CALLS_EACH}
