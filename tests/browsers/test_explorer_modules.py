"""The modules of the explorer in Chromium, compared with the Python package: reading shapes, and queries as code."""

import contextlib
import io
import json
import subprocess
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from google.protobuf import json_format
from hypothesis import assume, given
from hypothesis import strategies as st
from playwright.sync_api import Page

from browsers import HOSTILE, QUERY_TEXTS, SHAPE_TEXTS, QueryText
from command_line import run_command
from hypothesis_profiles import examples
from server_processes import ServerProcess
from tensor_reshape.client import ReshapeError
from tensor_reshape.rules.dims import format_dims, read_unknown
from tensor_reshape.rules.notation import parse_shape
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.dims import encode_shape
from tensor_reshape.wire.inference import build_infer_request, read_infer_response

FEW = examples(25)
EXAMPLE = QueryText("N,4,2..8", "0,-1", "true", "reshape", "?,?")
TABLE = [
    "",
    "[]",
    "()",
    " ",
    "[ ... ]",
    "unknown",
    "[2, 3,4 ]",
    "(2,)",
    "(2,3)",
    "2x3x-1",
    "[2 x 3]",
    "3,",
    ",3",
    "00",
    "..8",
    "2..8..9",
    "N:0..",
    "N: 1..",
    "N:1",
    ":1..2",
    "1:2",
    "N**3",
    "N^0",
    "N^100",
    "2^3",
    "1*N",
    "N/N",
    "(A*B)/(C*D)",
    "(N*M)",
    "N*M:4..7",
    "N/0",
    "0*N",
    "1/N",
    "12",
    "4*3",
    "B*A*b",
    "4*(seq + past)",
    "Max(1, N)",
    "f(g(x))",
    "floor(h / 2)*3",
    "a//b",
    "/model/x.1_dim_0",
    "onnx::Reshape_12_dim_0",
    "a - b:1..2",
    "-N",
    "N+1,M",
    "(a + b, c)",
    "'my dim'",
    "'it''s'",
    "'N'",
    "'seq + past'",
    "' N '",
    "'('*2",
    "None",
    "'None'",
    "x y",
    "3-",
    "1.5",
    "N.",
    "1.5*N",
    "N.1",
    "1N",
    "N%2",
    "a**2 + b",
    "n²",
    "\u0301",
    "N\u00a0",
    "N\u2003,2",
    "\ufeffN",
    "'\u202e'",
    f"{2**53 + 1}",
    f"{2**63 - 1}",
    f"-{2**63}",
    f"2..{2**63 - 1}",
    f"{2**63}*N",
    "9" * 41,
    "N" * 64,
    "N" * 65,
    "N" * 4097,
    "(" * 16 + "N" + ")" * 16,
    "(" * 17 + "N" + ")" * 17,
    "[(N)]",
    "(N",
    "N)",
    "[2",
    "x",
    *HOSTILE,
]
"""Texts in addition to those of `SHAPE_TEXTS`, from which Hypothesis chooses."""

READ = """async ([texts, name]) => {
  const { buildRequest } = await import("/explore/queries.js");
  return texts.map((text) => {
    const query = new URLSearchParams({ data: "1", shape: "1", expected: "1", special_zero: "true", [name]: text });
    try {
      return JSON.stringify(buildRequest(query, "reshape"));
    } catch ({ reason, field }) {
      return JSON.stringify({ reason, field });
    }
  });
}"""
FORMAT = """async (shapes) => {
  const { formatShape } = await import("/explore/notation.js");
  return shapes.map(formatShape);
}"""
WRITE = """async ([query, operation, link]) => {
  const [{ buildRequest }, { writeSnippets }] = await Promise.all(
    ["/explore/queries.js", "/explore/snippets.js"].map((name) => import(name)));
  const parsed = new URLSearchParams(query);
  try {
    return writeSnippets(parsed, operation, buildRequest(parsed, operation), link);
  } catch (error) {
    if (!error.reason) throw error;
    return [];
  }
}"""


def read_here(name: str, text: str) -> tuple[str, str] | reshape_pb2.InferShapeRequest:
    """Returns the message of a query, or the reason and the field of its rejection."""
    query = EXAMPLE._replace(data="1", shape="1", expected="1")._replace(**{name: text})
    try:
        request = query.read()
    except ReshapeError as error:
        return str(error.reason), error.field
    try:
        return build_infer_request(request)
    except ValueError:
        return "DIM_OUT_OF_RANGE", ""


def check_reading(page: Page, texts: list[str]) -> None:
    for name in ("data", "shape", "expected"):
        for text, written in zip(texts, page.evaluate(READ, [texts, name]), strict=True):
            found, expected = json.loads(written), read_here(name, text)
            if isinstance(expected, tuple):
                reason, field = expected
                assert found["reason"] == reason, (name, text)
                assert found["field"] == field or not field, (name, text)
            else:
                message = json_format.ParseDict(found, reshape_pb2.InferShapeRequest())
                assert message == expected, (name, text)


def check_writing(page: Page, texts: list[str]) -> None:
    shapes, expected = list[Any](), list[str]()
    for text in texts:
        with contextlib.suppress(ReshapeError, ValueError):
            dims = read_unknown(parse_shape(text, ""))
            shapes.append(None if dims is None else json_format.MessageToDict(encode_shape(dims)))
            expected.append(format_dims(dims))
    assert page.evaluate(FORMAT, shapes) == expected


def test_explorer_reads_and_writes_shapes_like_the_package(page: Page, link: str):
    page.goto(link)
    check_reading(page, TABLE)
    check_writing(page, TABLE)

    @examples(50)
    @given(st.lists(SHAPE_TEXTS, min_size=1, max_size=50))
    def check(texts: list[str]) -> None:
        check_reading(page, texts)
        check_writing(page, texts)

    check()


def write_snippets(page: Page, text: QueryText, link: str) -> dict[str, str]:
    """Returns the code for a query by its title; empty if the query cannot be read."""
    query = urlencode({name: value for name, value in text._asdict().items() if value or name in {"data", "shape"}})
    url = f"{link}tensor_reshape.v1.ReshapeService/InferShape"
    return {one["title"]: one["text"] for one in page.evaluate(WRITE, [query, text.operation, url])}


def run_python(code: str) -> str:
    """Runs code. Returns the shape that it prints, or the reason of its error."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "<snippet>", "exec"), {})
    except ReshapeError as error:
        return str(error.reason)
    return printed.getvalue().strip()


def split_words(command: str) -> list[str]:
    """Returns the words of a command, as bash reads them."""
    program = command.split(maxsplit=1)[0]
    script = f"{program}() {{ printf '%s\\0' \"$@\"; }}\n{command}"
    run = subprocess.run(["bash", "-c", script], capture_output=True, check=True, timeout=30)
    return run.stdout.decode().split("\0")[:-1]


def read_reply(reply: bytes) -> str:
    """Returns the output shape of a response of InferShape, or the reason of the rejection."""
    document = json.loads(reply)
    if "details" in document:
        return str(document["details"][0]["reason"])
    return format_dims(read_infer_response(json_format.ParseDict(document, reshape_pb2.InferShapeResponse())).dims)


def run_command_line(command: str) -> str:
    """Runs a command. Returns the shape that it prints, or the reason of its error."""
    outcome = run_command(*split_words(command))
    if outcome.code == 0:
        shape, *_ = outcome.output.decode().split("\n")
        return f"[{shape}]"
    assert outcome.code in {3, 4}
    return outcome.errors[-1].rpartition("[")[2].strip("]")


def run_curl(command: str) -> str:
    run = subprocess.run(["bash", "-c", command], capture_output=True, check=True, timeout=30)
    return read_reply(run.stdout)


RUNNERS: dict[str, Callable[[str], str]] = {
    "Python, without a server": run_python,
    "Python, with a server": run_python,
    "Command line": run_command_line,
    "JSON, by HTTP": run_curl,
}


@pytest.mark.parametrize("title", RUNNERS)
def test_snippet_returns_the_result_of_the_query(page: Page, link: str, server: ServerProcess, title: str):
    page.goto(link)

    @FEW
    @given(QUERY_TEXTS)
    def check(text: QueryText) -> None:
        snippets = write_snippets(page, text, link)
        assume(snippets)  # its numbers fit into a message
        code = snippets[title].replace("127.0.0.1:50051", server.address)
        assert RUNNERS[title](code).replace(", ", ",") == text.find_outcome().replace(", ", ",")

    check()


def test_python_snippet_calls_the_host_of_the_page(page: Page, link: str):
    page.goto(link)
    for address, client in {
        "http://10.0.0.9:8080/x/": 'Client("10.0.0.9:50051")',
        "https://[fd00::1]/": 'Client("[fd00::1]:50051", credentials=grpc.ssl_channel_credentials())',
    }.items():
        code = write_snippets(page, EXAMPLE, address)["Python, with a server"]
        assert f"\nwith {client} as client:\n" in code
        assert ("import grpc" in code) == ("grpc." in client)


def test_long_snippet_line_is_wrapped_between_arguments(page: Page, link: str):
    page.goto(link)
    snippets = write_snippets(page, EXAMPLE, link)
    assert snippets["Python, without a server"] == (
        "from tensor_reshape.client import infer_shape_locally\n\n"
        "output = infer_shape_locally(\n"
        '    ["N", 4, "2..8"],\n'
        "    [0, -1],\n"
        "    special_zero=True,\n"
        '    operation="reshape",\n'
        "    expected_shape=[None, None],\n"
        ")\n"
        "print(output)\n"
    )
    assert snippets["Command line"].splitlines()[1] == "    --data N,4,2..8 \\"


def test_snippets_for_any_readable_text_are_printable_and_compile(page: Page, link: str):
    page.goto(link)

    @FEW
    @given(SHAPE_TEXTS, SHAPE_TEXTS)
    def check(data: str, shape: str) -> None:
        for title, code in write_snippets(page, QueryText(data, shape), link).items():
            assert all(character.isprintable() or character == "\n" for character in code)
            if title.startswith("Python"):
                compile(code, "<snippet>", "exec")

    check()
