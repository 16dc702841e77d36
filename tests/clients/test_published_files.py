"""The Node package of the protobuf definition contains its files, and a stock client needs nothing else."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from documents import ROOT, read_blocks
from server_processes import ServerProcess
from verification.clients import Program

PROTOS = ROOT / "protos"


def run(command: list[str | Path], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_grpc_js_client_works_with_the_published_proto_files(
    find_program: Callable[[str], Program], server: ServerProcess, tmp_path: Path
):
    grpc_js = find_program("grpc_js")  # if it can be installed, npm exists
    run(["npm", "pack", "--pack-destination", tmp_path, PROTOS], tmp_path)
    (tmp_path / "package.json").write_text("{}")
    run(["npm", "install", "--no-audit", "--no-fund", next(tmp_path.glob("*.tgz"))], tmp_path)
    (installed,) = (tmp_path / "node_modules").glob("*/package.json")
    files = {path.relative_to(installed.parent) for path in installed.parent.rglob("*.proto")}
    assert files == {path.relative_to(PROTOS) for path in PROTOS.glob("tensor_reshape/v1/*.proto")}

    (tmp_path / "node_modules/@grpc").symlink_to(grpc_js.environment / "node_modules/@grpc")
    (example,) = (block for block in read_blocks(PROTOS / "README.md") if block.language == "js")
    (tmp_path / "example.mjs").write_text(example.text.replace("localhost:50051", server.address))
    assert run(["node", "example.mjs"], tmp_path) == "[ 3, 2 ]\n"
