"""Sends one large array from a file to a server and back into another file, and measures the memory of both sides.

The sparse input file takes no disk space, but the output file takes its full size. The run passes if the bytes are the
same, and if neither side used more memory than a few windows of the files, whatever the size of the array.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from meters import read_memory
from server_processes import run_server
from tensor_reshape.cli.destinations import build_npy
from tensor_reshape.rules.dtypes import DataType

MAX_CLIENT_BYTES = 200 << 20
"""Python and its libraries use about 70 MiB. The rest is the two 32 MiB parts of the files that are mapped at a time,
up to 16 MiB of flow control window in each direction, and a few chunks of 1 MiB."""

MAX_SERVER_BYTES = 160 << 20
"""Half of this is the memory of an idle server."""

# Only the parent can read the peak memory of a process that has ended. Linux also counts the memory that the parent had
# when it made the child, so a small process between them does the measurement.
_MEASURE = """
import resource, subprocess, sys

code = subprocess.call(sys.argv[1:], stdout=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
_GIB = 1 << 30
_MIB = 1 << 20
_MARK_BYTES = 7 * _MIB + 13  # distance of the bytes that are not 0; not a multiple of a page, chunk or window


@dataclass
class Report:
    """The measurements of a transfer.

    Attributes:
        size: the size of the array in bytes.
        seconds: the time from the client's start to its end.
        client_bytes: the client's peak memory, including its mapped files.
        server_bytes: the server's peak memory.
        problems: the failed checks.
    """

    size: int
    seconds: float
    client_bytes: int
    server_bytes: int
    problems: list[str]

    def describe(self) -> str:
        """Returns one line of text."""
        memory = f"client {self.client_bytes // _MIB} MiB, server {self.server_bytes // _MIB} MiB"
        return f"{self.size / _GIB:g} GiB in {self.seconds:.1f} s; peak memory: {memory}"


def transfer(folder: Path, size: int) -> Report:
    """Reshapes a file of this size into another file in this folder with a client."""
    source, output = folder / "source.npy", folder / "output.npy"
    _write_source(source, size)
    command = [sys.executable, "-m", "tensor_reshape.cli", "reshape", str(source), "-o", str(output)]
    with run_server() as server:
        began = time.monotonic()
        options = ("--server", server.address, "--timeout", "3600", "--shape=1,-1", "--no-special-zero")
        process = subprocess.run(
            [sys.executable, "-c", _MEASURE, *command, *options], stdout=subprocess.PIPE, check=False
        )
        seconds, server_bytes = time.monotonic() - began, read_memory(server.process.pid, "VmHWM")
    report = Report(size, seconds, int(process.stdout) * 1024, server_bytes, [])
    report.problems += _find_problems(report, process.returncode, source, output)
    return report


def _write_source(path: Path, size: int) -> None:
    header = build_npy(DataType.U8, [size])
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + size)
        for number, offset in enumerate(range(0, size, _MARK_BYTES)):
            file.seek(len(header) + offset)
            file.write(bytes([number % 255 + 1]))


def _find_problems(report: Report, code: int, source: Path, output: Path) -> Iterator[str]:
    if code:
        yield f"the client ended with {code}"
        return
    if report.client_bytes > MAX_CLIENT_BYTES:
        yield f"the client used more than {MAX_CLIENT_BYTES // _MIB} MiB"
    if report.server_bytes > MAX_SERVER_BYTES:
        yield f"the server used more than {MAX_SERVER_BYTES // _MIB} MiB"
    with source.open("rb") as sent, output.open("rb") as received:
        sent.seek(len(build_npy(DataType.U8, [report.size])))
        header = build_npy(DataType.U8, [1, report.size])
        if received.read(len(header)) != header or not _are_equal(sent, received):
            yield "the received bytes differ from the sent bytes"


def _are_equal(one: IO[bytes], other: IO[bytes]) -> bool:
    while piece := one.read(_MIB):
        if other.read(_MIB) != piece:
            return False
    return not other.read(1)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/verify transfers", description=__doc__)
    parser.add_argument("--gib", type=float, default=10.0, help="size of the array")
    parser.add_argument("--folder", help="folder for the temporary files; default: the system's")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the transfer. The status is 1 if a check fails."""
    parsed = parse_arguments(arguments)
    size = int(parsed.gib * _GIB)
    with tempfile.TemporaryDirectory(dir=parsed.folder) as folder:
        if shutil.disk_usage(folder).free < size + _GIB:
            sys.exit(f"{folder} has less than {parsed.gib:g} GiB plus 1 GiB of free space. Use another --folder")
        report = transfer(Path(folder), size)
    print(json.dumps(asdict(report)) if parsed.json else "\n".join([report.describe(), *report.problems]))
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
