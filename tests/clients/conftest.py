"""Programs in other languages, which a package manager installs once for all tests."""

import base64
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.json_format import MessageToDict
from grpc_health.v1 import health_pb2

from foreign_calls import CALLS, ForeignCall
from server_processes import ServerProcess
from tensor_reshape.v1 import reshape_pb2, tensor_pb2

HERE = Path(__file__).parent
PROTOS = HERE.parents[1] / "protos"
INSTALL_SECONDS, RUN_SECONDS = 300, 90
Answer = dict[str, Any]


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs and exactly the packages that the lock file names."""
    folder = tmp_path_factory.mktemp("programs")
    for file in (*HERE.glob("*.json"), *HERE.glob("*.mjs"), HERE / ".npmrc"):
        shutil.copy(file, folder)
    done = subprocess.run(
        ["npm", "ci"], cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def descriptors() -> str:
    """The descriptors of all that is called, as a compiler gives them to programs; in base64."""
    return encode_descriptors()


@pytest.fixture(scope="session")
def ask_all(programs: Path, server: ServerProcess) -> Callable[[str, str], list[tuple[ForeignCall, Answer]]]:
    """Has a program make all calls, and returns each with what became of it."""

    def ask(program: str, loader: str) -> list[tuple[ForeignCall, Answer]]:
        asked = {
            "address": server.address,
            "loader": loader,
            "include": str(PROTOS),
            "file": str(PROTOS / "tensor_reshape/v1/reshape.proto"),
            "descriptors": encode_descriptors(),
            "calls": [encode_call(call) for call in CALLS],
        }
        done = subprocess.run(
            ["node", program],
            cwd=programs,
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return list(zip(CALLS, map(json.loads, done.stdout.splitlines()), strict=True))

    return ask


def encode_call(call: ForeignCall) -> dict[str, object]:
    requests = [MessageToDict(request, preserving_proto_field_name=True) for request in call.requests]
    return {"service": call.service, "method": call.method, "requests": requests, "streams": call.streams}


def encode_descriptors() -> str:
    """Returns the descriptors of all that is called, as a compiler gives them to programs."""
    files = FileDescriptorSet()
    for descriptor in (tensor_pb2.DESCRIPTOR, reshape_pb2.DESCRIPTOR, health_pb2.DESCRIPTOR):
        descriptor.CopyToProto(files.file.add())
    return base64.b64encode(files.SerializeToString()).decode()
