"""Triton's methods of shared memory, as bytes to bytes."""

from pathlib import Path

import pytest

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.server.oip.messages import InferMessage, find_class, find_path
from tensor_reshape.server.oip.region_methods import build_region_methods
from tensor_reshape.server.oip.shared_memory import Region, SharedMemory

REGION = Region("/seen", 1, 2)


@pytest.fixture
def memory(tmp_path: Path) -> SharedMemory:
    (tmp_path / "seen").write_bytes(bytes(8))
    return SharedMemory(tmp_path)


def ask(memory: SharedMemory, name: str, /, **fields: object) -> InferMessage:
    methods = {method.name: method for method in build_region_methods(memory)}
    request = find_class(f"{name}Request")(**fields)
    answer = methods[find_path(name)].answer(request.SerializeToString(), lambda: False)
    return find_class(f"{name}Response").FromString(answer)


def test_region_is_listed_until_it_is_unregistered(memory: SharedMemory):
    ask(memory, "SystemSharedMemoryRegister", name="one", **REGION._asdict())
    assert memory.list_regions("") == {"one": REGION}
    told = ask(memory, "SystemSharedMemoryStatus", name="one").regions["one"]
    assert (told.name, told.key, told.offset, told.byte_size) == ("one", *REGION)
    memory.register("two", REGION)
    ask(memory, "SystemSharedMemoryUnregister", name="one")
    assert list(memory.list_regions("")) == ["two"]
    ask(memory, "SystemSharedMemoryUnregister")
    assert memory.list_regions("") == {}


def test_each_method_is_for_a_thread_and_refuses_long_and_malformed_messages(memory: SharedMemory):
    for method in build_region_methods(memory):
        assert method.answer_light(b"") is None
        with pytest.raises(LimitError) as long:
            method.answer(bytes(MAX_HEADER_BYTES + 1), lambda: False)
        with pytest.raises(InvalidRequestError) as malformed:
            method.answer(b"\xff", lambda: False)
        assert (long.value.reason, malformed.value.reason) == (Reason.HEAD_TOO_LARGE, Reason.MESSAGE_MALFORMED)
