"""OpenVINO IR models: translation, the examples of the specification, and rejection."""

import struct
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from tensor_reshape.client import Client
from tensor_reshape.onnx import ModelError, ModelVerdict, ProfileError, annotate_model, check_model, check_profile
from tensor_reshape.onnx.openvino_ir import read_ir
from tensor_reshape.rules.dims import Interval

EXAMPLES = Path(__file__).parent / "reshape_1_examples"
TARGETS = {
    "example_1": [0, 4],
    "example_2": [0, -1, 4],
    "example_3": [0, 0, 1, -1],
    "example_4": [-1, 0],
    "example_5": [0, -1],
}
"""The requested shape of each example, which the specification gives in a comment of the layer."""


def read_dims(port: ET.Element | None) -> tuple[int, ...]:
    assert port is not None
    return tuple(int(dim.text or "") for dim in port.findall("dim"))


def write_port(tag: str, key: int, dims: str) -> str:
    inner = "".join(f"<dim>{dim}</dim>" for dim in dims.split(",") if dim)
    return (
        f'<{tag}><port id="{key}" precision="I64">{inner}</port></{tag}>' if tag else f'<port id="{key}">{inner}</port>'
    )


def write_model(folder: Path, layers: str, edges: str, numbers: list[int]) -> Path:
    """Writes an IR with the given layers, and with `numbers` as i64 weights."""
    path = folder / "model.xml"
    arrows = "".join(
        '<edge from-layer="{}" from-port="{}" to-layer="{}" to-port="{}"/>'.format(*edge.split(","))
        for edge in edges.split()
    )
    path.write_text(f'<net name="m" version="11"><layers>{layers}</layers><edges>{arrows}</edges></net>')
    path.with_suffix(".bin").write_bytes(struct.pack(f"<{len(numbers)}q", *numbers))
    return path


def write_input(shape: str) -> str:
    dims = ",".join("-1" if not size.isdecimal() else size for size in shape.split(","))
    return (
        f'<layer id="0" name="x" type="Parameter"><data shape="{shape}" element_type="f32"/>'
        f"{write_port('output', 0, dims)}</layer>"
    )


def write_constant(key: int, size: int, offset: int = 0, kind: str = "i64") -> str:
    return (
        f'<layer id="{key}" name="c{key}" type="Const"><data element_type="{kind}" shape="{size}" offset="{offset}" '
        f'size="{8 * size}"/>{write_port("output", 0, str(size))}</layer>'
    )


def write_reshape(key: int, rank: int, data: str = "-1,4", special_zero: str = "true") -> str:
    ports = write_port("", 0, data) + write_port("", 1, str(rank))
    return (
        f'<layer id="{key}" name="r{key}" type="Reshape"><data special_zero="{special_zero}"/><input>{ports}</input>'
        f"{write_port('output', 2, ','.join(['-1'] * rank))}</layer>"
    )


def write_small(folder: Path, shape: str = "?,4", target: tuple[int, ...] = (0, -1, 2)) -> Path:
    layers = write_input(shape) + write_constant(1, len(target)) + write_reshape(2, len(target), shape)
    return write_model(folder, layers, "0,0,2,0 1,0,2,1", list(target))


@pytest.mark.parametrize("name", TARGETS)
def test_example_of_the_specification_gives_its_output(name: str, tmp_path: Path, client: Client):
    layer = ET.parse(EXAMPLES / f"{name}.xml").getroot()
    data, output = read_dims(layer.find("input/port")), read_dims(layer.find("output/port"))
    attributes = layer.find("data")
    assert attributes is not None
    special_zero = attributes.get("special_zero", "")
    dims = ",".join(map(str, data))
    layers = write_input(dims) + write_constant(1, len(TARGETS[name]))
    layers += write_reshape(2, len(TARGETS[name]), dims, special_zero)
    (finding,) = check_model(write_model(tmp_path, layers, "0,0,2,0 1,0,2,1", TARGETS[name])).findings
    assert finding.answer == output
    array = np.arange(np.prod(data), dtype=np.float32).reshape(data)
    result = client.reshape(array, TARGETS[name], special_zero=special_zero == "true")
    assert (result.shape, result.tobytes()) == (output, array.tobytes())


def test_ir_layer_follows_the_rules_of_reshape_1(tmp_path: Path):
    # Reshape-1 leaves copied dims out of the division, so an empty batch is accepted. ONNX rejects it.
    report = check_model(write_small(tmp_path, "0,4"))
    assert [str(finding) for finding in report.findings] == ["r2: [0, 4] under [0, -1, 2] is [0, 2, 2]"]


def test_dynamic_dims_of_an_ir_have_names_and_limits(tmp_path: Path):
    path = write_small(tmp_path, "?,2..6", (-1, 4))
    report = check_model(path)
    assert [str(finding) for finding in report.findings] == ["r2: [x_0, x_1] under [-1, 4] is [x_0*x_1/4, 4]"]
    assert [str(requirement) for requirement in report.requirements] == ["4 divides x_0*x_1 (node r2)"]
    assert check_profile(path, {"x": [2, 6]}).result == "accepted"
    with pytest.raises(ProfileError, match=r"dimension 1 of x is 8; the model declares 2\.\.6"):
        check_profile(path, {"x": [2, 8]})


def test_frozen_batch_of_an_ir_is_found(tmp_path: Path):
    report = check_model(write_small(tmp_path, "?,4", (1, 4)))
    assert report.verdict is ModelVerdict.FROZEN
    assert [str(requirement) for requirement in report.requirements] == ["x_0 = 1 (declared dynamic; node r2)"]


def test_target_computed_from_a_shape_is_followed(tmp_path: Path):
    # The layers are those that PyTorch's x.view(x.shape[0], 2, -1) becomes.
    layers = write_input("?,4")
    layers += f'<layer id="1" name="s" type="ShapeOf"><input>{write_port("", 0, "-1,4")}</input>'
    layers += f"{write_port('output', 1, '2')}</layer>{write_constant(2, 1)}{write_constant(3, 1, 8)}"
    ports = "".join(write_port("", key, size) for key, size in enumerate(("2", "1", "1", "1")))
    layers += '<layer id="4" name="t" type="StridedSlice"><data begin_mask="0" end_mask="0" shrink_axis_mask=""/>'
    layers += f"<input>{ports}</input>{write_port('output', 4, '1')}</layer>{write_constant(5, 2, 16)}"
    layers += '<layer id="6" name="k" type="Concat"><data axis="0"/>'
    layers += f"<input>{write_port('', 0, '1')}{write_port('', 1, '2')}</input>{write_port('output', 2, '3')}</layer>"
    layers += write_reshape(7, 3)
    edges = "0,0,1,0 1,1,4,0 2,0,4,1 3,0,4,2 3,0,4,3 4,4,6,0 5,0,6,1 0,0,7,0 6,2,7,1"
    path = write_model(tmp_path, layers, edges, [0, 1, 2, -1])
    assert [str(finding) for finding in check_model(path).findings] == [
        "r7: [x_0, 4] under [x_0, 2, -1] is [x_0, 2, 2]"
    ]


def test_reshape_in_a_loop_body_is_counted_in_a_note(tmp_path: Path):
    body = f"<body><layers>{write_reshape(0, 1)}</layers><edges/></body>"
    layers = write_input("?,4") + f'<layer id="1" name="l" type="Loop">{body}</layer>'
    report = check_model(write_model(tmp_path, layers, "", []))
    assert report.notes == ("1 Reshape layers in the bodies of loops and branches are not checked",)


def test_faulty_ir_is_rejected_with_one_line_that_names_the_fault(tmp_path: Path):
    path = write_small(tmp_path)
    text = path.read_text()
    cycle = text.replace("</edges>", '<edge from-layer="2" from-port="2" to-layer="2" to-port="0"/></edges>')
    faults = {
        "<net": "it is not XML",
        "<model/>": "the root is not <net version=...>",
        '<net version="7"/>': "version 10 or newer",
        f'<net version="{"9" * 5000}"/>': "version 10 or newer",
        '<net version="\u00b2"/>': "version 10 or newer",
        '<?xml version="1.0" encoding="none"?><net version="11"/>': "not XML in an encoding that this program reads",
        f'<!DOCTYPE net [<!ENTITY a "b">]>{text}': "document type declaration",
        f'<!DOCTYPE net SYSTEM "http://example.org/x.dtd">{text}': "document type declaration",
        cycle: "the layers form a cycle: r2 -> r2",
        text.replace('to-layer="2"', 'to-layer="9"', 1): "from layer '0' to layer '9'",
        text.replace('offset="0"', 'offset="99"'): "the 24 bytes of the layer c1 at the offset '99'",
        text.replace('offset="0"', 'offset="-1"'): "at the offset '-1'",
        text.replace('offset="0"', f'offset="{2**63}"'): f"at the offset '{2**63}'",
        text.replace('shape="?,4"', 'shape="?,a"'): "the layer x has the shape '?,a'",
        text.replace('shape="?,4"', f'shape="?,{2**63}"'): f"the layer x has the shape '?,{2**63}'",
        text.replace('type="Reshape"><data ', 'type="Concat"><data axis="a" '): (
            "the layer r2 is not a valid Concat: the number of its ports or a value is wrong"
        ),
    }
    for wrong, message in faults.items():
        path.write_text(wrong)
        with pytest.raises(ModelError) as caught:
            check_model(path)
        assert message in str(caught.value), wrong
        assert "\n" not in str(caught.value)
    path.write_text(text)
    path.with_suffix(".bin").unlink()
    with pytest.raises(ModelError, match=r"model\.bin is missing; it has the value of the layer c1"):
        check_model(path)


def write_node(node: NodeProto) -> str:
    """Returns a node in one line."""
    attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    given = f" {attributes}" if attributes else ""
    return (
        f"{', '.join(node.output)} = {node.domain and node.domain + '.'}{node.op_type}({', '.join(node.input)}){given}"
    )


SLICE = 'type="StridedSlice"><data {}/>'
# the beginning of a layer, and the shapes of its inputs and outputs; its nodes
LAYERS: dict[tuple[str, str, str], list[str]] = {
    ('type="ReLU">', "2,3", "2,3"): ["y = Relu(x)"],
    ('type="Add">', "2,3 2,3", "2,3"): ["y = Add(x, i1)"],
    ('type="Divide">', "2 2", "2"): ["y = Div(x, i1)"],
    ('type="ShapeOf">', "2,3", "2"): ["y = Shape(x)"],
    ('type="Concat"><data axis="1"/>', "2,3 2,3", "2,6"): ["y = Concat(x, i1) {'axis': 1}"],
    ('type="Concat">', "2 2", "4"): ["y = Concat(x, i1) {'axis': 0}"],
    ('type="Convert"><data destination_type="i32"/>', "2", "2"): ["y = Cast(x) {'to': 6}"],
    ('type="Convert"><data destination_type="i64"/>', "2", "2"): ["y = Cast(x) {'to': 7}"],
    ('type="Convert"><data destination_type="f16"/>', "2", "2"): ["y = Cast(x) {'to': 1}"],
    ('type="ReduceProd"><data keep_dims="true"/>', "2 1", "1"): ["y = ReduceProd(x, i1) {'keepdims': 1}"],
    ('type="ReduceProd"><data keep_dims="1"/>', "2 1", "1"): ["y = ReduceProd(x, i1) {'keepdims': 1}"],
    ('type="ReduceProd">', "2 1", ""): ["y = ReduceProd(x, i1) {'keepdims': 0}"],
    ('type="Reshape"><data special_zero="true"/>', "2,3 1", "6"): ["y = Reshape(x, i1) {'allowzero': 0}"],
    ('type="Reshape"><data special_zero="false"/>', "2,3 1", "6"): ["y = Reshape(x, i1) {'allowzero': 1}"],
    ('type="Gather">', "4 2 1", "2"): ["y = Gather(x, i1) {'axis': 0}"],
    ('type="Gather">', "4 1 1", ""): ["y = Gather(x, i1) {'axis': 0}"],
    ('type="Gather">', "4,5 1 1", "2,5"): ["y = openvino.Gather(x, i1, i2)"],
    (SLICE.format('begin_mask="0" end_mask="0"'), "4 1 1 1", "2"): ["y = Slice(x, i1, i2, , i3)"],
    (SLICE.format(""), "4 1 1", "2"): ["y = Slice(x, i1, i2)"],
    (SLICE.format('begin_mask="1" end_mask=" 0, 0"'), "4 1 1", "2"): [
        "y:begin = Constant() {'value_ints': [0]}",
        "y = Slice(x, y:begin, i2)",
    ],
    (SLICE.format('begin_mask="1" end_mask="1"'), "4 1 1 1", "2"): [
        "y:begin = Constant() {'value_ints': [0]}",
        f"y:end = Constant() {{'value_ints': [{2**63 - 1}]}}",
        "y = Slice(x, y:begin, y:end, , i3)",
    ],
    (SLICE.format('shrink_axis_mask="1"'), "4 1 1", ""): [
        "y:taken = Gather(x, i1) {'axis': 0}",
        "y = Squeeze(y:taken)",
    ],
    (SLICE.format('new_axis_mask="1"'), "4 1 1", "1,4"): ["y = openvino.StridedSlice(x, i1, i2)"],
    (SLICE.format('ellipsis_mask="1"'), "4 1 1", "4"): ["y = openvino.StridedSlice(x, i1, i2)"],
    (SLICE.format(""), "4,5 1 1", "2,5"): ["y = openvino.StridedSlice(x, i1, i2)"],
    ('type="MatMul">', "2,3 3,4", "2,4"): ["y = openvino.MatMul(x, i1)"],
    ('type="Split">', "2,3 1", "1,3 1,3"): ["y, y:1 = openvino.Split(x, i1)"],
    ("", "2", "2"): ["y = openvino.unknown(x)"],
    ('type="Result">', "2", ""): [],
}


@pytest.mark.parametrize("layer", LAYERS)
def test_layer_becomes_these_nodes(layer: tuple[str, str, str], tmp_path: Path):
    begin, *texts = layer
    given, made = (text.split(" ") for text in texts)
    inputs = "".join(write_port("", key, dims) for key, dims in enumerate(given))
    outputs = "".join(write_port("", 10 + key, dims) for key, dims in enumerate(made))
    layers = f'<layer id="9" name="y" {begin or ">"}<input>{inputs}</input><output>{outputs}</output></layer>'
    edges = []
    for key, dims in enumerate(given):
        name = f"i{key}" if key else "x"
        port = write_port("output", 0, dims)
        layers += f'<layer id="{key}" name="{name}" type="Parameter"><data shape="{dims}"/>{port}</layer>'
        edges.append(f"{key},0,9,{key}")
    model = read_ir(write_model(tmp_path, layers, " ".join(edges), [])).model
    assert [write_node(node) for node in model.graph.node] == LAYERS[layer]


def test_inputs_constants_and_bounds_of_an_ir_are_read(tmp_path: Path):
    layers = write_input("2,?,3..,..4,5..6,-1,0..0") + write_constant(1, 2) + write_constant(2, 256, 0, "i32")
    layers += write_constant(3, 257) + write_constant(4, 2, 8, "f32") + write_constant(5, 1, 8 * 255)
    source = read_ir(write_model(tmp_path, layers, "", [*range(256)]))
    dims = [dim.dim_value or dim.dim_param for dim in source.model.graph.input[0].type.tensor_type.shape.dim]
    assert dims == [2, "x_1", "x_2", "x_3", "x_4", "x_5", "x_6"]
    assert source.bounds == {
        "x_2": Interval(3, None),
        "x_3": Interval(0, 4),
        "x_4": Interval(5, 6),
        "x_6": Interval(0, 0),
    }
    constants = {one.name: (one.data_type, [*one.dims], one.raw_data) for one in source.model.graph.initializer}
    raw = struct.pack("<256q", *range(256))
    assert constants == {
        "c1": (TensorProto.INT64, [2], raw[:16]),
        "c2": (TensorProto.INT32, [256], raw[:1024]),
        "c5": (TensorProto.INT64, [1], raw[-8:]),
    }
    assert [write_node(node) for node in source.model.graph.node] == ["c3 = openvino.Const()", "c4 = openvino.Const()"]
    stated = {one.name: one.type.tensor_type for one in source.model.graph.value_info}
    assert {name: [dim.dim_value for dim in one.shape.dim] for name, one in stated.items()} == {"c3": [257], "c4": [2]}
    assert {one.elem_type for one in stated.values()} == {TensorProto.INT64}


def test_input_of_any_rank_has_no_shape(tmp_path: Path):
    layers = write_input("...").replace("<dim>-1</dim>", "")
    given = read_ir(write_model(tmp_path, layers, "", [])).model.graph.input[0]
    assert not given.type.tensor_type.HasField("shape")


@pytest.mark.parametrize("shape", ["..", "2...3", "a..", "..b", "1.5", "2..3..4", "2,", "+2"])
def test_shape_of_an_input_that_is_no_list_is_rejected(shape: str, tmp_path: Path):
    with pytest.raises(ModelError, match="which is not a list of sizes and ranges"):
        read_ir(write_model(tmp_path, write_input("2").replace('shape="2"', f'shape="{shape}"'), "", []))


def test_equal_names_of_layers_are_kept_apart(tmp_path: Path):
    layers = write_constant(1, 1) + write_constant(2, 1).replace('name="c2"', 'name="c1"')
    layers += write_constant(3, 1).replace('name="c3" ', "")
    model = read_ir(write_model(tmp_path, layers, "", [7])).model
    assert [one.name for one in model.graph.initializer] == ["c1", "c1#2", "layer_3"]


def test_ir_is_not_annotated(tmp_path: Path):
    with pytest.raises(ModelError, match="not an ONNX model: it is XML"):
        annotate_model(write_small(tmp_path))
