"""What is in the wheel, and in the sdist that it is built from."""

import re
import tarfile
from email import message_from_bytes
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PORTIONS = {
    "cli": "client",
    "client": "client",
    "conformance": "client",
    "onnx": "client",
    "rules": "core",
    "runtime": "core",
    "server": "server",
    "testing": "client",
    "v1": "core",
    "wire": "core",
}
CONTRACT = sorted(path.stem for path in (ROOT / "protos" / "tensor_reshape" / "v1").glob("*.proto"))
GENERATED = [
    f"{name}{suffix}" for name in CONTRACT for suffix in ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")
]
SERVER_PACKAGES = {
    "grpcio-channelz",
    "grpcio-health-checking",
    "grpcio-reflection",
    "prometheus-client",
    "python-json-logger",
}
GRPC_VERSION = re.compile(r"^GRPC_GENERATED_VERSION = '(.+)'$", re.MULTILINE)
PROTOBUF_VERSION = re.compile(
    r"ValidateProtobufRuntimeVersion\(\s*_runtime_version\.Domain\.PUBLIC,\s*(\d+),\s*(\d+),\s*(\d+),"
)


@pytest.fixture(scope="module")
def wheel_files(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def sdist_files(wheel: Path) -> set[str]:
    """The paths in the sdist that the wheel was built from, below its one folder."""
    (sdist,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


@pytest.fixture(scope="module")
def requirements(wheel_files: dict[str, bytes]) -> list[Requirement]:
    (metadata,) = [data for name, data in wheel_files.items() if name.endswith(".dist-info/METADATA")]
    return [Requirement(text) for text in message_from_bytes(metadata).get_all("Requires-Dist", [])]


def find_names(requirements: list[Requirement], extra: str) -> set[str]:
    """Returns the names of what is installed with one extra, or with none ("")."""
    return {item.name for item in requirements if item.marker is None or item.marker.evaluate({"extra": extra})}


def list_sources(portion: str) -> set[str]:
    """Returns the portion's files in the repository, as paths in the wheel."""
    root = ROOT / PORTIONS[portion]
    paths = [path for path in (root / "tensor_reshape" / portion).rglob("*") if path.is_file()]
    return {path.relative_to(root).as_posix() for path in paths if path.suffix != ".pyc"} | list_kit(portion)


def list_kit(portion: str) -> set[str]:
    """Returns the files of the kit, which the repository has elsewhere."""
    if portion != "conformance":
        return set()
    kit = ROOT / "conformance"
    paths = [*(kit / "cases").rglob("*.jsonl"), kit / "VERSION"]
    return {f"tensor_reshape/conformance/{path.relative_to(kit).as_posix()}" for path in paths}


@pytest.mark.parametrize("portion", PORTIONS)
def test_each_portion_is_a_typed_package(wheel_files: dict[str, bytes], portion: str):
    assert {f"tensor_reshape/{portion}/__init__.py", f"tensor_reshape/{portion}/py.typed"} <= wheel_files.keys()


@pytest.mark.parametrize("portion", sorted(PORTIONS.keys() - {"v1"}))
def test_each_portion_is_whole(wheel_files: dict[str, bytes], portion: str):
    assert {name for name in wheel_files if name.startswith(f"tensor_reshape/{portion}/")} == list_sources(portion)


@pytest.mark.parametrize("name", GENERATED)
def test_the_contract_is_compiled(wheel_files: dict[str, bytes], name: str):
    assert wheel_files[f"tensor_reshape/v1/{name}"]


def test_there_are_no_other_portions(wheel_files: dict[str, bytes]):
    assert {name.split("/")[1] for name in wheel_files if name.startswith("tensor_reshape/")} == PORTIONS.keys()


def test_the_namespace_is_all_that_is_importable(wheel_files: dict[str, bytes]):
    folders = {name.split("/")[0] for name in wheel_files}

    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {"tensor_reshape"}


def test_the_namespace_holds_code_types_descriptors_pages_and_the_cases_of_the_kit(wheel_files: dict[str, bytes]):
    paths = [PurePosixPath(name) for name in wheel_files if name.startswith("tensor_reshape/")]

    others = {path for path in paths if path.suffix not in {".py", ".pyi"} and path.name != "py.typed"}
    page = PurePosixPath("tensor_reshape/server/http/explorer/static")
    kit, report = (PurePosixPath("tensor_reshape/conformance") / name for name in ("cases", "page"))
    descriptors = ("oip/open_inference.binpb", "http/contract.binpb")
    assert {path for path in others if path.parent not in {page, report} and not path.is_relative_to(kit)} == {
        *(PurePosixPath("tensor_reshape/server") / name for name in descriptors),
        kit.with_name("VERSION"),
    }
    assert others >= {page / "index.html", report / "page.html"}


def test_the_cases_of_the_kit_are_in_the_wheel(wheel_files: dict[str, bytes]):
    folder = ROOT / "conformance" / "cases"
    cases = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.jsonl")}
    kit = "tensor_reshape/conformance/cases/"
    assert {name.removeprefix(kit): data for name, data in wheel_files.items() if name.startswith(kit)} == cases


def test_no_test_is_shipped(wheel_files: dict[str, bytes]):
    paths = [PurePosixPath(name) for name in wheel_files]

    assert [str(path) for path in paths if "tests" in path.parts or path.name.startswith(("test_", "conftest"))] == []


def test_the_wheel_does_not_close_the_namespace(wheel_files: dict[str, bytes]):
    assert "tensor_reshape/__init__.py" not in wheel_files


@pytest.mark.parametrize("name", CONTRACT)
def test_the_sdist_holds_the_contract(sdist_files: set[str], name: str):
    assert f"protos/tensor_reshape/v1/{name}.proto" in sdist_files


@pytest.mark.parametrize(
    "name",
    [
        "LICENSE",
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "docs/reference/errors.md",
        "protos/generate.py",
        "tests/conftest.py",
    ],
)
def test_the_sdist_holds_what_it_takes_to_build_read_and_test(sdist_files: set[str], name: str):
    assert name in sdist_files


def test_the_sdist_holds_nothing_generated(sdist_files: set[str]):
    paths = [PurePosixPath(name) for name in sdist_files]

    assert [
        str(path) for path in paths if "_pb2" in path.name or path.suffix == ".pyc" or "__pycache__" in path.parts
    ] == []


def test_the_base_install_asks_for_nothing_of_the_server(requirements: list[Requirement]):
    assert find_names(requirements, "").isdisjoint(SERVER_PACKAGES)


def test_the_server_extra_adds_what_only_the_server_needs(requirements: list[Requirement]):
    assert find_names(requirements, "server") - find_names(requirements, "") == SERVER_PACKAGES


@pytest.mark.parametrize("name", [name for name in GENERATED if name.endswith("_pb2_grpc.py")])
def test_the_floor_of_grpcio_is_no_lower_than_what_the_generated_code_demands(
    wheel_files: dict[str, bytes], floors: dict[str, Version], name: str
):
    (version,) = GRPC_VERSION.findall(wheel_files[f"tensor_reshape/v1/{name}"].decode())

    assert Version(version) <= floors["grpcio"]


@pytest.mark.parametrize("name", sorted(name for name in SERVER_PACKAGES if name.startswith("grpcio-")))
def test_the_packages_of_grpcio_have_one_floor(floors: dict[str, Version], name: str):
    assert floors[name] == floors["grpcio"]


@pytest.mark.parametrize("name", [name for name in GENERATED if name.endswith("_pb2.py")])
def test_the_floor_of_protobuf_is_what_the_generated_code_demands(
    wheel_files: dict[str, bytes], floors: dict[str, Version], name: str
):
    (version,) = PROTOBUF_VERSION.findall(wheel_files[f"tensor_reshape/v1/{name}"].decode())

    assert Version(".".join(version)) == floors["protobuf"]
