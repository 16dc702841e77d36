"""The memory of outputs, which later outputs use again."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from server_processes import ServerProcess
from tensor_reshape.client import Client, keep_output_memory, output_memory
from tensor_reshape.client.output_memory import DEFAULT_KEPT_BYTES, take_memory
from tensor_reshape.wire.arrays import Array

KIB, MIB = 1024, 1024 * 1024


@pytest.fixture(autouse=True)
def _kept() -> Iterator[None]:
    """Begins with no kept memory."""
    gc.collect()  # outputs of other tests
    keep_output_memory(0)
    keep_output_memory(DEFAULT_KEPT_BYTES)
    yield
    keep_output_memory(0)
    keep_output_memory(DEFAULT_KEPT_BYTES)


def find_address(memory: Array) -> int:
    address: int = memory.ctypes.data
    return address


def count_kept() -> int:
    gc.collect()
    return sum(map(len, output_memory._unused))


def test_dropped_memory_is_used_again_for_a_similar_size():
    memory = take_memory(8 * MIB + 1)
    memory[:] = 7
    address = find_address(memory)
    del memory
    assert find_address(take_memory(9 * MIB)) == address
    assert find_address(take_memory(7 * MIB)) != address


def test_memory_is_not_used_again_while_a_view_exists():
    memory = take_memory(MIB)
    address = find_address(memory)
    view = memory[10:20].view(np.int16)
    del memory
    other = take_memory(MIB)
    assert find_address(other) != address
    del view
    assert find_address(take_memory(MIB)) == address


def test_two_outputs_never_share_memory():
    outputs = [take_memory(MIB) for _ in range(3)]
    del outputs[1]
    outputs += [take_memory(MIB) for _ in range(3)]
    assert len({find_address(output) for output in outputs}) == len(outputs)


@pytest.mark.parametrize("size", [0, 1, 256 * KIB - 1, 256 * KIB, MIB, 3 * MIB + 5])
def test_memory_has_the_requested_size_and_can_be_written(size: int):
    memory = take_memory(size)
    memory[:] = 1
    assert size <= memory.nbytes <= size + max(size // 8, 64 * KIB)


def test_kept_memory_is_bounded_and_the_oldest_is_dropped():
    keep_output_memory(2 * MIB)
    first, second, third = (take_memory(MIB) for _ in range(3))
    addresses = [find_address(memory) for memory in (first, second, third)]
    del first
    del second
    del third
    assert count_kept() == 2 * MIB
    assert [find_address(memory) for memory in (take_memory(MIB), take_memory(MIB))] == addresses[1:]


def test_memory_above_the_bound_is_not_kept_and_replaces_no_other():
    keep_output_memory(2 * MIB)
    small, large = take_memory(MIB), take_memory(3 * MIB)
    del small
    del large
    assert count_kept() == MIB


def test_taking_a_block_keeps_the_order_of_the_others():
    keep_output_memory(7 * MIB)
    first, second, third = take_memory(MIB), take_memory(2 * MIB), take_memory(3 * MIB)
    address = find_address(third)
    del first
    del second
    del third
    second = take_memory(2 * MIB)
    fourth = take_memory(2 * MIB)
    del fourth
    del second
    assert find_address(take_memory(3 * MIB)) == address


def test_limit_of_zero_drops_kept_memory_and_keeps_none():
    memory = take_memory(MIB)
    del memory
    assert count_kept() == MIB
    keep_output_memory(0)
    assert count_kept() == 0
    memory = take_memory(MIB)
    del memory
    assert count_kept() == 0


def test_small_memory_is_not_kept():
    memory = take_memory(256 * KIB - 1)
    del memory
    assert count_kept() == 0


def test_too_much_memory_raises_the_error_of_numpy():
    with pytest.raises((MemoryError, ValueError)):
        take_memory(2**62)
    with pytest.raises((MemoryError, ValueError)):
        take_memory(2**65)


def test_limit_must_be_an_integer_of_at_least_zero():
    with pytest.raises(TypeError, match="integer"):
        keep_output_memory(1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^max_bytes is -1; it must be at least 0$"):
        keep_output_memory(-1)


def test_output_of_a_stream_uses_the_memory_of_a_dropped_output(client: Client):
    array = np.arange(MIB, dtype=np.float32)
    addresses = set[int]()
    for _ in range(3):
        output = client.reshape(array, [2, -1], special_zero=False)
        assert np.array_equal(output.reshape(-1), array)
        addresses.add(find_address(output))
        del output
    assert len(addresses) == 1


FAULTS = """
import resource
import numpy as np
from tensor_reshape.client import Client
array = np.zeros(16 << 20, np.uint8)
def count_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    client.reshape(array, [2, -1], special_zero=False)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
with Client({address!r}) as client:
    for _ in range(5):
        count_faults()
    print(min(count_faults() for _ in range(5)))
"""


def test_repeated_stream_needs_no_fresh_memory(server: ServerProcess):
    code = FAULTS.format(address=server.address)
    counted = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    assert int(counted.stdout) < 400  # of 4,096 pages of the output, and as many of the messages
