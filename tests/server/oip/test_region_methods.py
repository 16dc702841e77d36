"""Triton's methods of shared memory, as bytes to bytes."""

from pathlib import Path

import pytest

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.server.oip.messages import InferMessage, find_class, find_path
from tensor_reshape.server.oip.region_methods import build_region_methods
from tensor_reshape.server.oip.shared_memory import Region, SharedMemory
from tensor_reshape.server.service.methods import Method

REGION = Region("/seen", 1, 2)


@pytest.fixture
def memory(tmp_path: Path) -> SharedMemory:
    (tmp_path / "seen").write_bytes(bytes(8))
    return SharedMemory(tmp_path)


@pytest.fixture
def methods(memory: SharedMemory) -> dict[str, Method]:
    """The methods by their names."""
    return {method.name: method for method in build_region_methods(memory)}


def ask(methods: dict[str, Method], name: str, /, **fields: object) -> InferMessage:
    request = find_class(f"{name}Request")(**fields)
    answer = methods[find_path(name)].answer(request.SerializeToString(), lambda: False)
    return find_class(f"{name}Response").FromString(answer)


def test_what_is_registered_is_told_of(methods: dict[str, Method], memory: SharedMemory):
    ask(methods, "SystemSharedMemoryRegister", name="one", **REGION._asdict())
    assert memory.list_regions("") == {"one": REGION}
    told = ask(methods, "SystemSharedMemoryStatus", name="one").regions["one"]
    assert (told.name, told.key, told.offset, told.byte_size) == ("one", *REGION)


def test_what_is_unregistered_is_forgotten(methods: dict[str, Method], memory: SharedMemory):
    memory.register("one", REGION)
    memory.register("two", REGION)
    ask(methods, "SystemSharedMemoryUnregister", name="one")
    assert list(memory.list_regions("")) == ["two"]
    ask(methods, "SystemSharedMemoryUnregister")
    assert memory.list_regions("") == {}


def test_none_is_answered_on_the_thread_that_receives_calls(methods: dict[str, Method]):
    assert [method.answer_light(b"") for method in methods.values()] == [None] * 3


def test_no_long_message_is_read(methods: dict[str, Method]):
    for method in methods.values():
        with pytest.raises(LimitError) as caught:
            method.answer(bytes(MAX_HEADER_BYTES + 1), lambda: False)
        assert caught.value.reason == Reason.HEAD_TOO_LARGE


def test_what_is_no_message_is_refused(methods: dict[str, Method]):
    for method in methods.values():
        with pytest.raises(InvalidRequestError) as caught:
            method.answer(b"\xff", lambda: False)
        assert caught.value.reason == Reason.MESSAGE_MALFORMED
