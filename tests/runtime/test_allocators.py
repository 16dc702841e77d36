"""The switches of the C library, each in a process of its own: they hold for a whole process."""

import subprocess
import sys

import pytest

SWITCHES = ["keep_freed_memory", "release_freed_memory"]
# Frees what glibc takes from the system by itself, and takes it again: memory that is kept is not mapped anew.
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
MISSING = """
import ctypes
from tensor_reshape.runtime import allocators
class Nothing:
    def __init__(self, name):
        raise OSError("no such library")
ctypes.CDLL = Nothing
print(allocators.{switch}())
"""


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_freed_memory_is_kept_for_the_next_message():
    assert int(run(MEASURE.format(keep=True))) * 4 < int(run(MEASURE.format(keep=False)))


@pytest.mark.parametrize("switch", SWITCHES)
def test_glibc_has_every_switch(switch: str):
    assert run(f"from tensor_reshape.runtime.allocators import {switch}; print({switch}())") == "True"


@pytest.mark.parametrize("switch", SWITCHES)
def test_another_c_library_is_left_as_it_is(switch: str):
    assert run(MISSING.format(switch=switch)) == "False"
