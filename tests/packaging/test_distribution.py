"""The contents of the wheel, and of the sdist from which it is built."""

import re
import tarfile
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

import pytest
from packaging.version import Version

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = ("core", "client", "tools", "server")
CONTRACT = sorted(path.stem for path in (ROOT / "protos" / "tensor_reshape" / "v1").glob("*.proto"))
GENERATED = [
    f"{name}{suffix}" for name in CONTRACT for suffix in ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")
]
GENERATED_ENDINGS = {".pyc", ".binpb"}
OPENAPI = "openapi.json"  # generated, too
GRPC_VERSION = re.compile(r"^GRPC_GENERATED_VERSION = '(.+)'$", re.MULTILINE)
PROTOBUF_VERSION = re.compile(
    r"ValidateProtobufRuntimeVersion\(\s*_runtime_version\.Domain\.PUBLIC,\s*(\d+),\s*(\d+),\s*(\d+),"
)


@pytest.fixture(scope="module")
def wheel_files(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def list_files() -> dict[str, Path]:
    """Returns the files of the repository by their paths in the wheel. Those of the conformance suite differ."""
    kit = ROOT / "conformance"
    paths = [*(kit / "cases").rglob("*.jsonl"), kit / "VERSION"]
    files = {f"tensor_reshape/conformance/{path.relative_to(kit).as_posix()}": path for path in paths}
    for root in SOURCE_ROOTS:
        found = (path for path in (ROOT / root / "tensor_reshape").rglob("*") if path.is_file())
        files |= {
            path.relative_to(ROOT / root).as_posix(): path
            for path in found
            if path.suffix not in GENERATED_ENDINGS and path.parent.name != "v1" and path.name != OPENAPI
        }
    return files


def test_wheel_contains_every_package_and_nothing_else(wheel_files: dict[str, bytes]):
    files = list_files()
    # Generated from protos/. In the repository, git ignores these files.
    generated = {f"tensor_reshape/v1/{name}" for name in ("__init__.py", "py.typed", *GENERATED)}
    described = ("grpc/health.binpb", "grpc/reflection.binpb", "oip/open_inference.binpb", f"http/{OPENAPI}")
    generated |= {f"tensor_reshape/server/{name}" for name in described}

    assert {name for name in wheel_files if ".dist-info/" not in name} == files.keys() | generated
    assert [name for name, path in files.items() if wheel_files[name] != path.read_bytes()] == []
    assert [name for name in wheel_files if re.search(r"(^|/)(tests/|test_|conftest)", name)] == []


def test_sdist_contains_all_sources_and_no_generated_files(wheel: Path):
    (sdist,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        paths = {PurePosixPath(name.partition("/")[2]) for name in archive.getnames()}

    protos = {f"protos/tensor_reshape/v1/{name}.proto" for name in CONTRACT}
    pages = {"LICENSE", "README.md", "DESCRIPTION.md", "CONTRIBUTING.md", "SECURITY.md", "docs/reference/errors.md"}
    build = {"protos/generate.py", "protos/openapi.py"}
    assert protos | pages | build | {"tests/conftest.py"} <= set(map(str, paths))
    generated = [path for path in paths if "_pb2" in path.name or path.name == OPENAPI]
    assert generated + [path for path in paths if path.suffix == ".pyc" or "__pycache__" in path.parts] == []


def test_dependency_minimums_match_the_generated_protobuf_code(
    wheel_files: dict[str, bytes], floors: dict[str, Version]
):
    texts = {name: data.decode() for name, data in wheel_files.items() if name.startswith("tensor_reshape/v1/")}
    of_grpc = [Version(version) for text in texts.values() for version in GRPC_VERSION.findall(text)]
    of_protobuf = [Version(".".join(found)) for text in texts.values() for found in PROTOBUF_VERSION.findall(text)]

    assert (len(of_grpc), max(of_grpc) <= floors["grpcio"]) == (len(CONTRACT), True)
    assert of_protobuf == [floors["protobuf"]] * len(CONTRACT)
