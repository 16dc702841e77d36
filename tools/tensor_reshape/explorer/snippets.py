"""Writes a query as code that users can copy: Python, a command, and JSON for the HTTP port.

Invariants: a snippet runs without changes and sends exactly the given query. In a snippet, any text from the query is
one Python literal or one argument of a shell command, and consists of printable characters.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote

from google.protobuf import json_format

from tensor_reshape.explorer.query_parser import QueryText
from tensor_reshape.rules.operations import STATIC_RESHAPE
from tensor_reshape.rules.questions import ShapeRequest
from tensor_reshape.rules.shape_parser import split_items
from tensor_reshape.runtime.addresses import is_local
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.methods import INFER_SHAPE

_UNKNOWN = "..."
_LINE_CHARACTERS = 60
_COMMAND_CHARACTERS = 88
_OF_ADDRESSES = ":/?#[]@!$&'()*+,;=%"
_CONTINUED = " \\\n    "
_PAGE = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]+)?/.*", re.DOTALL)


class Snippet(NamedTuple):
    """A piece of code with a title, which users can copy.

    Attributes:
        title: the language of the code, and what the code needs.
        text: the code.
    """

    title: str
    text: str


def write_snippets(
    text: QueryText,
    request: ShapeRequest,
    message: reshape_pb2.InferShapeRequest | None,
    listen: Sequence[str],
) -> list[Snippet]:
    """Returns the query in the form of code.

    Args:
        text: the query as text, which is valid.
        request: the parsed query.
        message: the query as a message of the API. The value is None if a number of the query does not fit into a
            message.
        listen: the gRPC addresses of the server, with their real ports.
    """
    arguments = list(_list_arguments(text, request))
    call = _write_call(arguments, listen, text.server)
    texts = {
        "Python, with a server": call,
        "Python, without a server": _write_local_call(arguments),
        "Command line": _write_command(text, request),
        "JSON, by HTTP": None if message is None else _write_post(text.server, message),
    }
    return [Snippet(title, code) for title, code in texts.items() if code is not None]


def _list_arguments(text: QueryText, request: ShapeRequest) -> Iterator[tuple[str, str]]:
    """Yields the names and values of the `ShapeQuery` arguments."""
    question = request.question
    yield "data_shape", _write_shape(text.data)
    yield "shape", _write_shape(text.shape)
    yield "special_zero", repr(question.special_zero)
    if question.operation is not STATIC_RESHAPE:
        yield "operation", _quote(question.operation.name)
    if question.expected is not None:
        yield "expected_shape", _write_shape(text.expected)


def _write_call(arguments: list[tuple[str, str]], listen: Sequence[str], page: str) -> str | None:
    """Returns Python code that calls the SDK. The result is None if the server has no port for gRPC."""
    match = _PAGE.fullmatch(page)
    scheme, host = match.groups() if match else ("http", "localhost")
    target = _find_target(listen, host)
    if target is None:
        return None
    # The gRPC port of a server uses TLS if its HTTP port does.
    imports, options = (
        ("import grpc\n\n", ", credentials=grpc.ssl_channel_credentials()") if scheme == "https" else ("", "")
    )
    # The input shape and the requested shape are positional arguments of `infer_shape`.
    words = [value if name in {"data_shape", "shape"} else f"{name}={value}" for name, value in arguments]
    return (
        f"{imports}from tensor_reshape.client import Client\n\n"
        f"with Client({_quote(target)}{options}) as client:\n"
        f"    output = client.infer_shape({_join(words, indent=4)})\n"
        "print(output)\n"
    )


def _find_target(listen: Sequence[str], host: str) -> str | None:
    """Returns the gRPC target for a user of the page at `host`.

    Unix sockets are ignored, because users of the page may be on other machines.
    """
    ports = [address for address in listen if not address.startswith("unix:")]
    exposed = [address for address in ports if not is_local(address)]
    # A server may listen on the address of all interfaces, to which no client can connect, so the host of the page is
    # used.
    return f"{host}:{exposed[0].rpartition(':')[2]}" if exposed else next(iter(ports), None)


def _write_local_call(arguments: list[tuple[str, str]]) -> str:
    words = [f"{name}={value}" for name, value in arguments]
    return (
        "from tensor_reshape.client import ShapeQuery, infer_locally\n\n"
        f"query = ShapeQuery({_join(words, indent=0)})\n"
        "(output,) = infer_locally([query])\n"
        "print(output)\n"
    )


def _join(words: list[str], *, indent: int) -> str:
    """Returns arguments on one line if they fit, and otherwise one per line."""
    if sum(len(word) + len(", ") for word in words) <= _LINE_CHARACTERS:
        return ", ".join(words)
    margin = "\n" + " " * indent
    return "".join(f"{margin}    {word}," for word in words) + margin


def _write_command(text: QueryText, request: ShapeRequest) -> str:
    question = request.question
    words = ["tensor-reshape infer", _write_option("data", text.data), _write_option("shape", text.shape)]
    if question.special_zero is not None:
        words.append("--special-zero" if question.special_zero else "--no-special-zero")
    if question.operation is not STATIC_RESHAPE:
        words.append(f"--operation {question.operation.name}")
    if question.expected is not None:
        words.append(_write_option("expect", text.expected))
    return _join_words([*words, "--explain --local"])


def _write_post(server: str, message: reshape_pb2.InferShapeRequest) -> str:
    # The URL is written in ASCII and without spaces, as browsers do, because other programs may send it in another
    # form.
    url = f"{quote(server.rstrip('/'), safe=_OF_ADDRESSES, errors='replace')}{INFER_SHAPE.path}"
    body = json_format.MessageToJson(message, indent=None, preserving_proto_field_name=True)
    return _join_words(
        [f"curl -s {shlex.quote(url)}", "-H 'Content-Type: application/json'", f"-d {shlex.quote(body)}"]
    )


def _join_words(words: list[str]) -> str:
    """Returns a shell command on one line if it fits, and otherwise on several lines."""
    line = " ".join(words)
    return f"{line if len(line) <= _COMMAND_CHARACTERS else _CONTINUED.join(words)}\n"


def _write_shape(text: str) -> str:
    items = split_items(text)
    return "None" if items is None else f"[{', '.join(_write_dim(item.text) for item in items)}]"


def _write_dim(text: str) -> str:
    if text == "?":
        return "None"
    return str(int(text)) if text.removeprefix("-").isdecimal() else _quote(_show(text))


def _write_option(name: str, text: str) -> str:
    items = split_items(text)
    plain = _UNKNOWN if items is None else ",".join(_show(item.text) for item in items)
    # Without an equals sign, a value that begins with a dash would be parsed as an option.
    return f"--{name}{'=' if plain.startswith('-') else ' '}{shlex.quote(plain)}"


def _show(text: str) -> str:
    """Returns the text of a dim for a snippet.

    Unprintable characters only separate the parts of a text, so they are replaced by spaces.
    """
    return "".join(character if character.isprintable() else " " for character in text)


def _quote(text: str) -> str:
    """Returns a Python literal, in double quotes if the text needs no escape in them."""
    literal = repr(text)
    return f'"{text}"' if literal == f"'{text}'" and '"' not in text else literal
