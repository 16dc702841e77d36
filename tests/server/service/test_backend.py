"""The numpy backend without a server."""

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
from tests.oracles.plain_messages import describe_rejection

SIX = np.arange(6, dtype=np.uint8)
LIMITS = Limits()


def view(dims: list[int], strides: list[int] | None = None, payload: bytes = SIX.tobytes()) -> TensorView:
    return TensorView(DataType.U8, dims, strides, memoryview(payload))


def test_reshape_of_a_dense_tensor_does_not_copy_its_payload():
    data = view([2, 3])
    output = reshape(data, (1, 6, 1), LIMITS)
    assert output.payload is data.payload
    assert output.dims == (1, 6, 1)


def test_empty_tensor_may_have_dims_too_large_for_numpy():
    assert reshape(view([0], payload=b""), (2**62, 4, 0), LIMITS).dims == (2**62, 4, 0)


def test_tensor_payload_of_wrong_size_is_rejected():
    with pytest.raises(InvalidRequestError) as caught:
        reshape(view([7]), (7,), LIMITS)
    assert caught.value.reason == Reason.DATA_SIZE_MISMATCH


def test_output_above_the_size_limit_is_rejected():
    broadcast = view([6, 2], [1, 0])
    assert reshape(broadcast, (12,), Limits(max_output_bytes=12)).payload.nbytes == 12
    with pytest.raises(LimitError) as caught:
        reshape(broadcast, (12,), Limits(max_output_bytes=11))
    rejection = ("rejected", LimitError, Reason.OUTPUT_TOO_LARGE, "data", {"size": "12", "limit": "11"})
    assert describe_rejection(caught.value) == rejection


def run(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


GRPC = """
import sys
from tensor_reshape.server.config import Config
from tensor_reshape.server.runner import Runner

runner = Runner(Config(listen=("127.0.0.1:0",)))
"""
HTTP = """
import sys
from tensor_reshape.server.config import Config
from tensor_reshape.server.http.servers import HttpServer

server = HttpServer(Config(http_listen="127.0.0.1:0"))
"""


@pytest.mark.parametrize("start", [GRPC, HTTP], ids=["gRPC", "HTTP"])
def test_server_backend_does_not_import_numpy_at_start(start: str):
    assert run(f'{start}print(*sorted({{"numpy", "ml_dtypes"}} & sys.modules.keys()))') == "\n"


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


def test_strided_requests_run_on_a_thread_until_numpy_is_imported():
    dense, transposed = (build_request((2, 3), bytes(24), strides=strides) for strides in ((), (1, 2)))
    assert run(LIGHT, dense.hex(), transposed.hex()) == "True False\nTrue True\n"
