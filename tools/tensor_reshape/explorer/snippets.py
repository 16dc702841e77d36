"""Questions as code that can be pasted: Python, a command line, and JSON for the gateway.

Laws: pasted as it stands, each asks the very question that was typed. Whatever was typed, a text in a snippet is one
literal of Python or one word of a shell, of printable characters.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote

from google.protobuf import json_format

from tensor_reshape.explorer.typed_questions import TypedQuestion
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
    """Code.

    Attributes:
        title: what it is, and what it needs.
        text: the code.
    """

    title: str
    text: str


def write_snippets(
    typed: TypedQuestion,
    request: ShapeRequest,
    message: reshape_pb2.InferShapeRequest | None,
    listen: Sequence[str],
) -> list[Snippet]:
    """Returns the question as code.

    Args:
        typed: the question, whose texts can be read.
        request: what they mean.
        message: that in the contract's form; None: the contract cannot hold a number of it.
        listen: the addresses of gRPC, with their real ports.
    """
    arguments = list(_list_arguments(typed, request))
    call = _write_call(arguments, listen, typed.server)
    texts = {
        "Python, with a server": call,
        "Python, without a server": _write_local_call(arguments),
        "Command line": _write_command(typed, request),
        "JSON, by HTTP": None if message is None else _write_post(typed.server, message),
    }
    return [Snippet(title, text) for title, text in texts.items() if text is not None]


def _list_arguments(typed: TypedQuestion, request: ShapeRequest) -> Iterator[tuple[str, str]]:
    """Yields the names and the values that `ShapeQuery` takes."""
    question = request.question
    yield "data_shape", _write_shape(typed.data)
    yield "shape", _write_shape(typed.shape)
    yield "special_zero", repr(question.special_zero)
    if question.operation is not STATIC_RESHAPE:
        yield "operation", _quote(question.operation.name)
    if question.expected is not None:
        yield "expected_shape", _write_shape(typed.expected)
    if request.strides is not None:
        yield "data_strides", str(list(request.strides))


def _write_call(arguments: list[tuple[str, str]], listen: Sequence[str], page: str) -> str | None:
    """Returns a call of the SDK; None where there is no port that it could go to."""
    match = _PAGE.fullmatch(page)
    scheme, host = match.groups() if match else ("http", "localhost")
    target = _find_target(listen, host)
    if target is None:
        return None
    # Both ports have TLS, or none has.
    imports, options = (
        ("import grpc\n\n", ", credentials=grpc.ssl_channel_credentials()") if scheme == "https" else ("", "")
    )
    # The two shapes are positional in `infer_shape`.
    words = [value if name in {"data_shape", "shape"} else f"{name}={value}" for name, value in arguments]
    return (
        f"{imports}from tensor_reshape.client import Client\n\n"
        f"with Client({_quote(target)}{options}) as client:\n"
        f"    output = client.infer_shape({_join(words, indent=4)})\n"
        "print(output)\n"
    )


def _find_target(listen: Sequence[str], host: str) -> str | None:
    """Returns how gRPC is reached by who reaches the page at a host; a path of this machine is not for strangers."""
    ports = [address for address in listen if not address.startswith("unix:")]
    exposed = [address for address in ports if not is_local(address)]
    # What is bound to all interfaces is no address that one can call, and what the page is called can be called.
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
    """Returns arguments on one line where they fit, else on a line each."""
    if sum(len(word) + len(", ") for word in words) <= _LINE_CHARACTERS:
        return ", ".join(words)
    margin = "\n" + " " * indent
    return "".join(f"{margin}    {word}," for word in words) + margin


def _write_command(typed: TypedQuestion, request: ShapeRequest) -> str:
    question = request.question
    words = ["tensor-reshape infer", _write_option("data", typed.data), _write_option("shape", typed.shape)]
    if question.special_zero is not None:
        words.append("--special-zero" if question.special_zero else "--no-special-zero")
    if question.operation is not STATIC_RESHAPE:
        words.append(f"--operation {question.operation.name}")
    if question.expected is not None:
        words.append(_write_option("expect", typed.expected))
    if request.strides is not None:
        words.append(_write_option("strides", typed.strides))
    return _join_words([*words, "--explain --local"])


def _write_post(server: str, message: reshape_pb2.InferShapeRequest) -> str:
    # As browsers write it, whoever else it may come from: without blanks, and in ASCII.
    url = f"{quote(server.rstrip('/'), safe=_OF_ADDRESSES, errors='replace')}{INFER_SHAPE.path}"
    body = json_format.MessageToJson(message, indent=None, preserving_proto_field_name=True)
    return _join_words(
        [f"curl -s {shlex.quote(url)}", "-H 'Content-Type: application/json'", f"-d {shlex.quote(body)}"]
    )


def _join_words(words: list[str]) -> str:
    """Returns a command on one line where it fits, else on several."""
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
    # What begins with a dash is told from an option by the equals sign.
    return f"--{name}{'=' if plain.startswith('-') else ' '}{shlex.quote(plain)}"


def _show(text: str) -> str:
    """Returns the text of a dim in printable characters: others stand between its parts alone, as blanks do."""
    return "".join(character if character.isprintable() else " " for character in text)


def _quote(text: str) -> str:
    """Returns a literal of Python, in double quotes where that needs no escape."""
    literal = repr(text)
    return f'"{text}"' if literal == f"'{text}'" and '"' not in text else literal
