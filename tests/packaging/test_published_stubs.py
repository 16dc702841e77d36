"""The contract as packages of its own: what is in them, and that a stock client needs nothing else."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from documents import ROOT, read_blocks
from server_processes import ServerProcess

PROTOS = ROOT / "protos"
CONTRACT = {path.relative_to(PROTOS).as_posix() for path in PROTOS.glob("tensor_reshape/v1/*.proto")}
GENERATED = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")


def read_project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sdist as a package index would."""
    out = tmp_path_factory.mktemp("stubs")
    subprocess.run([sys.executable, "-m", "uv", "build", "--quiet", "--out-dir", out, PROTOS], check=True)
    return next(out.glob("*.whl"))


def test_the_wheel_holds_the_contract_and_its_modules_and_does_not_close_the_namespace(stubs: Path):
    with ZipFile(stubs) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    modules = {file.removesuffix(".proto") + suffix for file in CONTRACT for suffix in GENERATED}
    assert names == CONTRACT | modules | {"tensor_reshape/v1/__init__.py", "tensor_reshape/v1/py.typed"}


def test_its_modules_are_those_of_the_sdk(stubs: Path, wheel: Path):
    with ZipFile(stubs) as own, ZipFile(wheel) as other:
        shared = [name for name in own.namelist() if name.startswith("tensor_reshape/") and name not in CONTRACT]
        assert [name for name in shared if own.read(name) != other.read(name)] == []


def test_a_stock_client_calls_with_it(
    stubs: Path, make_environment: Callable[..., Path], server: ServerProcess, tmp_path: Path
):
    python = make_environment([str(stubs)])
    (example,) = (block for block in read_blocks(PROTOS / "README.md") if block.language == "python")
    (tmp_path / "example.py").write_text(example.text.replace("localhost:50051", server.address))
    done = subprocess.run(
        [python, "-I", "example.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("[3, 2]\n", "")


def test_all_packages_have_one_version():
    node = json.loads((PROTOS / "package.json").read_text())
    versions = {read_project(folder)["project"]["version"] for folder in (ROOT, PROTOS)}
    assert versions == {node["version"]}


def test_it_is_generated_as_the_project_is():
    assert read_project(PROTOS)["build-system"]["requires"] == read_project(ROOT)["build-system"]["requires"]


def test_its_floors_are_those_of_the_project():
    assert set(read_project(PROTOS)["project"]["dependencies"]) <= set(read_project(ROOT)["project"]["dependencies"])


def test_the_licence_is_that_of_the_project():
    assert (PROTOS / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
