"""Triton's system shared memory over a real socket: inputs and outputs by region, whatever becomes of their files."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from inference_requests import SIX, build_request, send_request
from remote_refusals import catch_remote, describe
from server_processes import ServerProcess
from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.oip.messages import InferMessage, find_class

SIZE = 1 << 20
Call = Callable[..., InferMessage]


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("regions")


@pytest.fixture(scope="module")
def sharing(serving: str, start_for_file: Callable[..., ServerProcess], directory: Path) -> ServerProcess:
    """A server that shares that directory with callers."""
    return start_for_file("--serving", serving, "--shared-memory-dir", str(directory))


@pytest.fixture
def call(sharing: ServerProcess) -> Iterator[Call]:
    """Calls a method; all that is registered is forgotten at the end."""
    with grpc.insecure_channel(sharing.address) as channel:
        yield make_call(channel)
        make_call(channel)("SystemSharedMemoryUnregister")


def make_call(channel: grpc.Channel) -> Call:
    def call(method: str, request: InferMessage | None = None, **fields: object) -> InferMessage:
        asked = request if request is not None else find_class(f"{method}Request")(**fields)
        return send_request(channel, method, asked)

    return call


def name_region(tensor: InferMessage, name: str, byte_size: int, offset: int = 0) -> None:
    tensor.parameters["shared_memory_region"].string_param = name
    tensor.parameters["shared_memory_byte_size"].int64_param = byte_size
    tensor.parameters["shared_memory_offset"].int64_param = offset


def build_shared(byte_size: int, *, offset: int = 0, **fields: Any) -> InferMessage:
    """Returns a request whose data is in the region `in`."""
    request = build_request(**fields)
    request.ClearField("raw_input_contents")
    name_region(request.inputs[0], "in", byte_size, offset)
    return request


def catch_reason(ask: Callable[[], object]) -> str:
    return describe(catch_remote(ask))[1]


def test_an_input_is_read_from_its_region(call: Call, directory: Path):
    (directory / "file").write_bytes(b"before" + SIX)
    call("SystemSharedMemoryRegister", name="in", key="/file", offset=4, byte_size=2 + len(SIX))
    response = call("ModelInfer", build_shared(len(SIX), offset=2))
    assert (list(response.outputs[0].shape), list(response.raw_output_contents)) == ([3, 2], [SIX])


def test_an_output_is_written_to_its_region_and_not_sent(call: Call, directory: Path):
    (directory / "file").write_bytes(bytes(64))
    call("SystemSharedMemoryRegister", name="out", key="file", byte_size=64)
    request = build_request(outputs=[{"name": "output"}])
    name_region(request.outputs[0], "out", 30, 8)
    response = call("ModelInfer", request)
    assert (directory / "file").read_bytes() == bytes(8) + SIX + bytes(64 - 8 - len(SIX))
    (output,) = response.outputs
    told = {key: getattr(value, value.WhichOneof("parameter_choice")) for key, value in output.parameters.items()}
    assert (list(output.shape), list(response.raw_output_contents)) == ([3, 2], [b""])
    assert told == {
        "shared_memory_region": "out",
        "shared_memory_offset": 8,
        "shared_memory_byte_size": len(SIX),
    }


def test_regions_are_told_of_until_they_are_unregistered(call: Call, directory: Path):
    (directory / "file").write_bytes(bytes(64))
    for index in range(2):
        call("SystemSharedMemoryRegister", name=f"region {index}", key="/file", offset=index, byte_size=10)
    told = call("SystemSharedMemoryStatus").regions
    assert {name: (region.name, region.key, region.offset, region.byte_size) for name, region in told.items()} == {
        "region 0": ("region 0", "/file", 0, 10),
        "region 1": ("region 1", "/file", 1, 10),
    }
    call("SystemSharedMemoryUnregister", name="region 0")
    assert list(call("SystemSharedMemoryStatus").regions) == ["region 1"]
    assert catch_reason(lambda: call("SystemSharedMemoryStatus", name="region 0")) == Reason.REGION_UNKNOWN


@pytest.mark.parametrize("key", ["../file", "/etc/passwd", "link", "pipe", "missing"])
def test_what_is_no_plain_file_of_the_directory_is_not_registered(call: Call, directory: Path, key: str):
    if not (directory / "pipe").exists():
        os.mkfifo(directory / "pipe")
        (directory / "link").symlink_to("/etc/passwd")
    refused = catch_reason(lambda: call("SystemSharedMemoryRegister", name="in", key=key, byte_size=1))
    assert refused in {Reason.REGION_INVALID, Reason.REGION_UNUSABLE}


def test_what_is_not_registered_is_neither_read_nor_written(call: Call):
    assert catch_reason(lambda: call("ModelInfer", build_shared(len(SIX)))) == Reason.REGION_UNKNOWN


def test_no_tensor_in_shared_memory_is_larger_than_a_message(call: Call, directory: Path):
    with (directory / "large").open("wb") as file:
        file.truncate(1 << 40)  # of which nothing is there but its length
    call("SystemSharedMemoryRegister", name="in", key="/large", byte_size=1 << 40)
    assert catch_reason(lambda: call("ModelInfer", build_shared(1 << 39))) == Reason.TENSOR_TOO_LARGE


def test_files_that_are_truncated_while_they_are_read_harm_nobody(call: Call, sharing: ServerProcess, directory: Path):
    file = directory / "shaken"
    file.write_bytes(bytes(SIZE))
    call("SystemSharedMemoryRegister", name="in", key="/shaken", byte_size=SIZE)
    request = build_shared(SIZE, shape=[SIZE], datatype="UINT8", target="[2,-1]")
    over = threading.Event()

    def shake() -> None:
        while not over.is_set():
            os.truncate(file, 100)
            os.truncate(file, SIZE)

    def ask(_: int) -> bool:
        try:
            return len(call("ModelInfer", request).raw_output_contents[0]) == SIZE
        except grpc.RpcError as error:
            status: Any = error
            return status.code() is grpc.StatusCode.INVALID_ARGUMENT

    with ThreadPoolExecutor(3) as threads:
        threads.submit(shake)
        outcomes = list(threads.map(ask, range(100)))
        over.set()
    assert (all(outcomes), sharing.process.poll()) == (True, None)


@pytest.mark.parametrize("method", ["Register", "Unregister", "Status"])
def test_a_server_without_a_directory_shares_no_memory(channel: grpc.Channel, method: str):
    assert catch_reason(lambda: make_call(channel)(f"SystemSharedMemory{method}")) == Reason.SHARED_MEMORY_DISABLED
