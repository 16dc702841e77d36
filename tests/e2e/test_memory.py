"""What a server takes for a tensor that is larger than its memory should be."""

import numpy as np

from both_clients import CLIENTS, open_client
from meters import read_memory
from server_processes import run_server

MIB = 1 << 20
SIZE = 128 * MIB


def test_a_stream_of_128_mib_takes_a_few(serving: str):
    array = np.arange(SIZE // 8)
    out = np.empty_like(array)
    with run_server("--serving", serving) as server:
        idle = read_memory(server.process.pid, "VmRSS")
        for kind in CLIENTS:
            out[:] = 0
            with open_client(kind, server.address) as client:
                client.reshape(array, [-1], transfer="stream", out=out)
            np.testing.assert_array_equal(out, array)
        assert read_memory(server.process.pid, "VmHWM") - idle < 64 * MIB
