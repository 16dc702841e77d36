"""A packed tensor is a type, a shape and bytes, whatever holds these; through both clients, in every way."""

import copy
import pickle
from collections.abc import Iterator
from typing import get_args

import numpy as np
import pytest

from both_clients import CALLERS, AnyClient, open_client
from server_processes import ServerProcess
from tensor_reshape.client import DataType, InvalidRequestError, LimitError, PackedTensor, Reason
from tensor_reshape.client.transfers import Way

PACKED = [data_type for data_type in DataType if data_type.is_packed]
CHUNK_BYTES = 7


@pytest.fixture(params=CALLERS)
def client(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[AnyClient]:
    with open_client(request.param, server.address, chunk_bytes=CHUNK_BYTES) as client:
        yield client


def make_tensor(data_type: DataType, dims: tuple[int, ...]) -> PackedTensor:
    """Returns a tensor of random bytes, the spare bits included."""
    size = data_type.count_bytes(int(np.prod(dims)))
    return PackedTensor(data_type, dims, np.random.default_rng(size).bytes(size))


@pytest.mark.parametrize("holder", [bytes, bytearray, memoryview, lambda raw: np.frombuffer(raw, np.uint8)])
def test_any_buffer_holds_the_bytes_and_none_is_copied(holder: type[bytes]):
    data = holder(b"\x21\x43\x65")
    tensor = PackedTensor(DataType.U4, [2, 3], data)
    assert (tensor.dims, bytes(tensor.data), tensor.data.readonly) == ((2, 3), b"\x21\x43\x65", True)
    assert np.shares_memory(np.frombuffer(tensor.data, np.uint8), np.frombuffer(data, np.uint8))


def test_tensors_are_equal_where_type_shape_and_bytes_are():
    tensor = PackedTensor(DataType.U4, [2], b"\x21")
    assert tensor == PackedTensor(DataType.U4, (2,), bytearray(b"\x21"))
    assert tensor != PackedTensor(DataType.I4, [2], b"\x21")
    assert tensor != PackedTensor(DataType.U4, [1, 2], b"\x21")
    assert tensor != PackedTensor(DataType.U4, [2], b"\x20")


@pytest.mark.parametrize("empty", [b"", np.empty(0, np.uint8)])
def test_a_tensor_may_be_empty(empty: bytes):
    assert PackedTensor(DataType.U1, [0, 3], empty).data.nbytes == 0


@pytest.mark.parametrize("data_type", [DataType.U8, DataType.F32, DataType.F8E8M0], ids=str)
def test_elements_of_whole_bytes_go_in_an_array(data_type: DataType):
    with pytest.raises(ValueError, match="is not packed: pass an array"):
        PackedTensor(data_type, [1], bytes(4))


@pytest.mark.parametrize("data_type", PACKED, ids=str)
@pytest.mark.parametrize("way", get_args(Way))
def test_every_bit_comes_back_under_the_new_shape(client: AnyClient, data_type: DataType, way: Way):
    for dims in ((3, 5), (8, 16), (0, 4)):
        tensor = make_tensor(data_type, dims)
        output = client.reshape(tensor, dims[::-1], transfer=way)
        assert output == PackedTensor(data_type, dims[::-1], tensor.data)


def test_progress_is_told_in_the_bytes_that_travel(client: AnyClient):
    seen: list[tuple[int, int]] = []
    client.reshape(make_tensor(DataType.U3, (40,)), [-1], transfer="stream", progress=lambda *at: seen.append(at))
    assert seen[-1] == (15, 15)


@pytest.mark.parametrize("size", [0, 2, 4])
def test_bytes_that_are_not_those_of_the_shape_are_refused_here(client: AnyClient, size: int):
    with pytest.raises(InvalidRequestError) as caught:
        client.reshape(PackedTensor(DataType.U3, [5], bytes(size)), [-1])
    assert (caught.value.reason, caught.value.field) == (Reason.DATA_SIZE_MISMATCH, "data.data")
    assert caught.value.metadata == {"have": str(size), "want": "3"}


def test_the_rules_refuse_before_the_bytes_are_counted(client: AnyClient):
    with pytest.raises(InvalidRequestError) as caught:
        client.reshape(PackedTensor(DataType.NF4, [5], b""), [2, -1])
    assert caught.value.reason == Reason.NOT_DIVISIBLE


def test_an_array_to_land_in_does_not_go_with_it(client: AnyClient):
    with pytest.raises(ValueError, match=r"out, .* not go with a PackedTensor"):
        client.reshape(make_tensor(DataType.U6, (4,)), [-1], out=np.empty(3, np.uint8))


def test_a_rank_above_the_limit_is_refused(client: AnyClient):
    with pytest.raises(LimitError):
        client.reshape(make_tensor(DataType.U1, (1,) * 65), [-1])


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_packed_tensor_survives_pickling(protocol: int):
    tensor = PackedTensor(DataType.U4, [2, 3], bytearray(b"\x21\x43\x65"))
    twin = pickle.loads(pickle.dumps(tensor, protocol))
    assert (twin, twin.data.readonly) == (tensor, True)


def test_the_bytes_of_a_packed_tensor_need_no_copy_to_travel():
    tensor, buffers = make_tensor(DataType.U4, (2, 512)), list[pickle.PickleBuffer]()
    pickled = pickle.dumps(tensor, 5, buffer_callback=buffers.append)
    assert len(pickled) < len(tensor.data)
    assert pickle.loads(pickled, buffers=buffers) == tensor


def test_a_packed_tensor_can_be_copied():
    tensor = PackedTensor(DataType.U4, [2, 3], b"\x21\x43\x65")
    assert copy.deepcopy(tensor) == copy.copy(tensor) == tensor
