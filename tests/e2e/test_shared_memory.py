"""Triton's system shared memory over a real socket: inputs and outputs by region."""

from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from inference_requests import SIX, build_request, send_request
from remote_rejections import catch_remote, describe
from server_processes import ServerProcess
from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.oip.messages import InferMessage, find_class

Call = Callable[..., InferMessage]


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("regions")


@pytest.fixture(scope="module")
def sharing(start_for_file: Callable[..., ServerProcess], directory: Path) -> ServerProcess:
    """A server with this directory as shared memory."""
    return start_for_file("--shared-memory-dir", str(directory))


@pytest.fixture
def call(sharing: ServerProcess) -> Iterator[Call]:
    """A function that calls a method. All regions are unregistered at the end."""
    with grpc.insecure_channel(sharing.address) as channel:

        def call(method: str, request: InferMessage | None = None, **fields: object) -> InferMessage:
            asked = request if request is not None else find_class(f"{method}Request")(**fields)
            return send_request(channel, method, asked)

        yield call
        call("SystemSharedMemoryUnregister")


def name_region(tensor: InferMessage, name: str, byte_size: int, offset: int) -> None:
    tensor.parameters["shared_memory_region"].string_param = name
    tensor.parameters["shared_memory_byte_size"].int64_param = byte_size
    tensor.parameters["shared_memory_offset"].int64_param = offset


def build_shared(byte_size: int, offset: int = 0) -> InferMessage:
    """Returns a request whose data is in the region `in`."""
    request = build_request(outputs=[{"name": "output"}])
    request.ClearField("raw_input_contents")
    name_region(request.inputs[0], "in", byte_size, offset)
    return request


def catch_reason(ask: Callable[[], object]) -> str:
    return describe(catch_remote(ask))[1]


def test_inference_inputs_and_outputs_use_shared_memory_regions(call: Call, directory: Path):
    (directory / "file").write_bytes(b"before" + SIX)
    (directory / "out").write_bytes(bytes(64))
    call("SystemSharedMemoryRegister", name="in", key="/file", offset=4, byte_size=2 + len(SIX))
    call("SystemSharedMemoryRegister", name="out", key="out", byte_size=64)
    request = build_shared(len(SIX), offset=2)
    response = call("ModelInfer", request)
    assert (list(response.outputs[0].shape), list(response.raw_output_contents)) == ([3, 2], [SIX])
    name_region(request.outputs[0], "out", 30, 8)
    response = call("ModelInfer", request)
    assert (directory / "out").read_bytes() == bytes(8) + SIX + bytes(64 - 8 - len(SIX))
    (output,) = response.outputs
    assert (list(output.shape), list(response.raw_output_contents)) == ([3, 2], [b""])
    written = {key: getattr(value, value.WhichOneof("parameter_choice")) for key, value in output.parameters.items()}
    place = {"shared_memory_region": "out", "shared_memory_offset": 8, "shared_memory_byte_size": len(SIX)}
    assert written == place


def test_shared_memory_regions_are_listed_until_unregistered(call: Call, directory: Path):
    (directory / "file").write_bytes(bytes(64))
    for index in range(2):
        call("SystemSharedMemoryRegister", name=f"region {index}", key="/file", offset=index, byte_size=10)
    listed = call("SystemSharedMemoryStatus").regions
    assert {name: (region.name, region.key, region.offset, region.byte_size) for name, region in listed.items()} == {
        f"region {index}": (f"region {index}", "/file", index, 10) for index in range(2)
    }
    call("SystemSharedMemoryUnregister", name="region 0")
    assert list(call("SystemSharedMemoryStatus").regions) == ["region 1"]
    assert catch_reason(lambda: call("SystemSharedMemoryStatus", name="region 0")) == Reason.REGION_UNKNOWN
    assert catch_reason(lambda: call("ModelInfer", build_shared(len(SIX)))) == Reason.REGION_UNKNOWN
