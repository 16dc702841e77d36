"""The packages with the API definition: their contents, and that a stock client needs nothing else."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from documents import ROOT, read_blocks, read_printed
from server_processes import ServerProcess

PROTOS = ROOT / "protos"
CONTRACT = {path.relative_to(PROTOS).as_posix() for path in PROTOS.glob("tensor_reshape/v1/*.proto")}
GENERATED = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the sdist."""
    out = tmp_path_factory.mktemp("stubs")
    subprocess.run([sys.executable, "-m", "uv", "build", "--quiet", "--out-dir", out, PROTOS], check=True)
    return next(out.glob("*.whl"))


def test_stub_wheel_contains_the_proto_files_and_generated_modules(stubs: Path, wheel: Path):
    modules = {file.removesuffix(".proto") + suffix for file in CONTRACT for suffix in GENERATED}
    modules |= {"tensor_reshape/v1/__init__.py", "tensor_reshape/v1/py.typed"}
    with ZipFile(stubs) as own, ZipFile(wheel) as other:
        assert {name for name in own.namelist() if ".dist-info/" not in name} == CONTRACT | modules
        assert [name for name in modules if own.read(name) != other.read(name)] == []


def test_documented_stock_grpc_client_works_with_the_stub_wheel(
    stubs: Path, make_environment: Callable[..., Path], server: ServerProcess, tmp_path: Path
):
    python = make_environment(str(stubs))
    (example,) = (block for block in read_blocks(PROTOS / "README.md") if block.language == "python")
    (tmp_path / "example.py").write_text(example.text.replace("localhost:50051", server.address))
    done = subprocess.run(
        [python, "-I", "example.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("[3, 2]\n", "")


PROGRAMS = sorted((ROOT / "examples/clients/grpcio").glob("*.py"))
PAGE = ROOT / "docs/how-to/clients-python.md"


@pytest.fixture(scope="module")
def python(stubs: Path, make_environment: Callable[..., Path]) -> Path:
    """The interpreter of an environment with the packages that the page names, and without the SDK."""
    (install,) = (block.text for block in read_blocks(PAGE) if block.text.startswith("pip install ./protos"))
    return make_environment(str(stubs), *install.split()[3:])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_documented_grpcio_program_prints_the_output_in_its_comments(
    python: Path, server: ServerProcess, tmp_path: Path, program: Path
):
    done = subprocess.run(
        [python, "-I", program, server.address], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == read_printed(program), done.stderr


def test_page_shows_every_grpcio_program():
    shown = {block.text for block in read_blocks(PAGE)}
    assert [program.name for program in PROGRAMS if program.read_text() not in shown] == []


def find_floors(described: dict[str, Any]) -> set[str]:
    """Returns the required packages with their oldest releases. Generated code has no upper bound."""
    return {requirement.partition(",")[0] for requirement in described["project"]["dependencies"]}


def test_stub_packages_have_the_project_version_and_requirements():
    stubs, project = (tomllib.loads((folder / "pyproject.toml").read_text()) for folder in (PROTOS, ROOT))
    node = json.loads((PROTOS / "package.json").read_text())
    assert stubs["project"]["version"] == project["project"]["version"] == node["version"]
    assert stubs["build-system"]["requires"] == project["build-system"]["requires"]
    assert find_floors(stubs) <= find_floors(project)
