"""The pages are true: their code runs, what they name is there, what follows from the code is what they say."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import grpc
import pytest
from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict

from documents import PAGES, README, REFERENCE, ROOT, Block, find_blocks, read_blocks, read_prose
from http_calls import find_http, post
from raw_streams import begin, open_stream
from remote_refusals import catch_status, send_raw
from server_processes import ServerProcess, run_server
from tensor_reshape.cli.__main__ import COMMANDS as LAZY_COMMANDS
from tensor_reshape.cli.lazy_commands import load_all
from tensor_reshape.client import DataType, Reason
from tensor_reshape.rules.operations import OPERATIONS, Operation
from tensor_reshape.server.__main__ import SettingOption, serve
from tensor_reshape.v1 import reshape_pb2, reshape_pb2_grpc, tensor_pb2
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
DIRECTIVES = {"{eval-rst}", "{include}"}
"""What Sphinx puts in the place of the block."""
LANGUAGES = {"python", "console", "sh", "json", "js", "text", "ts", "go", "cpp", "py", "toml", "yaml", *DIRECTIVES}
"""`py` is Python that runs in another environment than this one. `yaml` is a kustomization:
tests/packaging/test_kubernetes.py renders it. `toml` is what tests/server/security/test_permissions.py reads."""
FOREIGN = {"js", "ts", "go", "cpp", "py"}
"""What a page shows in these is a file of the repository, which tests run: tests/clients, tests/frameworks, and
test_moving.py here; but for how-to/arrays.md, of which tests/frameworks runs each block, and for reports."""
FRAMEWORKS_PAGE = "arrays.md:"
REPORTS = tuple(f"{page.name}:" for page in (ROOT / "docs/conformance/reports").glob("*.md"))
"""Their programs run in the environments of the libraries: `scripts/adapters`."""
RUN = ("examples/clients", "examples/moving", "tests/clients/programs")
SHOWN = [
    block
    for name in sorted(FOREIGN)
    for block in find_blocks(name)
    if not block.name.startswith((FRAMEWORKS_PAGE, *REPORTS))
]
ADDRESS = "localhost:50051"
OPTIONS = [option for option in serve.params if isinstance(option, SettingOption)]
COMMANDS = load_all(LAZY_COMMANDS)
CALL = re.compile(r"^\s*tensor-reshape (\w+)(.*)$", re.MULTILINE)
FOLDERS = "core|client|server|docs|tests|protos|scripts|verification|examples|benchmarks|conformance"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)`")
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
README_LINES = 120
SERVICE = reshape_pb2.DESCRIPTOR.services_by_name["ReshapeService"]
OPERATIONS_PAGE = ROOT / "docs/concepts/operations.md"


def list_messages() -> list[Descriptor]:
    """Returns the messages of the contract, those inside others included."""
    files = (reshape_pb2.DESCRIPTOR, tensor_pb2.DESCRIPTOR)
    outer = [message for file in files for message in file.message_types_by_name.values()]
    inner = [nested for message in outer for nested in message.nested_types if not nested.GetOptions().map_entry]
    return [*outer, *inner]


def name_page(page: Path) -> str:
    return str(page.relative_to(ROOT))


def name_block(block: Block) -> str:
    return block.name


def test_the_readme_is_short():
    assert len(README.read_text().splitlines()) <= README_LINES


def test_the_two_commands_are_on_the_first_screen():
    screen = "\n".join(README.read_text().splitlines()[:35])

    assert re.findall(r"^scripts/\w+$", screen, re.MULTILINE) == ["scripts/demo", "scripts/test"]


def test_the_readme_links_to_nothing_that_a_package_index_does_not_have():
    assert LINK.findall(README.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_every_piece_of_code_says_what_it_is(page: Path):
    assert {block.language for block in read_blocks(page)} <= LANGUAGES


@pytest.mark.parametrize("block", SHOWN, ids=name_block)
def test_code_in_other_languages_is_a_file_that_runs(block: Block):
    files = [file for folder in RUN for file in (ROOT / folder).rglob("*") if file.is_file()]

    assert [file for file in files if file.read_text() == block.text] != []


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_page)
def test_the_python_code_runs(server: ServerProcess, page: Path):
    """Each block by itself, but in one process a page: most of what it takes is to import what they use."""
    blocks = [block for block in read_blocks(page) if block.language == "python"]
    given = json.dumps([(block.name, block.text.replace(ADDRESS, server.address)) for block in blocks])
    subprocess.run([sys.executable, "-c", RUN_BLOCKS], input=given, text=True, check=True)


@pytest.mark.timeout(400)  # each command is a process of its own, which takes seconds where others compute
@pytest.mark.parametrize("page", WITH_CONSOLE, ids=name_page)
def test_the_commands_print_what_the_page_says(server: ServerProcess, tmp_path: Path, page: Path):
    """The commands of a page follow each other in one folder."""
    shown = "".join(block.text for block in read_blocks(page) if block.language == "console")
    folder = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TENSOR_RESHAPE_SERVER": server.address}

    printed = ""
    for command in re.findall(r"^\$ (.*)$", shown, re.MULTILINE):
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        printed += f"$ {command}\n{done.stdout}"

    assert printed == shown


@pytest.mark.parametrize("block", [*find_blocks("sh"), *find_blocks("console")], ids=name_block)
def test_the_options_of_commands_exist(block: Block):
    calls = CALL.findall(block.text)
    unknown = [
        flag
        for command, rest in calls
        for flag in re.findall(r"(?<!\S)(--?[a-z][\w-]*)", rest.partition("#")[0])
        if not any(flag in (*option.opts, *option.secondary_opts) for option in COMMANDS[command].params)
    ]

    assert unknown == []


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_every_file_that_a_page_names_is_there(page: Path):
    scripts = re.findall(r"^(scripts/[\w-]+|benchmarks/[\w-]+)", page.read_text(), re.MULTILINE)

    assert [path for path in (*PATH.findall(read_prose(page)), *scripts) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_every_link_leads_somewhere(page: Path):
    broken = []
    for path, anchor in LINK.findall(read_prose(page)):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in list_anchors(target)):
            broken.append(f"{path}#{anchor}")

    assert broken == []


def list_anchors(page: Path) -> list[str]:
    headings = re.findall(r"^#+ (.*)$", read_prose(page), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings]


def test_the_written_parts_follow_from_the_code():
    env = {**os.environ, "PYTHONPATH": "tests/support"}
    done = subprocess.run(
        [sys.executable, "-m", "verification.document", "--check"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("reason", Reason)
def test_the_page_of_errors_has_a_row_for_every_reason(reason: Reason):
    assert len(find_rows("errors.md", reason)) == 1


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_the_page_of_the_configuration_has_a_row_for_every_option(option: click.Option):
    (row,) = find_rows("configuration.md", option.opts[0])

    assert option.help is not None
    assert option.help in row


def find_rows(page: str, first: str) -> list[str]:
    return [line for line in (REFERENCE / page).read_text().splitlines() if line.startswith(f"| `{first}`")]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_commands_has_every_option_of_a_command(name: str):
    _, _, rest = (REFERENCE / "commands.md").read_text().partition(f"\n## {name}\n")
    section = rest.partition("\n## ")[0]
    settings = {option.name for option in OPTIONS}
    options = [param for param in COMMANDS[name].params if isinstance(param, click.Option) and not param.hidden]

    assert section
    assert [one.opts for one in options if one.name not in settings and f"`{one.opts[0]}`" not in section] == []


@pytest.mark.parametrize("message", list_messages(), ids=lambda message: message.full_name)
def test_the_page_of_the_contract_has_every_field_of_a_message(message: Descriptor):
    name = message.full_name.removeprefix(f"{message.file.package}.")
    _, _, rest = (REFERENCE / "contract.md").read_text().partition(f"\n### {name}\n")
    shown = re.findall(r"^- \*\*`(\w+)`\*\* = (\d+)", rest.partition("\n### ")[0], re.MULTILINE)

    assert rest
    assert {(name, int(number)) for name, number in shown} == {(field.name, field.number) for field in message.fields}


@pytest.mark.parametrize("method", list(SERVICE.methods), ids=lambda method: method.name)
def test_the_page_of_the_contract_has_every_method(method: MethodDescriptor):
    assert f"\n#### {method.name}\n" in (REFERENCE / "contract.md").read_text()


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.name)
def test_the_page_of_operations_names_the_data_types_that_each_takes(operation: Operation):
    (row,) = re.findall(r"^\| data \|(.*)\|$", OPERATIONS_PAGE.read_text(), re.MULTILINE)
    cells = dict(zip(OPERATIONS, row.split("|"), strict=True))

    assert set(read_data_types(cells[operation.name])) == operation.data_types


def read_data_types(cell: str) -> list[DataType]:
    """Reads names of types; `i8 to i64` are those from the one to the other."""
    ends = [[DataType[name.strip().upper()] for name in item.split(" to ")] for item in cell.split(",")]
    return [data_type for first, *last in ends for data_type in DataType if first <= data_type <= (*last, first)[0]]


def find_call() -> tuple[str, dict[str, Any]]:
    """Returns the method and the request of the page's grpcurl command."""
    (command,) = [block.text for block in find_blocks("sh") if "grpcurl" in block.text]
    method, body = re.findall(r"/(\w+)$", command.strip())[0], re.findall(r"-d '(.*?)'", command, re.DOTALL)[0]
    return method, json.loads(body)


def test_what_grpcurl_sends_is_answered_as_the_page_says(server: ServerProcess):
    method, body = find_call()
    named = [block.text for block in find_blocks("json") if "clients.md" in block.name]
    (shown,) = [json.loads(text) for text in named if "value" in text]

    with grpc.insecure_channel(server.address) as channel:
        stub = reshape_pb2_grpc.ReshapeServiceStub(channel)
        answer = getattr(stub, method)(ParseDict(body, reshape_pb2.InferShapeRequest()))

    assert MessageToDict(answer) == shown


def find_service_config() -> str:
    (config,) = [block.text for block in find_blocks("json") if "methodConfig" in block.text]
    return config


def test_what_curl_sends_over_http_is_answered_as_the_page_says():
    (command,) = [block.text for block in find_blocks("sh") if "curl" in block.text and "--json" in block.text]
    answer, refusal = [json.loads(block.text) for block in find_blocks("json") if "http.md" in block.name]
    match = re.search(r"http://[^/]*(/\S+) --json '(.*)'", command, re.DOTALL)
    assert match is not None
    question = json.loads(match[2])
    with run_server("--http-listen", "127.0.0.1:0") as server:
        assert post(find_http(server), question, match[1]).document == answer
        told = post(find_http(server), {**question, "shape": {"dims": [{"value": -2}]}}, match[1]).document
    assert told == refusal


def test_a_client_with_the_service_config_of_the_page_asks_a_full_server_again():
    with (
        run_server("--max-calls", "1") as server,
        grpc.insecure_channel(server.address) as busy,
        open_stream(busy, begin()) as stream,
        grpc.insecure_channel(server.address, [("grpc.service_config", find_service_config())]) as channel,
    ):
        stream.accept()
        start = time.monotonic()
        catch_status(lambda: send_raw(channel, "InferShape", b""))
        pauses = time.monotonic() - start

    assert pauses > 2.5 * RETRY_SECONDS  # between four attempts
