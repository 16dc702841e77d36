"""A tensor that no protobuf message could hold."""

import numpy as np

from server_processes import ServerProcess
from tensor_reshape.client import Client

FOUR_GIB = 2**32


def test_a_tensor_of_more_than_4_gib_goes_through_a_stream_and_keeps_its_elements(server: ServerProcess):
    array = np.zeros(FOUR_GIB + 2**21 + 6, np.uint8)
    marks = [0, 2**31 - 1, 2**31, FOUR_GIB - 1, FOUR_GIB, array.size - 1]
    array[marks] = [1, 2, 3, 4, 5, 6]
    output = np.ones((2, array.size // 2), np.uint8)

    with Client(server.address, timeout=100) as client:
        result = client.reshape(array, [2, -1], special_zero=False, out=output)

    assert result is output
    assert np.array_equal(output.reshape(-1), array)
