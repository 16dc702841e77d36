"""Reshape nodes of models, and target items that copy a dim."""

from itertools import product
from math import prod

import onnx
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, parser

from tensor_reshape.onnx.dim_params import DimParams
from tensor_reshape.onnx.reshape_nodes import ReshapeNode, find_reshape_nodes, list_copying_items
from tensor_reshape.rules.dims import AnyDim, Dim, format_dims
from tensor_reshape.rules.notation import parse_shape

# the target, the data; the items that copy
RESULTS: dict[tuple[str, str], tuple[int, ...]] = {
    ("N, -1", "N, M"): (),
    ("N, -1", "4*N, M"): (),
    ("M, -1", "N, M"): (0,),
    ("M, N", "N, M"): (),
    ("N*M, -1", "N, M"): (0,),
    ("N*M, 4", "N, M, 4"): (),
    ("K, 4", "N, M"): (0,),
    ("N:1.., -1", "4, M"): (),
    ("2, 3", "N"): (),
    ("-1, M", "N"): (),  # fails if M is 0, because there is no dim 1
    ("M, ?", "N, M"): (0,),
    ("M, 0", "N, M"): (0,),  # with M = 0, [N, 0]
    ("M, -1", "..."): (0,),
    ("-1, 4", "..."): (),
    ("A*B*C*D*E*F*G*H*I, 4", "N, M"): (0,),
}


def parse(nodes: str, constants: str = "", inputs: str = "float[N,3,4] x", version: int = 17) -> onnx.ModelProto:
    head = f'<ir_version: 8, opset_import: ["" : {version}]> g ({inputs}) => (float[a] y)'
    return parser.parse_model(f"{head} {constants} {{ {nodes} }}")


def find(model: onnx.ModelProto) -> list[ReshapeNode]:
    return find_reshape_nodes(model, DimParams(["N", "a"]))


def describe(model: onnx.ModelProto) -> str:
    (node,) = find(model)
    zero = "special" if node.special_zero else "literal"
    return f"{format_dims(node.data)} under {format_dims(node.shape)}, {zero} zero"


CONSTANT = "s = Constant<value_ints=[0,-1]>()"
GATHERED = """s = Shape(x) i = Constant<value_ints=[0]>() n = Gather(s, i) m = Constant<value_ints=[-1]>()
    t = Concat<axis=0>(n, m) y = Reshape(x, t)"""
X = "float[N,3,4] x"
# a model; its node
NODES: list[tuple[onnx.ModelProto, str]] = [
    (parse(f"{CONSTANT} y = Reshape(x, s)"), "[N, 3, 4] under [0, -1], special zero"),
    (parse("y = Reshape(x, s)", "<int64[2] s = {0,-1}>"), "[N, 3, 4] under [0, -1], special zero"),
    (parse(f"{CONSTANT} y = Reshape<allowzero=1>(x, s)"), "[N, 3, 4] under [0, -1], literal zero"),
    (parse(f"{CONSTANT} y = Reshape<allowzero=0>(x, s)"), "[N, 3, 4] under [0, -1], special zero"),
    (parse("y = Reshape<shape=[0,-1], consumed_inputs=[0]>(x)", version=1), "[N, 3, 4] under [0, -1], special zero"),
    # an input as the target: with a known length, with an unknown length, and with an invalid length
    (parse("y = Reshape(x, s)", inputs=f"{X}, int64[2] s"), "[N, 3, 4] under [?, ?], special zero"),
    (parse("y = Reshape(x, s)", inputs=f"{X}, int64[K] s"), "[N, 3, 4] under [...], special zero"),
    (parse("y = Reshape(x, s)", inputs=f"{X}, int64[4000000000] s"), "[N, 3, 4] under [...], special zero"),
    (parse("y = Reshape(x)"), "[N, 3, 4] under [...], special zero"),
    (parse("y = Reshape()"), "[...] under [...], special zero"),
    (parse(GATHERED), "[N, 3, 4] under [N, -1], special zero"),
    (parse(f"{CONSTANT} y = Reshape(x, s)", inputs="float[?,3] x"), "[x_dim_0, 3] under [0, -1], special zero"),
]


def test_onnx_reshape_node_is_read():
    assert [describe(model) for model, _ in NODES] == [text for _, text in NODES]


def make_with_default(ir_version: int) -> onnx.ModelProto:
    model = parse("y = Reshape(x, s)", inputs="float[N,3,4] x, int64[2] s")
    model.ir_version = ir_version
    model.graph.initializer.append(helper.make_tensor("s", onnx.TensorProto.INT64, [2], [0, -1]))
    return model


def test_initializer_that_is_also_an_input_is_unknown():
    assert describe(make_with_default(8)) == "[N, 3, 4] under [?, ?], special zero"
    assert describe(make_with_default(3)) == "[N, 3, 4] under [0, -1], special zero"  # every constant was an input


def test_shape_of_an_overridable_initializer_is_the_input_shape():
    model = parse("z = Shape(w) y = Reshape(x, z)", "<float[3] w = {1,2,3}>", inputs="float[N,3,4] x, float[K] w")
    assert [format_dims(node.target) for node in find(model)] == ["[K]"]


def test_reshape_node_of_another_onnx_domain_is_ignored():
    model = parse(f"{CONSTANT} y = Reshape(x, s)")
    model.graph.node[1].domain = "com.example"
    model.graph.node.append(helper.make_node("LSTM", ["x"], ["", "h"]))  # an output without a name
    assert find(model) == []


def test_reshape_source_is_found_through_shape_preserving_nodes():
    nodes = find(
        parse(f"{CONSTANT} a = Reshape(x, s) b = Relu(a) c = Transpose(b) d = Reshape(b, s) y = Reshape(c, s)")
    )
    assert [node.data_from for node in nodes] == [None, 0, None]


IF = """y = If (c) <
    then_branch = inner () => (t) { z = Relu(x) t = Reshape(z, s) },
    else_branch = inner () => (e) { s2 = Constant<value_ints=[-1,12]>() e = Reshape(x, s2) } >"""


def test_nested_onnx_graphs_use_constants_of_outer_graphs():
    nodes = find(parse(f"{CONSTANT} {IF}", inputs="float[N,3,4] x, bool c"))
    assert [(node.graph, node.output, format_dims(node.shape)) for node in nodes] == [
        ("y.then_branch", "t", "[0, -1]"),
        ("y.else_branch", "e", "[-1, 12]"),
    ]


def test_values_shadowed_or_in_sibling_graphs_are_unknown():
    for old, new in [
        ("Reshape(x, s2)", "Reshape(x, z)"),  # a value of the other branch
        ("e = Reshape(x, s2)", "s = NonZero(c) e = Reshape(x, s)"),  # hides the outer value
    ]:
        nodes = find(parse(f"{CONSTANT} {IF.replace(old, new)}", inputs="float[N,3,4] x, bool c"))
        assert nodes[1].shape is None, new


def test_cyclic_onnx_graph_is_read_only_once():
    assert len(find(parse(f"{CONSTANT} a = Reshape(y, s) y = Reshape(a, s)"))) == 2


def test_list_copying_items_returns_items_that_may_be_zero():
    found = {
        row: list_copying_items(parse_shape(row[0], "shape") or (), parse_shape(row[1], "data_shape"))
        for row in RESULTS
    }
    assert found == RESULTS


NAMES = ("N", "M", "K")
DIMS = st.sampled_from(["0", "2", "3", "N", "M", "K", "N*M", "2*K"])


@given(st.lists(DIMS, max_size=3), st.lists(st.one_of(DIMS, st.just("-1")), max_size=3))
def test_target_items_not_listed_as_copying_are_always_sizes(data: list[str], target: list[str]):
    dims, items = (parse_shape(", ".join(texts), "shape") or () for texts in (data, target))
    copying = list_copying_items(items, dims)
    for values in product((0, 1, 2), repeat=3):
        sizes = dict(zip(NAMES, values, strict=True))
        output = reshape([evaluate(dim, sizes) for dim in dims], [evaluate(item, sizes) for item in items])
        for place, item in enumerate(items if output is not None else ()):
            if isinstance(item, Dim) and place not in copying:
                assert output is not None
                assert output[place] == evaluate(item, sizes)


def evaluate(dim: AnyDim, sizes: dict[str, int]) -> int:
    if not isinstance(dim, Dim) or dim.expression is None:
        assert isinstance(dim, int)
        return dim
    return prod([dim.expression.coefficient, *(sizes[factor.name] for factor in dim.expression.factors)])


def reshape(data: list[int], target: list[int]) -> list[int] | None:
    """Returns the output as ONNX defines it; None if the node fails."""
    if any(item == 0 and place >= len(data) for place, item in enumerate(target)) or target.count(-1) > 1:
        return None
    output = [data[place] if item == 0 else item for place, item in enumerate(target)]
    volume, rest = prod(data), prod([size for size in output if size != -1])
    if -1 in output:
        if rest == 0 or volume % rest:
            return None
        output[output.index(-1)] = volume // rest
    return output if prod(output) == volume else None
