"""One large array through a server and back, from a file into another: what memory that takes of both sides.

The file is sparse, so it takes no room; what comes back takes all of its own. It passes where the bytes are the same,
and where neither side took more than a few windows of memory, however large the array is.
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
from tensor_reshape.cli.npy_headers import build_npy
from tensor_reshape.rules.dtypes import DataType

MAX_CLIENT_BYTES = 200 << 20
"""Python and its libraries use about 70 MiB. The rest is the two 32 MiB parts of the files that are mapped at a time,
up to 16 MiB of flow control window in each direction, and a few chunks of 1 MiB."""

MAX_SERVER_BYTES = 160 << 20
"""Half of that is what it has at rest."""

# Of the memory of a process that has ended nobody can ask but its parent; and Linux counts as a child's what its parent
# had when it was made. So a small process stands between.
_MEASURE = """
import resource, subprocess, sys

code = subprocess.call(sys.argv[1:], stdout=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
_GIB = 1 << 30
_MIB = 1 << 20
_MARK_BYTES = 7 * _MIB + 13  # between two bytes that are not 0: at no border of a page, a chunk or a window


@dataclass
class Report:
    """What a transfer took.

    Attributes:
        size: of the array, in bytes.
        seconds: from the start of the client to its end.
        client_bytes: the most memory that it had, its mapped files included.
        server_bytes: likewise of the server.
        problems: what is not as it must be.
    """

    size: int
    seconds: float
    client_bytes: int
    server_bytes: int
    problems: list[str]

    def describe(self) -> str:
        """Returns one line for people."""
        memory = f"client {self.client_bytes // _MIB} MiB, server {self.server_bytes // _MIB} MiB"
        return f"{self.size / _GIB:g} GiB in {self.seconds:.1f} s; at their peak: {memory}"


def transfer(folder: Path, size: int) -> Report:
    """Has a client reshape a file of so many bytes into another one in this folder."""
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
        yield f"the client took more than {MAX_CLIENT_BYTES // _MIB} MiB"
    if report.server_bytes > MAX_SERVER_BYTES:
        yield f"the server took more than {MAX_SERVER_BYTES // _MIB} MiB"
    with source.open("rb") as sent, output.open("rb") as received:
        sent.seek(len(build_npy(DataType.U8, [report.size])))
        header = build_npy(DataType.U8, [1, report.size])
        if received.read(len(header)) != header or not _are_equal(sent, received):
            yield "what came back is not what was sent"


def _are_equal(one: IO[bytes], other: IO[bytes]) -> bool:
    while piece := one.read(_MIB):
        if other.read(_MIB) != piece:
            return False
    return not other.read(1)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser("scripts/verify transfers", description=__doc__)
    parser.add_argument("--gib", type=float, default=10.0, help="the size of the array")
    parser.add_argument("--folder", help="where the files are, for a while; default: that of temporary files")
    parser.add_argument("--json", action="store_true", help="write a line of JSON")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs; 1 where something is not as it must be."""
    parsed = parse_arguments(arguments)
    size = int(parsed.gib * _GIB)
    with tempfile.TemporaryDirectory(dir=parsed.folder) as folder:
        if shutil.disk_usage(folder).free < size + _GIB:
            sys.exit(f"{folder} has no room for {parsed.gib:g} GiB, and one to spare: name another --folder")
        report = transfer(Path(folder), size)
    print(json.dumps(asdict(report)) if parsed.json else "\n".join([report.describe(), *report.problems]))
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
