"""An array larger than the memory of both sides goes from a file through a server into another file."""

import subprocess
import sys
from pathlib import Path

import pytest

from meters import read_memory
from server_processes import run_server
from tensor_reshape.cli.destinations import build_npy
from tensor_reshape.rules.dtypes import DataType

MIB = 1 << 20
SIZE = 210 * MIB
MAX_CLIENT_BYTES = 200 * MIB
"""Python and its libraries use about 70 MiB. The rest is the two 32 MiB parts of the files that are mapped at a time,
up to 16 MiB of flow control window in each direction, and a few chunks of 1 MiB."""

MAX_SERVER_BYTES = 160 * MIB
"""Half of this is the memory of an idle server."""

MARK_BYTES = 7 * MIB + 13  # distance of the bytes that are not 0; not a multiple of a page, chunk or window
# Only the parent can read the peak memory of a process that has ended. Linux also counts the memory that the parent had
# when it made the child, so a small process between them does the measurement.
MEASURE = """
import resource, subprocess, sys

subprocess.check_call(sys.argv[1:], stdout=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.measured
def test_command_line_reshapes_an_array_larger_than_memory(tmp_path: Path):
    source, output, header = tmp_path / "source.npy", tmp_path / "output.npy", build_npy(DataType.U8, [SIZE])
    with source.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + SIZE)
        for number, offset in enumerate(range(0, SIZE, MARK_BYTES)):
            file.seek(len(header) + offset)
            file.write(bytes([number % 255 + 1]))
    command: list[str | Path] = [sys.executable, "-m", "tensor_reshape.cli", "reshape", source, "-o", output]
    with run_server() as server:
        options = ("--server", server.address, "--timeout", "3600", "--shape=1,-1", "--no-special-zero")
        measured = subprocess.check_output([sys.executable, "-c", MEASURE, *command, *options])
        server_bytes = read_memory(server.process.pid, "VmHWM")

    assert int(measured) * 1024 < MAX_CLIENT_BYTES < SIZE
    assert server_bytes < MAX_SERVER_BYTES
    with source.open("rb") as sent, output.open("rb") as received:
        sent.seek(len(header))
        header = build_npy(DataType.U8, [1, SIZE])
        assert received.read(len(header)) == header
        while piece := sent.read(MIB):
            assert received.read(MIB) == piece
        assert not received.read(1)
