"""Tensors of torch: all bits survive a round trip without copies, and unsupported tensors are rejected with advice."""

import warnings
from collections.abc import Callable
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from both_clients import AnyClient
from hypothesis_profiles import examples
from tensor_reshape.client import Client, DataType, InvalidRequestError, Reason
from tensor_reshape.client.arrays import find_framework, read_array
from tensor_reshape.wire.arrays import DTYPES

torch = pytest.importorskip("torch", reason="torch is not installed: scripts/verify frameworks installs it")

Torch: TypeAlias = Any
"""The torch types, which exist only if torch is installed."""

WAYS = ["inline", "stream", "view"]
NAMES = [data_type.numpy_name for data_type in DTYPES if not data_type.is_packed]
SIX = torch.arange(6, dtype=torch.float32)


def make_tensor(name: str, raw: bytes) -> Torch:
    """Returns a tensor with these bytes in its own memory."""
    return torch.tensor(list(raw), dtype=torch.uint8).view(getattr(torch, name))


def list_bytes(tensor: Torch) -> list[int]:
    numbers: list[int] = tensor.contiguous().reshape(-1).view(torch.uint8).tolist()
    return numbers


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
@given(raw=st.binary(min_size=48, max_size=48))
@example(raw=b"\x01\x7f" * 24)  # NaNs of each float type, including signalling NaNs
@example(raw=b"\x01\x00\x80\x7f" * 12)
@example(raw=b"\xff" * 48)
@examples(6)
def test_torch_round_trip_keeps_every_bit_of_every_type(any_client: AnyClient, name: str, way: str, raw: bytes):
    tensor = make_tensor(name, raw)
    output: Torch = any_client.reshape(tensor, [2, -1], transfer=way, like=tensor)
    assert (output.dtype, tuple(output.shape)) == (tensor.dtype, (2, tensor.numel() // 2))
    assert list_bytes(output) == list(raw)


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize(
    "change",
    [
        lambda tensor: tensor,
        lambda tensor: tensor.transpose(0, 2),
        lambda tensor: tensor[:, ::2],
        lambda tensor: tensor[1:, 0],
        lambda tensor: tensor[0, 0, 0],
        lambda tensor: tensor[:, :1].expand(2, 5, 4),
        lambda tensor: tensor[:0],
    ],
    ids=["dense", "transposed", "strided", "offset", "scalar", "expanded", "empty"],
)
@pytest.mark.parametrize("way", WAYS)
def test_torch_input_with_strides_is_not_copied(
    any_client: AnyClient, name: str, change: Callable[[Torch], Torch], way: str
):
    tensor = change(torch.arange(24, dtype=torch.float32).to(getattr(torch, name)).reshape(2, 3, 4))
    read = read_array(tensor, "data")
    strides = tuple(stride * tensor.itemsize for stride in tensor.stride())
    assert read.shape == tuple(tensor.shape)
    assert (read.strides, read.ctypes.data) == (strides, tensor.data_ptr()) or not tensor.numel()
    output: Torch = any_client.reshape(tensor, [-1], transfer=way, like=torch)
    assert torch.equal(output.float(), tensor.reshape(-1).float())


@pytest.mark.parametrize("way", WAYS)
def test_torch_input_without_like_returns_numpy(any_client: AnyClient, way: str):
    output = any_client.reshape(SIX.bfloat16(), [2, 3], transfer=way)
    assert (type(output), output.dtype, output.flags.writeable) == (np.ndarray, DTYPES[DataType.BF16], False)


@pytest.mark.parametrize("way", WAYS)
def test_torch_output_never_shares_read_only_memory(any_client: AnyClient, way: str):
    for name, is_read_only in product(("float32", "bfloat16"), (False, True)):
        array = np.asarray(read_array(SIX.to(getattr(torch, name)), "data")).copy()
        array.flags.writeable = not is_read_only
        before = array.tobytes()
        # torch would warn, and a warning is an error in the tests
        output: Torch = any_client.reshape(array, [2, 3], transfer=way, like=torch)
        output.zero_()
        assert (array.tobytes() == before) == (way != "view" or is_read_only), (name, is_read_only)


def test_view_transfer_shares_the_memory_of_a_torch_tensor(any_client: AnyClient):
    for tensor in (SIX, SIX.bfloat16()):
        output: Torch = any_client.reshape(tensor, [2, 3], transfer="view", copy="never", like=tensor)
        assert output.data_ptr() == tensor.data_ptr()


@pytest.mark.parametrize("way", ["inline", "stream"])
def test_torch_tensor_can_be_passed_as_out(any_client: AnyClient, way: str):
    for name in NAMES:
        tensor = make_tensor(name, bytes(range(48)))
        out = torch.zeros(tensor.numel(), dtype=torch.uint8).to(tensor.dtype)
        assert any_client.reshape(tensor, [-1], transfer=way, out=out) is out, name
        assert list_bytes(out) == list(range(48)), name


@pytest.mark.parametrize("method", ["static_reshape", "dynamic_reshape", "reshape"])
def test_every_operation_accepts_an_integer_torch_tensor_as_target(any_client: AnyClient, method: str):
    reshape = getattr(any_client, method)
    assert reshape(SIX, torch.tensor([2, -1], dtype=torch.int32), like=SIX).shape == (2, 3)
    assert reshape(SIX, torch.zeros(3, 2).shape, expected_shape=torch.zeros(3, 2).shape).shape == (3, 2)
    with pytest.raises((TypeError, ValueError)):
        reshape(SIX, torch.tensor([2.0, 3.0]))


@pytest.mark.parametrize(
    ("make", "instead"),
    [
        (lambda: SIX.clone().requires_grad_(), r"tensor\.detach\(\)"),
        (lambda: torch.nn.Parameter(SIX.clone()), r"tensor\.detach\(\)"),
        (lambda: SIX.clone().requires_grad_().bfloat16(), r"tensor\.detach\(\)"),
        (lambda: torch.zeros(2, 3).to_sparse(), r"tensor\.to_dense\(\)"),
        (lambda: torch.zeros(2, 3).to_mkldnn(), r"tensor\.to_dense\(\)"),
        (lambda: torch.zeros(6, device="meta"), "a tensor with data"),
        (lambda: torch.view_as_complex(SIX.reshape(3, 2)).conj().imag, r"tensor\.resolve_neg\(\)"),
        (lambda: torch.view_as_complex(SIX.reshape(3, 2)).conj(), r"tensor\.resolve_conj\(\)"),
        (lambda: torch.quantize_per_tensor(SIX, 0.1, 0, torch.quint8), r"tensor\.int_repr\(\)"),
        (lambda: torch.nested.nested_tensor([SIX, SIX[:2]]), r"tensor\.unbind\(\)"),
        (lambda: [SIX, SIX], "stack"),
    ],
    ids=["grad", "parameter", "grad of bf16", "sparse", "mkldnn", "meta", "neg", "conj", "quantized", "nested", "list"],
)
def test_error_for_an_unusable_torch_tensor_suggests_a_replacement(make: Callable[[], Torch], instead: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch recommends other tensor types, which existing models do not use yet
        tensor = make()
    for field in ("data", "shape"):
        with pytest.raises(TypeError, match=rf"^{field} is a .*{instead}"):
            read_array(tensor, field)


def test_torch_tensor_without_readable_memory_is_rejected():
    with pytest.raises(TypeError, match=r"^data is a torch tensor whose elements cannot be read"):
        torch.vmap(lambda tensor: read_array(tensor, "data"))(torch.ones(2, 3))


def test_compiled_torch_function_can_call_the_client(any_client: AnyClient):
    reshape = torch.compiler.disable(lambda tensor: any_client.reshape(tensor, [-1], like=tensor))
    compiled = torch.compile(lambda tensor: reshape(tensor + 1) * 2, backend="eager")
    assert compiled(SIX).tolist() == [2, 4, 6, 8, 10, 12]


def test_unsupported_torch_type_is_rejected(any_client: AnyClient):
    for dtype in (torch.complex64, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz):
        with pytest.raises(InvalidRequestError) as caught:
            any_client.reshape(torch.zeros(2, dtype=dtype), [-1])
        assert caught.value.reason is Reason.DATA_TYPE_UNSUPPORTED, dtype


def test_data_type_missing_in_torch_is_rejected_before_a_call():
    with Client("localhost:1") as client:
        for data_type in filter(lambda each: each.is_packed, DTYPES):
            with pytest.raises(TypeError, match=f"torch has no type {data_type}"):
                client.reshape(np.zeros(2, DTYPES[data_type]), [-1], special_zero=False, like=torch)


@pytest.mark.parametrize(
    "like",
    [torch, SIX, torch.nn.Parameter(SIX.clone()), torch.nn.functional],
    ids=["module", "tensor", "subclass", "submodule"],
)
def test_like_option_accepts_the_torch_module_or_a_tensor(like: object):
    assert find_framework(like, DataType.F32).name == "torch"
