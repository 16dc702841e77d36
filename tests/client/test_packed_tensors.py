"""A packed tensor is a type, a shape and bytes of any buffer; both clients accept it for every transfer."""

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


@pytest.fixture(params=CALLERS)
def client(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[AnyClient]:
    with open_client(request.param, server.address, chunk_bytes=7) as client:
        yield client


def make_tensor(data_type: DataType, dims: tuple[int, ...]) -> PackedTensor:
    """Returns a tensor of random bytes, including the unused bits."""
    size = data_type.count_bytes(int(np.prod(dims)))
    return PackedTensor(data_type, dims, np.random.default_rng(size).bytes(size))


@pytest.mark.parametrize("holder", [bytes, bytearray, memoryview, lambda raw: np.frombuffer(raw, np.uint8)])
def test_packed_tensor_does_not_copy_its_buffer(holder: type[bytes]):
    data = holder(b"\x21\x43\x65")
    tensor = PackedTensor(DataType.U4, [2, 3], data)
    assert (tensor.dims, bytes(tensor.data), tensor.data.readonly) == ((2, 3), b"\x21\x43\x65", True)
    assert np.shares_memory(np.frombuffer(tensor.data, np.uint8), np.frombuffer(data, np.uint8))


def test_packed_tensors_compare_by_type_shape_and_bytes():
    tensor = PackedTensor(DataType.U4, [2], b"\x21")
    assert tensor == PackedTensor(DataType.U4, (2,), bytearray(b"\x21"))
    assert tensor != PackedTensor(DataType.I4, [2], b"\x21")
    assert tensor != PackedTensor(DataType.U4, [1, 2], b"\x21")
    assert tensor != PackedTensor(DataType.U4, [2], b"\x20")


@pytest.mark.parametrize("empty", [b"", np.empty(0, np.uint8)])
def test_packed_tensor_may_be_empty(empty: bytes):
    assert PackedTensor(DataType.U1, [0, 3], empty).data.nbytes == 0


def test_packed_tensor_rejects_dims_outside_their_range():
    for dims in ([-1], [2**63]):
        with pytest.raises(InvalidRequestError, match=r"^dims\[0\] is \S+; a dim must be from 0 to 2\^63 - 1$"):
            PackedTensor(DataType.U4, dims, b"")


@pytest.mark.parametrize("data_type", [DataType.U8, DataType.F32, DataType.F8E8M0], ids=str)
def test_packed_tensor_rejects_data_types_of_whole_bytes(data_type: DataType):
    with pytest.raises(ValueError, match="is not a packed type: pass an array"):
        PackedTensor(data_type, [1], bytes(4))


@pytest.mark.parametrize("way", get_args(Way))
def test_reshape_of_a_packed_tensor_keeps_every_bit(client: AnyClient, way: str):
    for data_type in DataType:
        for dims in ((3, 5), (8, 16), (0, 4)) if data_type.is_packed else ():
            tensor = make_tensor(data_type, dims)
            assert client.reshape(tensor, dims[::-1], transfer=way) == PackedTensor(data_type, dims[::-1], tensor.data)


def test_progress_of_a_packed_tensor_counts_packed_bytes(client: AnyClient):
    seen: list[tuple[int, int]] = []
    client.reshape(make_tensor(DataType.U3, (40,)), [-1], transfer="stream", progress=lambda *at: seen.append(at))
    assert seen[-1] == (15, 15)


def test_invalid_packed_tensor_is_rejected_before_sending(client: AnyClient):
    for size in (0, 1, 3):
        with pytest.raises(InvalidRequestError) as caught:
            client.reshape(PackedTensor(DataType.U3, [5], bytes(size)), [-1])
        assert (caught.value.reason, caught.value.field) == (Reason.DATA_SIZE_MISMATCH, "data.data")
        assert caught.value.metadata == {"have": str(size), "want": "2"}
    with pytest.raises(InvalidRequestError) as caught:  # the rules are checked before the number of bytes
        client.reshape(PackedTensor(DataType.NF4, [5], b""), [2, -1])
    assert caught.value.reason == Reason.NOT_DIVISIBLE
    with pytest.raises(LimitError):
        client.reshape(make_tensor(DataType.U1, (1,) * 65), [-1])


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_packed_tensor_can_be_pickled_and_copied(protocol: int):
    tensor = PackedTensor(DataType.U4, [2, 3], bytearray(b"\x21\x43\x65"))
    twin = pickle.loads(pickle.dumps(tensor, protocol))
    assert (twin, twin.data.readonly) == (tensor, True)
    assert copy.deepcopy(tensor) == copy.copy(tensor) == tensor


def test_packed_tensor_supports_out_of_band_pickling():
    tensor, buffers = make_tensor(DataType.U4, (2, 512)), list[pickle.PickleBuffer]()
    pickled = pickle.dumps(tensor, 5, buffer_callback=buffers.append)
    assert len(pickled) < len(tensor.data)
    assert pickle.loads(pickled, buffers=buffers) == tensor
