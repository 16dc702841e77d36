"""Node's package of the contract holds the files of it, and a stock client needs nothing else."""

import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from documents import ROOT, read_blocks
from server_processes import ServerProcess
from verification.clients.programs import Program

PROTOS = ROOT / "protos"


@pytest.fixture
def archive(find_program: Callable[[str], Program], tmp_path: Path) -> Path:
    """The package as npm would publish it."""
    find_program("grpc_js")  # where it can be installed, there is npm
    run(["npm", "pack", "--pack-destination", tmp_path, PROTOS], tmp_path)
    return next(tmp_path.glob("*.tgz"))


def run(command: list[str | Path], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_holds_the_files_of_the_contract(archive: Path):
    with tarfile.open(archive) as packed:
        names = {name for name in packed.getnames() if name.endswith(".proto")}
    files = PROTOS.glob("tensor_reshape/v1/*.proto")
    assert names == {f"package/{path.relative_to(PROTOS).as_posix()}" for path in files}


def test_grpc_js_calls_with_the_files_of_the_package(
    find_program: Callable[[str], Program], archive: Path, server: ServerProcess, tmp_path: Path
):
    (tmp_path / "package.json").write_text("{}")
    run(["npm", "install", "--no-audit", "--no-fund", archive], tmp_path)
    (tmp_path / "node_modules/@grpc").symlink_to(find_program("grpc_js").environment / "node_modules/@grpc")
    (example,) = (block for block in read_blocks(PROTOS / "README.md") if block.language == "js")
    (tmp_path / "example.mjs").write_text(example.text.replace("localhost:50051", server.address))

    assert run(["node", "example.mjs"], tmp_path) == "[ 3, 2 ]\n"
