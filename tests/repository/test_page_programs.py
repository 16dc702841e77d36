"""The programs of pages that need other tools: oneDNN, the protobuf compilers and openssl."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from documents import ROOT, read_blocks, read_printed, read_prose
from http_calls import find_http
from server_processes import ServerProcess, run_server
from tensor_reshape.client import connections

PROGRAM = ROOT / "examples/moving/onednn.cpp"


def test_onednn_example_prints_the_output_in_its_comments(tmp_path: Path):
    probe = ["g++", "-E", "-include", "oneapi/dnnl/dnnl_graph.hpp", "-x", "c++", os.devnull]
    try:
        found = subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        found = False
    if not found:
        pytest.skip("g++ does not find oneDNN 3; set CPATH, LIBRARY_PATH and LD_LIBRARY_PATH")
    program = tmp_path / "onednn"
    subprocess.run(["g++", "-std=c++17", PROGRAM, "-o", program, "-ldnnl"], check=True)

    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == read_printed(PROGRAM), done.stderr


STUBS_PAGE = ROOT / "docs/how-to/clients-go-java-cpp.md"
PATH = f"{ROOT / '.venv-clients/go/bin'}:{os.environ['PATH']}"
"""tests/clients builds Go's plugin in this folder, because Debian has only its source."""
MADE = {
    "go": ("protoc-gen-go", ["reshape.pb.go", "reshape_grpc.pb.go", "tensor.pb.go"]),
    "java": ("grpc_java_plugin", ["ReshapeServiceGrpc.java"]),
    "cpp": ("grpc_cpp_plugin", ["reshape.grpc.pb.cc", "reshape.pb.cc", "tensor.pb.cc"]),
}
"""For each language, its plugin and the generated files."""


@pytest.mark.parametrize("language", MADE)
def test_documented_protoc_command_generates_the_stubs_of_each_language(tmp_path: Path, language: str):
    plugin, made = MADE[language]
    missing = [tool for tool in ("protoc", plugin) if shutil.which(tool, path=PATH) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    (commands,) = [block.text.replace("\\\n", "") for block in read_blocks(STUBS_PAGE) if "protoc -I" in block.text]
    lines = [line for line in commands.splitlines() if f"--{language}_out" in line or not re.search(r"--\w+_out", line)]
    (tmp_path / "protos").symlink_to(ROOT / "protos")

    subprocess.run(["sh", "-e", "-c", "\n".join(lines)], cwd=tmp_path, env={**os.environ, "PATH": PATH}, check=True)

    assert set(made) <= {path.name for path in (tmp_path / "gen").rglob("*")}


TLS_PAGE = ROOT / "docs/deployment/tls.md"
MAKE, SERVE, CALL, CURL = [block.text for block in read_blocks(TLS_PAGE) if block.language == "sh"]
MESSAGE_WORDS = 4
(CONNECT,) = [block.text for block in read_blocks(TLS_PAGE) if block.language == "python"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the files that the first block makes."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["sh", "-e", "-c", MAKE], cwd=folder, capture_output=True, check=True)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    """The server of the page with the HTTP port, on free ports."""
    program, command, *options = shlex.split(SERVE)
    assert (program, command) == ("tensor-reshape", "serve")
    files = [word if word.startswith("--") else str(folder / word) for word in options]
    with run_server(*files, "--http-listen", "127.0.0.1:0") as server:
        yield server


@pytest.fixture
def address(server: ServerProcess) -> str:
    return f"localhost:{server.address.rpartition(':')[2]}"


def run(folder: Path, address: str, *command: str) -> tuple[int, str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "TENSOR_RESHAPE_SERVER": address}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_documented_tls_command_and_code_connect(folder: Path, address: str):
    use = f"with connect('{address}', Path('.')) as client: print(client.check_health().name)"

    assert run(folder, address, "sh", "-e", "-c", CALL) == (0, "SERVING\n", "")
    assert run(folder, address, sys.executable, "-c", f"{CONNECT}\n{use}") == (0, "SERVING\n", "")


def test_documented_curl_command_and_errors_of_curl_over_tls(folder: Path, server: ServerProcess):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    port = find_http(server).rpartition(":")[2]
    command = f"{CURL.replace('8080', port).rstrip()} --silent --show-error"
    code, printed, _ = run(folder, server.address, "sh", "-c", command)
    assert (code, json.loads(printed)["version"]) == (0, metadata.version("tensor-reshape"))

    shown = re.findall(r"^\| `(curl: \(\d+\).*?)`", TLS_PAGE.read_text(), re.MULTILINE)
    plain, without_certificate, without_authority = [
        run(folder, server.address, "sh", "-c", command.replace(old, new))[2]
        for old, new in [
            ("https:", "http:"),
            ("--cert client.pem --key client.key", ""),
            ("--cacert authority.pem", ""),
        ]
    ]
    assert [plain.startswith(shown[0]), without_authority.startswith(shown[2])] == [True, True]
    assert re.match(r"curl: \((52|56)\)", without_certificate)  # the server may close before curl has sent the request


def test_pages_list_the_messages_of_connection_errors():
    texts = [read_prose(TLS_PAGE), read_prose(ROOT / "docs/troubleshooting.md")]
    shown = [span for text in texts for span in re.findall(r"`([^`]+)`", text) if len(span.split()) >= MESSAGE_WORDS]
    messages = [explanation.format(target="...", address="") for explanation in connections._CAUSES.values()]

    assert [message for message in messages if not message.startswith(tuple(shown))] == []


def test_documented_mtls_server_rejects_a_call_without_a_certificate(folder: Path, address: str):
    code, _, _ = run(folder, address, "tensor-reshape", "health", "--timeout", "2", "--tls-ca", "authority.pem")

    assert code == 5
