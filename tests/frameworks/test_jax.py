"""Arrays of jax: all bits survive a round trip, including those of packed types and of read-only memory."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from both_clients import AnyClient
from hypothesis_profiles import examples
from strategies import make_packable
from tensor_reshape.client import DataType
from tensor_reshape.client.arrays import find_framework, read_array
from tensor_reshape.client.requests import Arguments, plan_reshape
from tensor_reshape.client.transfers import Delivery
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.wire.arrays import DTYPES, Array, pack, view_bytes

jax = pytest.importorskip("jax", reason="jax is not installed: scripts/verify frameworks installs it")

WAYS = ["inline", "stream", "view"]
SIX = np.arange(6, dtype=np.float32)
SHARDED = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tensor_reshape.client.arrays import read_array
shards = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), PartitionSpec("x"))
print(read_array(jax.device_put(jax.numpy.arange(8), shards), "data").tolist())
"""


@pytest.fixture(scope="module", autouse=True)
def wide() -> Iterator[None]:
    """Enables 64-bit types in jax, as their users do."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("data_type", DTYPES, ids=str)
@given(raw=st.binary(min_size=48, max_size=48))
@example(raw=b"\x01\x7f" * 24)
@example(raw=b"\x01\x00\x80\x7f" * 12)
@examples(6)
def test_jax_round_trip_keeps_every_bit_of_every_type(any_client: AnyClient, data_type: DataType, way: str, raw: bytes):
    numbers = np.frombuffer(raw, np.uint8)
    given_array = make_packable(data_type, numbers) if data_type.is_packed else numbers.view(DTYPES[data_type])
    array = jax.device_put(given_array)
    output: Any = any_client.reshape(array, [2, -1], transfer=way, like=array)
    assert (type(output), output.dtype, output.shape) == (type(array), array.dtype, (2, array.size // 2))
    # Packed: in a byte with one element of four bits, the upper bits of jax and of ml_dtypes differ.
    packed = [pack(data_type, view_bytes(np.asarray(each).ravel())).tobytes() for each in (output, array, given_array)]
    assert packed[0] == packed[1] == packed[2]


def test_jax_and_pyarrow_inputs_are_not_copied():
    array = jax.numpy.asarray(SIX).astype(jax.numpy.bfloat16)
    assert read_array(array, "data").ctypes.data == array.unsafe_buffer_pointer()


@pytest.mark.parametrize("dtype", [DTYPES[DataType.F32], DTYPES[DataType.BF16]], ids=str)
def test_jax_output_of_a_stream_is_not_copied(dtype: np.dtype[np.generic]):
    asked = Arguments(RESHAPE, np.ones(4096, dtype), [-1], special_zero=False, expected_shape=None)
    delivery = Delivery(plan_reshape(asked), {"like": jax.numpy}, 0)
    landed = delivery.make_output()
    assert delivery.hand_over(landed).unsafe_buffer_pointer() == landed.ctypes.data


def freeze(array: Array) -> Array:
    """Returns a view that cannot write to the memory of the array."""
    view = array.view()
    view.flags.writeable = False
    return view


@pytest.mark.parametrize(
    "view",
    [lambda memory: memory, freeze, lambda memory: np.asarray(memoryview(memory).toreadonly())],
    ids=["the array", "a view that is read-only", "a buffer that is read-only"],
)
def test_jax_output_does_not_share_writable_memory(any_client: AnyClient, view: Callable[[Array], Array]):
    memory = np.empty(4096 + 64, np.uint8)
    aligned = memory[-memory.ctypes.data % 64 :][:4096]  # jax copies arrays that are not aligned
    aligned[:] = 0
    output: Any = any_client.reshape(view(aligned), [64, 64], transfer="view", like=jax.numpy)
    aligned[:] = 1
    assert not output.any()


def test_jax_output_is_not_copied(any_client: AnyClient):
    array = jax.numpy.ones(4096)
    output: Any = any_client.reshape(array, [64, 64], transfer="view", like=array)
    assert output.unsafe_buffer_pointer() == array.unsafe_buffer_pointer()


@pytest.mark.parametrize(
    "how", [{"writable": True}, {"transfer": "view", "copy": "never"}], ids=["writable", "no copy"]
)
def test_jax_output_rejects_the_option_copy_never(any_client: AnyClient, how: dict[str, object]):
    with pytest.raises(ValueError, match="jax"):
        any_client.reshape(SIX, [-1], like=jax.numpy, **how)


def test_data_type_that_jax_narrows_is_rejected_before_sending():
    jax.config.update("jax_enable_x64", False)
    try:
        for data_type in (DataType.F64, DataType.I64, DataType.U64):
            with pytest.raises(TypeError, match="jax_enable_x64"):
                find_framework(jax.numpy, data_type)
    finally:
        jax.config.update("jax_enable_x64", True)


def test_traced_jax_value_is_rejected(any_client: AnyClient):
    with pytest.raises(TypeError, match="traced array"):
        jax.jit(lambda array: any_client.reshape(array, [-1], like=jax))(SIX)


def test_sharded_jax_array_is_gathered_before_sending():
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", SHARDED], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(list(range(8))), done.stderr


@pytest.mark.parametrize("way", WAYS)
def test_torch_input_may_have_jax_output_and_vice_versa(any_client: AnyClient, way: str):
    torch = pytest.importorskip("torch", reason="torch is not installed: scripts/verify frameworks installs it")
    tensor = torch.arange(6).to(torch.bfloat16)
    array: Any = any_client.reshape(tensor, [2, 3], transfer=way, like=jax.numpy)
    back: Any = any_client.reshape(array, [6], transfer=way, like=torch)
    assert (array.dtype, torch.equal(back, tensor)) == (jax.numpy.bfloat16, True)
