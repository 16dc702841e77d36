"""The code on the page: run without changes, each snippet makes exactly the query."""

import contextlib
import io
import json
import subprocess
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from hypothesis import assume, given

from command_line import run_command
from explorations import HOSTILE_TEXTS, QUERY_TEXTS, SERVICE, show
from hypothesis_profiles import examples
from server_processes import ServerProcess
from tensor_reshape.client import InferredShape, ReshapeError
from tensor_reshape.explorer.query_parser import QueryText
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.inference import decode_infer_response

FEW = examples(25)
EXAMPLE = QueryText("N,4,2..8", "0,-1", "reshape", "true", "?,?", "http://localhost:8080/")


def find_snippet(record: dict[str, Any], title: str) -> str:
    """Returns the code with a title."""
    return next(str(snippet["text"]) for snippet in record["snippets"] if snippet["title"] == title)


def run_python(code: str) -> tuple[str, str]:
    """Runs code. Returns its result or the reason of its error, and its output."""
    printed, names = io.StringIO(), dict[str, Any]()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(code, "<snippet>", "exec"), names)
        except ReshapeError as error:
            return str(error.reason), ""
    output = names["output"]
    return str(output.reason) if isinstance(output, ReshapeError) else str(output), printed.getvalue().strip()


def find_outcome(record: dict[str, Any]) -> str:
    return str(record["answer"]["text"] if "answer" in record else record["rejection"]["reason"])


def split_words(command: str) -> list[str]:
    """Returns the words of a command, as bash reads them."""
    program = command.split(maxsplit=1)[0]
    script = f"{program}() {{ printf '%s\\0' \"$@\"; }}\n{command}"
    run = subprocess.run(["bash", "-c", script], capture_output=True, check=True, timeout=30)
    return run.stdout.decode().split("\0")[:-1]


def test_python_snippets_return_the_displayed_result(server: ServerProcess):
    @FEW
    @given(QUERY_TEXTS)
    def check(text: QueryText) -> None:
        record = show(text, server.address)
        for title in ("Python, without a server", "Python, with a server"):
            outcome, printed = run_python(find_snippet(record, title))
            assert outcome == find_outcome(record), title
            assert printed == outcome or "rejection" in record, title

    check()


def test_python_snippet_contains_an_address_reachable_by_clients():
    rows: list[tuple[tuple[str, ...], str, str]] = [
        (("127.0.0.1:7",), "http://10.0.0.9/", '"127.0.0.1:7"'),  # only this machine can call it
        (("127.0.0.1:7", "0.0.0.0:50052"), "http://10.0.0.9:80/x/", '"10.0.0.9:50052"'),
        (("unix:/s", "[::]:1"), "https://[fd00::1]/", '"[fd00::1]:1", credentials=grpc.ssl_channel_credentials()'),
        (("0.0.0.0:1",), "", '"localhost:1"'),
        (("0.0.0.0:1",), 'http://x"+exit()+"/', '"localhost:1"'),
    ]
    for listen, page, client in rows:
        code = find_snippet(show(EXAMPLE._replace(server=page), *listen), "Python, with a server")
        assert f"\nwith Client({client}) as client:\n" in code
        assert ("import grpc" in code) == ("grpc." in client)


def test_snippets_do_not_show_the_path_of_a_unix_socket():
    record = show(EXAMPLE, "unix:/run/secret.sock")
    assert "secret" not in str(record)
    assert record["snippets"][0]["title"] == "Python, without a server"


@FEW
@given(QUERY_TEXTS)
def test_command_line_snippet_prints_the_displayed_result(text: QueryText):
    record = show(text)
    outcome = run_command(*split_words(find_snippet(record, "Command line")))
    if "answer" in record:
        dims = [dim["text"] for dim in record["answer"]["dims"]]
        shape = "..." if record["answer"]["text"] == "[...]" else ",".join(dims)
        assert (outcome.code, outcome.output.decode().split("\n")[0]) == (0, shape)
    else:
        assert outcome.code in {3, 4}
        assert record["rejection"]["reason"] in outcome.errors[-1]


@FEW
@given(QUERY_TEXTS)
def test_json_snippet_describes_the_displayed_query(text: QueryText):
    record = show(text._replace(server="http://localhost:8080/"))
    assume(len(record["snippets"]) == 4)  # its numbers fit into a message
    words = split_words(find_snippet(record, "JSON, by HTTP"))
    assert words[:4] == [
        "-s",
        "http://localhost:8080/tensor_reshape.v1.ReshapeService/InferShape",
        "-H",
        "Content-Type: application/json",
    ]
    message = json_format.Parse(words[5], reshape_pb2.InferShapeRequest())
    try:
        outcome = str(InferredShape(decode_infer_response(SERVICE.queries.respond(message.SerializeToString()))))
    except ReshapeError as error:
        outcome = str(error.reason)
    assert outcome == find_outcome(record)


def test_long_snippet_line_is_wrapped_between_arguments():
    texts = {snippet["title"]: snippet["text"] for snippet in show(EXAMPLE)["snippets"]}
    assert texts["Python, without a server"] == (
        "from tensor_reshape.client import ShapeQuery, infer_locally\n\n"
        "query = ShapeQuery(\n"
        '    data_shape=["N", 4, "2..8"],\n'
        "    shape=[0, -1],\n"
        "    special_zero=True,\n"
        '    operation="reshape",\n'
        "    expected_shape=[None, None],\n"
        ")\n"
        "(output,) = infer_locally([query])\n"
        "print(output)\n"
    )
    assert texts["Command line"].splitlines()[1] == "    --data N,4,2..8 \\"


@examples(50)
@given(HOSTILE_TEXTS)
def test_snippets_for_hostile_text_are_printable_and_compile(text: QueryText):
    for snippet in show(text._replace(special_zero="true", operation="")).get("snippets", []):
        code = snippet["text"]
        assert all(character.isprintable() or character == "\n" for character in code)
        if snippet["title"].startswith("Python"):
            compile(code, "<snippet>", "exec")
            assert code.count("\n") < 40


def test_shell_snippet_escapes_the_server_address(tmp_path: Path):
    owned = tmp_path / "owned"
    record = show(EXAMPLE._replace(server=f"http://x/'; touch {owned}; echo '"))
    words = split_words(find_snippet(record, "JSON, by HTTP"))
    assert not owned.exists()
    assert json.loads(words[5])["operation"] == "OPERATION_RESHAPE"
