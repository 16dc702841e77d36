"""Allocator settings, each in its own process, because they affect a whole process."""

import subprocess
import sys

import pytest

# Frees memory, and allocates it again. If glibc kept the freed memory, the second allocation needs no mapping.
MEASURE = """
import resource
from tensor_reshape.runtime.allocators import keep_freed_memory
if {keep}:
    keep_freed_memory()
bytearray(8 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    bytearray(b"x") * (8 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
# With several arenas, glibc's own trimming keeps the ends of all arenas except the main one, which is 36 MiB here.
RETURN = """
import threading
from tensor_reshape.runtime.allocators import keep_freed_memory, release_freed_memory
from tensor_reshape.server.process.housekeeping import read_resident_bytes
keep_freed_memory()
base = read_resident_bytes()
for _ in range(2):
    thread = threading.Thread(target=lambda: [bytearray(b"x") * (1 << 20) for _ in range(100)])
    thread.start()
    thread.join()
print(read_resident_bytes() - base)
release_freed_memory()
print(read_resident_bytes() - base)
"""
# The first case uses glibc, and the second one another C library.
SWITCH = """
import ctypes
from tensor_reshape.runtime import allocators
class Nothing:
    def __init__(self, name):
        raise OSError("no such library")
print(allocators.{switch}())
ctypes.CDLL = Nothing
print(allocators.{switch}())
"""


def run(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()


def test_allocator_keeps_freed_memory_for_the_next_message():
    (kept,), (freed,) = run(MEASURE.format(keep=True)), run(MEASURE.format(keep=False))
    assert int(kept) * 4 < int(freed)


def test_allocator_releases_freed_memory_of_all_threads():
    kept, left = map(int, run(RETURN))
    assert kept > 90 << 20
    assert left < 10 << 20


@pytest.mark.parametrize("switch", ["keep_freed_memory", "release_freed_memory"])
def test_allocator_settings_have_no_effect_without_glibc(switch: str):
    assert run(SWITCH.format(switch=switch)) == ["True", "False"]
