"""Shared memory methods. `test_methods` tests their rejections, and `e2e/test_shared_memory` their responses."""

from tensor_reshape.server.oip.region_methods import build_region_methods
from tensor_reshape.server.oip.shared_memory import SharedMemory


def test_shared_memory_methods_always_run_on_a_thread():
    assert [method.respond_light(b"") for method in build_region_methods(SharedMemory(None))] == [None] * 3
