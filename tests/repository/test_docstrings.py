"""Every public name has a docstring with an example, and the examples run."""

import ast
import doctest
import inspect
import io
from collections.abc import Iterator
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

ADDRESS = "localhost:50051"

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
graph (float[N, 12, 64] x) => (float[A, B] y) <int64[2] t = {0, -1}> { y = Reshape(x, t) }
"""


def list_docstrings() -> Iterator[tuple[str, str]]:
    """Yields the public names and the methods of clients, each with its docstring."""
    aliases = dict(list_aliases())
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            is_described = inspect.isclass(value) or inspect.isfunction(value)
            yield f"{module.__name__}.{name}", (value.__doc__ or "" if is_described else aliases.get(name, ""))
            # The methods of value classes need no example, and those of AsyncClient refer to those of Client.
            if inspect.isclass(value) and issubclass(value, Client):
                for member, method in vars(value).items():
                    if inspect.isfunction(method) and not member.startswith("_"):
                        yield f"{module.__name__}.{name}.{member}", method.__doc__ or ""


def list_aliases() -> Iterator[tuple[str, str]]:
    """Yields the names of types that have no docstring, with the strings that follow them."""
    for path in (ROOT / "client/tensor_reshape/client").glob("*.py"):
        for node, text in pairwise(ast.parse(path.read_text()).body):
            names = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                yield from ((name.id, str(text.value.value)) for name in names if isinstance(name, ast.Name))


DOCSTRINGS = dict(list_docstrings())


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_docstring_example_of_each_public_name_runs(name: str, server: ServerProcess, client: Client):
    text = inspect.cleandoc(DOCSTRINGS[name]).replace(ADDRESS, server.address)
    names = {public: getattr(module, public) for module in MODULES for public in module.__all__}
    given = {**names, "client": client, "np": np, "grpc": grpc, "onnx": onnx, "model": onnx.parser.parse_model(MODEL)}
    example = doctest.DocTestParser().get_doctest(text, given, name, None, None)
    assert example.examples, f"{name} has no example"
    output = io.StringIO()
    flags = doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE
    results = doctest.DocTestRunner(optionflags=flags).run(example, out=output.write)
    assert results.failed == 0, output.getvalue()
