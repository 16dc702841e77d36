"""Every public name has a docstring with an example, and the examples run."""

import ast
import doctest
import inspect
import io
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import grpc
import numpy as np
import onnx
import onnx.parser
import pytest

import tensor_reshape.client as sdk
from documents import ROOT
from server_processes import ServerProcess
from tensor_reshape import onnx as models
from tensor_reshape import testing
from tensor_reshape.client import Client

MODULES = (sdk, testing, models)
SAID_ONCE = {"AsyncClient"}
"""Whose methods are those of another class, and refer to it."""

ADDRESS = "localhost:50051"

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
graph (float[N, 12, 64] x) => (float[A, B] y) <int64[2] t = {0, -1}> { y = Reshape(x, t) }
"""


def list_names() -> Iterator[tuple[str, object]]:
    """Yields what users import, and what a class of these has beside what it takes over."""
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            yield f"{module.__name__}.{name}", value
            if inspect.isclass(value) and value.__module__.startswith("tensor_reshape.") and name not in SAID_ONCE:
                yield from list_members(f"{module.__name__}.{name}", value)


def list_members(path: str, kind: type) -> Iterator[tuple[str, object]]:
    members = ((name, member) for name, member in vars(kind).items() if not name.startswith("_"))
    return (
        (f"{path}.{name}", member) for name, member in members if inspect.isfunction(member) and needs_example(kind)
    )


def needs_example(kind: type) -> bool:
    """Whether the methods of a class are what it is for: those of a value go without saying."""
    return issubclass(kind, Client | testing.AsyncFakeClient)


NAMES = dict(list_names())


@cache
def read_aliases() -> dict[str, str]:
    """Returns the texts behind the types that have a name and no docstring, by their names."""
    found: dict[str, str] = {}
    for path in (ROOT / "client/tensor_reshape/client").glob("*.py"):
        body = ast.parse(path.read_text()).body
        for node, text in pairwise(body):
            names = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found.update({name.id: str(text.value.value) for name in names if isinstance(name, ast.Name)})
    return found


def find_docstring(name: str) -> str:
    value = NAMES[name]
    if inspect.isclass(value) or inspect.isfunction(value):
        return inspect.cleandoc(value.__doc__ or "")
    return read_aliases().get(name.rpartition(".")[2], "")


def test_names_are_found():
    assert {"tensor_reshape.client.Client.reshape", "tensor_reshape.testing.FakeClient.fail_next"} <= NAMES.keys()


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_an_example_that_runs(name: str, server: ServerProcess, client: Client):
    text = find_docstring(name).replace(ADDRESS, server.address)
    names = {public: getattr(module, public) for module in MODULES for public in module.__all__}
    given = {**names, "client": client, "np": np, "grpc": grpc, "onnx": onnx, "model": onnx.parser.parse_model(MODEL)}
    example = doctest.DocTestParser().get_doctest(text, given, name, None, None)
    assert example.examples, f"{name} has no example"
    output = io.StringIO()
    flags = doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE
    results = doctest.DocTestRunner(optionflags=flags).run(example, out=output.write)
    assert results.failed == 0, output.getvalue()
