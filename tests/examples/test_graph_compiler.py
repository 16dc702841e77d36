"""The example of a graph compiler: its output, and its correctness."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from examples.graph_compiler import (
    EXAMPLE,
    CompileError,
    Constant,
    Graph,
    Input,
    Relu,
    Reshape,
    compile_graph,
    run_graph,
)

from documents import ROOT, read_blocks
from server_processes import ServerProcess
from tensor_reshape.client import Client


def test_graph_compiler_example_prints_the_documented_output(server: ServerProcess):
    command = (sys.executable, ROOT / "examples/graph_compiler.py", server.address)
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (shown,) = [block.text for block in read_blocks(ROOT / "docs/how-to/examples.md") if block.language == "text"]

    assert printed.startswith(f"{shown}rejected:\n  planes: shape[2] is -1: 768 elements are not divisible by 5")


def test_graph_compiler_folds_reshapes_without_changing_the_result(client: Client):
    compiled = compile_graph(EXAMPLE, client)

    assert [name for name, node in compiled.nodes.items() if isinstance(node, Reshape)] == ["planes", "back"]
    assert compiled.nodes["planes"] == Reshape("images", (0, 3, 256))
    assert isinstance(compiled.nodes["matrix"], Constant)
    assert "weights" not in compiled.nodes

    images = np.random.default_rng(0).standard_normal((3, 3, 16, 16), np.float32)
    before, after = (run_graph(graph, {"images": images}, client) for graph in (EXAMPLE, compiled))
    assert all(np.array_equal(*outputs) for outputs in zip(before, after, strict=True))


def test_removing_an_output_reshape_makes_its_input_the_output(client: Client):
    graph = Graph({"x": Input(("N", 4)), "y": Relu("x"), "same": Reshape("y", (-1, 4))}, ("same",))

    assert compile_graph(graph, client) == Graph({"x": Input(("N", 4)), "y": Relu("x")}, ("y",))


@pytest.mark.parametrize(
    "nodes",
    [
        {"x": Input(("1..8", 4)), "y": Reshape("x", (-1, 4))},  # the dims have no names
        # Two dims are transposed, and a target may have only one -1.
        {"x": Input(("A", "B", "C")), "x2": Reshape("x", (0, 0, 1, -1)), "y": Reshape("x2", (0, 1, -1, 0))},
    ],
    ids=["unnamed dims", "no single target"],
)
def test_graph_compiler_keeps_reshapes_that_cannot_be_folded(client: Client, nodes: dict[str, Input | Reshape]):
    graph = Graph(dict(nodes), ("y",))

    assert compile_graph(graph, client) == graph


def test_graph_compiler_error_names_the_wrong_reshape_or_input(client: Client):
    wrong = replace(EXAMPLE, nodes={**EXAMPLE.nodes, "rows": Reshape("images", (0, -1, -1))})
    with pytest.raises(CompileError) as caught:
        compile_graph(wrong, client)
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["rows"]

    with pytest.raises(CompileError, match=r"^x: data"):
        compile_graph(Graph({"x": Input(("5..2",)), "y": Reshape("x", (-1,))}, ("y",)), client)
