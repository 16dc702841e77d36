"""The code in the pages runs, the files that they name exist, and their facts match the code."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from documents import ADDRESS, DESCRIPTION, PAGES, README, ROOT, find_blocks, read_blocks, read_prose, run_console
from http_calls import find_http, post
from plain_requests import begin, build_static_request, catch_status, open_stream, send_raw
from server_processes import ServerProcess, run_server
from tensor_reshape.cli.__main__ import COMMANDS as LAZY_COMMANDS
from tensor_reshape.cli.lazy_commands import load_all
from tensor_reshape.client import DataType
from tensor_reshape.rules.operations import OPERATIONS
from tensor_reshape.server.engine import lifecycle
from tensor_reshape.v1 import reshape_pb2, reshape_pb2_grpc
from tensor_reshape.wire.status import RETRY_SECONDS

WITH_PYTHON, WITH_CONSOLE = (
    [page for page in PAGES if any(block.language == language for block in read_blocks(page))]
    for language in ("python", "console")
)
RUN_BLOCKS = """
import json, sys

for name, text in json.load(sys.stdin):
    exec(compile(text, name, "exec"), {"__name__": "__main__"})
"""
DIRECTIVES = {"{eval-rst}", "{include}", "{literalinclude}"}
"""Blocks that Sphinx replaces."""
LANGUAGES = {
    "python",
    "console",
    "sh",
    "json",
    "js",
    "text",
    "ts",
    "go",
    "cpp",
    "java",
    "py",
    "toml",
    "yaml",
    *DIRECTIVES,
}
"""`py` is Python code that runs in another environment. tests/packaging/test_kubernetes.py and
tests/deploy/test_compose.py render the `yaml` blocks, and tests/server/security/test_permissions.py reads the `toml`
block."""
FOREIGN = {"js", "ts", "go", "cpp", "java", "py"}
"""Blocks in these languages are parts of files that scripts/verify clients, tests/frameworks and
test_page_programs.py run."""
RUN = ("examples/clients", "examples/moving")
RUN_ELSEWHERE = ("arrays.md:", *(f"{page.name}:" for page in (ROOT / "docs/conformance/reports").glob("*.md")))
"""Pages whose blocks tests/frameworks or `scripts/verify adapters` runs."""
COMMANDS = load_all(LAZY_COMMANDS)
CALL = re.compile(r"^\s*tensor-reshape (\w+)(.*)$", re.MULTILINE)
FOLDERS = "core|client|tools|server|docs|tests|protos|scripts|verification|examples|benchmarks|conformance"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)`")
LINK = re.compile(r"\]\((?!https?:)([^)]*)\)")
README_LINES = 140
OUTSIDE_THE_SITE = (ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md")
OPERATIONS_PAGE = ROOT / "docs/concepts/operations.md"
ARCHITECTURE = ROOT / "docs/architecture"
LAYOUT, *LAYERS = [block.text.splitlines() for block in read_blocks(ARCHITECTURE / "overview.md")]


def name_page(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_readme_is_short_and_has_no_relative_links():
    lines = README.read_text().splitlines()

    assert len(lines) <= README_LINES
    assert [line for line in lines[:35] if re.fullmatch(r"scripts/\w+", line)] == ["scripts/demo", "scripts/test"]
    assert LINK.findall(README.read_text()) == []


@pytest.mark.parametrize("page", [DESCRIPTION, ROOT / "protos/README.md"], ids=name_page)
def test_description_for_a_package_index_has_no_relative_links(page: Path):
    assert re.findall(r"\]\((?!https:)|<(?:a|img)\b|^\[.*\]:", page.read_text(), re.MULTILINE) == []


def test_description_for_a_package_index_lists_every_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert re.findall(r"^\| `(\w+)` \|", DESCRIPTION.read_text(), re.MULTILINE) == [*project["optional-dependencies"]]


def test_documentation_code_blocks_have_a_tested_language():
    blocks = [block for page in PAGES for block in read_blocks(page)]
    assert [block.name for block in blocks if block.language not in LANGUAGES] == []

    texts = {file.read_text() for folder in RUN for file in (ROOT / folder).rglob("*") if file.is_file()}
    foreign = [block for block in blocks if block.language in FOREIGN and not block.name.startswith(RUN_ELSEWHERE)]
    assert [block.name for block in foreign if block.text not in texts] == []


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_page)
def test_python_code_of_each_documentation_page_runs(server: ServerProcess, tmp_path: Path, page: Path):
    """Each block runs by itself, but the blocks of a page share a process, because imports take most of the time."""
    blocks = [block for block in read_blocks(page) if block.language == "python"]
    given = json.dumps([(block.name, block.text.replace(ADDRESS, server.address)) for block in blocks])
    subprocess.run([sys.executable, "-c", RUN_BLOCKS], cwd=tmp_path, input=given, text=True, check=True)


@pytest.mark.timeout(400)  # each command is a process, which takes seconds on a busy machine
@pytest.mark.parametrize("page", WITH_CONSOLE, ids=name_page)
def test_commands_of_each_documentation_page_print_the_shown_output(server: ServerProcess, tmp_path: Path, page: Path):
    """The commands of a page run in one folder, one after the other. It has the examples, and the files that the page
    shows.
    """
    folder = Path(sys.executable).parent
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TENSOR_RESHAPE_SERVER": server.address}

    shown, printed = run_console(page, tmp_path, env)
    assert printed == shown


def test_documented_commands_use_existing_options():
    for block in find_blocks("sh"):  # commands in `console` blocks run
        for command, rest in CALL.findall(block.text):
            known = {flag for option in COMMANDS[command].params for flag in (*option.opts, *option.secondary_opts)}
            given = set(re.findall(r"(?<!\S)(--?[a-z][\w-]*)", rest.partition("#")[0]))
            assert given <= known, block.name


def test_files_named_on_documentation_pages_exist():
    for page in PAGES:
        named = re.findall(r"^(scripts/[\w-]+|benchmarks/[\w-]+)", page.read_text(), re.MULTILINE)
        assert [path for path in (*PATH.findall(read_prose(page)), *named) if not (ROOT / path).exists()] == [], page
    # test_site.py follows the links in docs/.
    links = [path for page in OUTSIDE_THE_SITE for path in LINK.findall(read_prose(page))]
    assert [path for path in links if not (ROOT / path.partition("#")[0]).exists()] == []


def test_documented_commands_that_select_tests_find_tests():
    commands = re.findall(
        r"^scripts/test ([^#\n]*-k.*)$", "".join(block.text for block in find_blocks("sh")), re.MULTILINE
    )
    assert commands
    for command in commands:
        collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", *shlex.split(command, comments=True)]
        subprocess.run(collect, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def test_architecture_overview_shows_every_package_and_existing_folders():
    shown = {ROOT / path for line in LAYOUT if not line.startswith(" ") for path in read_paths(line)}

    assert {path.parent for path in ROOT.glob("*/tensor_reshape/*/__init__.py")} <= shown
    assert [path for path in shown if not path.is_dir()] == []


def test_architecture_overview_shows_every_package_of_the_server():
    shown = [path for line in LAYOUT if line.startswith(" ") for path in read_paths(line.strip())]
    server = ROOT / "server/tensor_reshape/server"
    modules = [path.stem for path in server.glob("*.py") if path.stem != "__init__"]

    assert sorted(shown) == sorted([*modules, *(path.parent.name for path in server.glob("*/__init__.py"))])


def read_paths(line: str) -> list[str]:
    """Reads the paths before the description in a line. Braces list the packages of a folder."""
    paths, *_ = re.split(r"  +", line)
    folder, _, packages = paths.rpartition("{")
    return [folder + name.strip("/ }") for name in (packages or paths).split(",")]


def test_architecture_overview_shows_the_layers_of_the_import_contracts():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [contract["layers"] for contract in contracts if contract["type"] == "layers"]

    assert [[line.split(", ") for line in shown] for shown in LAYERS] == [
        [[name.rpartition(".")[2] for name in layer.split(" | ")] for layer in contract] for contract in layers
    ]


def test_architecture_page_has_a_row_for_every_state_of_a_call():
    rows = re.findall(r"^\| ([A-Z_]+) \|", (ARCHITECTURE / "calls.md").read_text(), re.MULTILINE)

    assert sorted(rows) == sorted(lifecycle.State.__members__)


def test_architecture_page_names_modules_that_exist():
    paths = [str(path) for path in ROOT.glob("*/tensor_reshape/**/*")]
    for page in ARCHITECTURE.glob("*.md"):
        named = re.findall(r"`([a-z_/]+/(?:\w+\.py)?)`", page.read_text())
        missing = [name for name in named if not (ROOT / name).exists() and not any(has(path, name) for path in paths)]
        assert missing == [], page


def has(path: str, name: str) -> bool:
    """Whether a path ends in a name, which is a module, or a folder if it ends in a slash."""
    return path.endswith(f"/{name.removesuffix('/')}")


def test_operations_page_lists_the_data_types_of_each_operation():
    (row,) = re.findall(r"^\| data \|(.*)\|$", OPERATIONS_PAGE.read_text(), re.MULTILINE)
    shown = {name: set(read_data_types(cell)) for name, cell in zip(OPERATIONS, row.split("|"), strict=True)}

    assert shown == {name: operation.data_types for name, operation in OPERATIONS.items()}


def read_data_types(cell: str) -> list[DataType]:
    """Reads names of types. `i8 to i64` stands for all types from i8 to i64."""
    ends = [[DataType[name.strip().upper()] for name in item.split(" to ")] for item in cell.split(",")]
    return [data_type for first, *last in ends for data_type in DataType if first <= data_type <= (*last, first)[0]]


def test_documented_grpcurl_command_prints_the_shown_response(server: ServerProcess):
    (command,) = [block.text for block in find_blocks("sh") if "grpcurl" in block.text]
    (method,), (body,) = re.findall(r"/(\w+)$", command.strip()), re.findall(r"-d '(.*?)'", command, re.DOTALL)
    blocks = [block.text for block in find_blocks("json") if "clients.md" in block.name]
    (shown,) = [json.loads(text) for text in blocks if "conditionsComplete" in text]

    with grpc.insecure_channel(server.address) as channel:
        stub = reshape_pb2_grpc.ReshapeServiceStub(channel)
        answer = getattr(stub, method)(ParseDict(json.loads(body), reshape_pb2.InferShapeRequest()))

    assert MessageToDict(answer) == shown


@pytest.mark.parametrize("page", ["http", "inference-protocol"])
def test_documented_curl_commands_print_the_shown_responses(page: str):
    """Each command stands before the response that it prints."""
    blocks = read_blocks(ROOT / f"docs/how-to/{page}.md")
    shown = [(command, response) for command, response in pairwise(blocks) if command.text.startswith("curl ")]
    assert shown
    with run_server("--http-listen", "127.0.0.1:0") as server:
        printed = [call_like_curl(find_http(server), command.text) for command, _ in shown]
    assert printed == [json.loads(response.text) for _, response in shown]


def call_like_curl(address: str, command: str) -> object:
    """Returns the JSON that `curl URL --json BODY` prints. Further options may be headers."""
    _, url, *options = shlex.split(command)
    values = dict(zip(options[::2], options[1::2], strict=True))
    name, _, value = values.pop("--header", "").partition(": ")
    body = json.loads(values.pop("--json"))
    assert values == {}
    return post(address, body, urlsplit(url).path, {name: value} if name else {}).document


def test_documented_service_config_retries_a_full_server():
    (config,) = [block.text for block in find_blocks("json") if "methodConfig" in block.text]
    with (
        run_server("--max-calls", "1") as server,
        grpc.insecure_channel(server.address) as busy,
        open_stream(busy, begin()) as stream,
        grpc.insecure_channel(server.address, [("grpc.service_config", config)]) as channel,
    ):
        stream.accept()
        start = time.monotonic()
        catch_status(lambda: send_raw(channel, "InferShape", b""))
        pauses = time.monotonic() - start

    assert pauses > 2.5 * RETRY_SECONDS  # between four attempts


def test_documented_service_config_sends_a_call_above_a_limit_once():
    (config,) = [block.text for block in find_blocks("json") if "methodConfig" in block.text]
    request = build_static_request() * 2000  # more bytes before the elements than a header may have
    with run_server() as server, grpc.insecure_channel(server.address, [("grpc.service_config", config)]) as channel:
        assert (
            catch_status(lambda: send_raw(channel, "StaticReshape", request)).code()
            is grpc.StatusCode.RESOURCE_EXHAUSTED
        )
        server.stop()
    assert [record["message"] for record in server.records].count("rejected") == 1
