"""The numpy backend by itself."""

import subprocess
import sys

import numpy as np
import pytest

from plain_requests import build_request
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import Limits
from tensor_reshape.server.service.backend import reshape
from tensor_reshape.wire.tensors import TensorView

SIX = np.arange(6, dtype=np.uint8)
LIMITS = Limits()


def view(dims: list[int], strides: list[int] | None = None, payload: bytes = SIX.tobytes()) -> TensorView:
    return TensorView(DataType.U8, dims, strides, memoryview(payload))


def test_a_dense_tensor_keeps_its_very_bytes():
    data = view([2, 3])
    assert reshape(data, (6,), LIMITS).payload is data.payload


def test_a_strided_tensor_is_gathered_in_row_major_order():
    assert bytes(reshape(view([3, 2], [1, 3]), (6,), LIMITS).payload) == bytes([0, 3, 1, 4, 2, 5])


def test_the_output_is_dense():
    assert reshape(view([3, 2], [1, 3]), (2, 3), LIMITS).strides is None


def test_the_output_has_the_dims_that_the_rules_gave():
    assert reshape(view([2, 3]), (1, 6, 1), LIMITS).dims == (1, 6, 1)


def test_an_empty_tensor_takes_dims_that_numpy_would_not():
    assert reshape(view([0], payload=b""), (2**62, 4, 0), LIMITS).dims == (2**62, 4, 0)


def test_bytes_that_are_not_the_tensor_are_refused():
    with pytest.raises(InvalidRequestError) as caught:
        reshape(view([7]), (7,), LIMITS)
    assert caught.value.reason == Reason.DATA_SIZE_MISMATCH


@pytest.mark.parametrize(("limit", "fits"), [(12, True), (11, False)])
def test_the_output_is_bounded_before_it_is_made(limit: int, fits: bool):
    broadcast = view([6, 2], [1, 0])
    if fits:
        assert reshape(broadcast, (12,), Limits(max_output_bytes=limit)).payload.nbytes == 12
    else:
        with pytest.raises(LimitError) as caught:
            reshape(broadcast, (12,), Limits(max_output_bytes=limit))
        assert caught.value.reason == Reason.OUTPUT_TOO_LARGE


STARTED = """
import sys
from tensor_reshape.server.config import Config
from tensor_reshape.server.runner import Runner

runner = Runner(Config(listen=("127.0.0.1:0",), http_listen="127.0.0.1:0"))
print(*sorted({"numpy", "ml_dtypes"} & sys.modules.keys()))
"""


def test_a_server_starts_without_numpy():
    run = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True)
    assert run.stdout == "\n"


LIGHT = """
import sys
from tensor_reshape.rules.limits import Limits
from tensor_reshape.rules.operations import STATIC_RESHAPE
from tensor_reshape.server.service.backend import import_gather
from tensor_reshape.server.service.methods import ReshapeService

service = ReshapeService(Limits())
for _ in range(2):
    print(*(service.execute_light(STATIC_RESHAPE, bytes.fromhex(request)) is not None for request in sys.argv[1:]))
    import_gather()
"""


def test_strides_are_for_a_thread_until_numpy_is_here():
    dense, transposed = (build_request((2, 3), bytes(24), strides=strides) for strides in ((), (1, 2)))
    command = [sys.executable, "-c", LIGHT, dense.hex(), transposed.hex()]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["True False", "True True"]
