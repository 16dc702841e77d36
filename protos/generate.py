"""Build hook that compiles the protobuf definition into `tensor_reshape/v1/`.

The project and the package of the definition both use it. `pip install` (editable or not) runs the hook with the
generator version that is pinned in the package's `pyproject.toml`, so the generated code always requires the same
minimum version of protobuf. The output directories are configured there, too. Generated files are not committed.

Other files are written as descriptors for the server. A generated module of the Open Inference Protocol or of gRPC's
health service would register the same names as their clients do, and would need the protobuf of its generator.

The OpenAPI description of the HTTP port is written, too. `openapi.py` builds it from the definitions with their
comments, which generated modules do not contain.
"""

import json
import shutil
from importlib.machinery import SourceFileLoader
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROTOS = Path(__file__).parent
SOURCES = sorted((PROTOS / "tensor_reshape" / "v1").glob("*.proto"))
OPEN_INFERENCE = PROTOS / "inference" / "open_inference.proto"


def generate_stubs(output_root: Path) -> None:
    """Writes messages, service stubs and their types below `output_root`.

    Raises:
        RuntimeError: a `.proto` file does not compile. The compiler writes its messages to stderr.
    """
    package = output_root / "tensor_reshape" / "v1"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    outputs = [f"--{plugin}_out={output_root}" for plugin in ("python", "grpc_python", "mypy", "mypy_grpc")]
    _compile(*outputs, *map(str, SOURCES))
    (package / "__init__.py").write_text('"""Generated from protos/tensor_reshape/v1: do not edit."""\n')
    (package / "py.typed").touch()


def generate_descriptors(source: Path, package: Path) -> None:
    """Writes the descriptors of a `.proto` file into a package of the server.

    Raises:
        RuntimeError: as `generate_stubs`.
    """
    _compile(f"--descriptor_set_out={package / source.stem}.binpb", str(source))


def generate_openapi(target: Path, version: str) -> None:
    """Writes the OpenAPI description of this version to a file.

    Raises:
        RuntimeError: as `generate_stubs`.
    """
    # Hatchling loads this file by its path, so `import` does not find the other file.
    openapi = ModuleType("openapi")
    SourceFileLoader("openapi", str(PROTOS / "openapi.py")).exec_module(openapi)
    with TemporaryDirectory() as folder:
        descriptors = Path(folder, "descriptors.binpb")
        _compile("--include_source_info", f"--descriptor_set_out={descriptors}", *map(str, [*SOURCES, OPEN_INFERENCE]))
        document = openapi.build_document(descriptors.read_bytes(), version)
    target.write_text(json.dumps(document, separators=(",", ":")))


def _compile(*arguments: str) -> None:
    from grpc_tools import protoc  # noqa: PLC0415 - only the build environment has it

    if protoc.main(["protoc", f"--proto_path={PROTOS}", *arguments]) != 0:
        message = "the protobuf definition does not compile"
        raise RuntimeError(message)


class ContractBuildHook(BuildHookInterface[Any]):
    """Generates the stubs before hatchling collects the files."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Runs once for each target; `version` is "editable" or "standard"."""
        del version, build_data
        if self.target_name == "wheel":
            generate_stubs(Path(self.root, self.config["stubs"]))
            for source, package in self.config.get("descriptors", {}).items():
                generate_descriptors(PROTOS / source, Path(self.root, package))
            if "openapi" in self.config:
                generate_openapi(Path(self.root, self.config["openapi"]), self.metadata.version)
