"""Reads OpenVINO IR models (`model.xml` with `model.bin`), and translates them to ONNX models for the check.

The translation keeps the inputs, the shapes, the Reshape layers, and the layers that compute requested shapes. Any
other layer becomes a node with an unknown operator. Its outputs have the shapes from the IR.

Invariants:

- An IR with an XML document type declaration is rejected, so no XML entities are expanded and no other documents are
  read.
- Only integer constants of up to MAX_ITEMS items are read from the weights.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from math import prod
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET
from xml.parsers import expat

import onnx
from onnx import helper

from tensor_reshape.onnx.models import ModelError, ModelSource
from tensor_reshape.onnx.shape_values import MAX_ITEMS
from tensor_reshape.rules.dims import Interval

_DOMAIN = "openvino"
_FIRST_VERSION = 10
_MAX_NUMBER = 2**63 - 1
_INTEGERS = {"i32": (onnx.TensorProto.INT32, 4), "i64": (onnx.TensorProto.INT64, 8)}
"""The ONNX type and the bytes of an element of each type whose constants are read."""

_Nodes = Iterator[onnx.NodeProto]


class _Layer(NamedTuple):
    """A layer of an OpenVINO IR.

    Attributes:
        element: the XML element of the layer.
        name: the name of the layer, which is also the name of its first output.
        inputs: the names of the input tensors.
    """

    element: ET.Element
    name: str
    inputs: Sequence[str]

    @property
    def kind(self) -> str:
        """The type of the layer, for example `Reshape`."""
        return self.element.get("type", "")

    @property
    def ports(self) -> list[ET.Element]:
        """The XML elements of the layer's output ports."""
        return self.element.findall("output/port")

    @property
    def outputs(self) -> list[str]:
        """The names of the layer's output tensors. The first output has the name of the layer."""
        return [f"{self.name}:{place}" if place else self.name for place in range(len(self.ports))]

    def get(self, key: str, default: str = "") -> str:
        """Returns an attribute of the layer, or the default if the layer does not have it."""
        data = self.element.find("data")
        return default if data is None else data.get(key, default)

    def is_set(self, key: str) -> bool:
        """Whether a Boolean attribute of the layer is true."""
        return self.get(key).lower() in {"true", "1"}


def read_ir(path: Path) -> ModelSource:
    """Reads an OpenVINO IR and returns it as an ONNX model.

    Raises:
        ModelError: the file is not a valid IR, or `model.bin` does not contain a constant that is needed.
        OSError: the file cannot be read.
    """
    root = _parse(path.read_bytes())
    version = _read_number(root.get("version", ""))
    if root.tag != "net" or version is None or version < _FIRST_VERSION:
        raise ModelError(f"not an OpenVINO IR of version {_FIRST_VERSION} or newer: the root is not <net version=...>")
    graph, bounds = onnx.GraphProto(name=root.get("name", "")), dict[str, Interval]()
    for layer in _sort_layers(root):
        try:
            _add_layer(graph, layer, path.with_suffix(".bin"), bounds)
        except ModelError:
            raise
        except ValueError:
            message = f"the layer {layer.name} is not a valid {layer.kind}: the number of its ports or a value is wrong"
            raise ModelError(message) from None
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(_DOMAIN, 1)])
    return ModelSource(model, "reshape", bounds, _describe_bodies(root))


def _add_layer(graph: onnx.GraphProto, layer: _Layer, weights: Path, bounds: dict[str, Interval]) -> None:
    """Adds a layer to the ONNX graph, as an input, a constant, or one or more nodes."""
    constant = _read_constant(layer, weights) if layer.kind == "Const" else None
    if layer.kind == "Parameter":
        graph.input.append(_describe_input(layer, bounds))
    elif constant is not None:
        graph.initializer.append(constant)
    else:
        graph.node.extend(_translate(layer))
        for port, name in zip(layer.ports, layer.outputs, strict=True):
            kind = onnx.TensorProto.INT64 if port.get("precision") in {"I64", "I32"} else onnx.TensorProto.FLOAT
            graph.value_info.append(helper.make_tensor_value_info(name, kind, _read_dims(port)))


def _parse(raw: bytes) -> ET.Element:
    builder, parser = ET.TreeBuilder(), expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = _reject_doctype
    try:
        parser.Parse(raw, True)  # noqa: FBT003 - expat takes no keywords
    except expat.ExpatError as error:
        message = f"not an OpenVINO IR: it is not XML: {expat.ErrorString(error.code)} in line {error.lineno}"
        raise ModelError(message) from None
    except ModelError:
        raise
    except (LookupError, ValueError):
        message = "not an OpenVINO IR: it is not XML in an encoding that this program reads, such as UTF-8"
        raise ModelError(message) from None
    return builder.close()


def _reject_doctype(name: str, *_: object) -> None:
    raise ModelError(f"not an OpenVINO IR: it has a document type declaration ({name}), which is rejected")


def _sort_layers(root: ET.Element) -> list[_Layer]:
    """Returns the layers in an order in which each layer comes after the layers that compute its inputs."""
    layers, taken = dict[str, _Layer](), set[str]()
    for element in root.findall("layers/layer"):
        key = element.get("id", "")
        name = element.get("name") or f"layer_{key}"
        # Two layers may have the same name.
        layers[key] = _Layer(element, f"{name}#{key}" if name in taken else name, [])
        taken.add(layers[key].name)
    edges: dict[str, dict[str, tuple[str, str]]] = {key: {} for key in layers}
    for edge in root.findall("edges/edge"):
        source, target = edge.get("from-layer", ""), edge.get("to-layer", "")
        if source not in layers or target not in layers:
            raise ModelError(f"an edge leads from layer {source!r} to layer {target!r}; one of them does not exist")
        edges[target][edge.get("to-port", "")] = source, edge.get("from-port", "")
    sorter = TopologicalSorter({key: [source for source, _ in ports.values()] for key, ports in edges.items()})
    try:
        order = [*sorter.static_order()]
    except CycleError as error:
        cycle = " -> ".join(layers[key].element.get("name", key) for key in error.args[1])
        raise ModelError(f"the layers form a cycle: {cycle}") from None
    outputs = {
        (key, port.get("id", "")): output
        for key, layer in layers.items()
        for port, output in zip(layer.ports, layer.outputs, strict=True)
    }
    inputs = {
        key: [edges[key].get(port.get("id", ""), ("", "")) for port in layers[key].element.findall("input/port")]
        for key in order
    }
    return [layers[key]._replace(inputs=[outputs.get(source, "") for source in inputs[key]]) for key in order]


def _describe_input(layer: _Layer, bounds: dict[str, Interval]) -> onnx.ValueInfoProto:
    """Translates a Parameter layer to an input of the ONNX model, and adds the limits of its dims to `bounds`."""
    dims: list[int | str | None] = []
    text = layer.get("shape")
    if text == "...":
        return helper.make_tensor_value_info(layer.name, onnx.TensorProto.FLOAT, None)
    for place, part in enumerate(text.split(",") if text else ()):
        name, (low, is_range, high) = f"{layer.name}_{place}", part.strip().partition("..")
        least, most = _read_number(low), _read_number(high)
        if part.strip() in {"?", "-1"}:
            dims.append(name)
        elif least is not None and not is_range:
            dims.append(least)
        elif is_range and (low or high) and (least is None) == (not low) and (most is None) == (not high):
            dims.append(name)
            bounds[name] = Interval(least or 0, most)
        else:
            raise ModelError(f"the layer {layer.name} has the shape {text!r}, which is not a list of sizes and ranges")
    return helper.make_tensor_value_info(layer.name, onnx.TensorProto.FLOAT, dims)


def _read_dims(port: ET.Element) -> list[int | None]:
    return [_read_number((dim.text or "").strip()) for dim in port.findall("dim")]


def _read_number(text: str) -> int | None:
    """Reads a size, an offset or a version. Returns None if the text is not a number that fits into 63 bits."""
    number = int(text) if re.fullmatch("[0-9]{1,19}", text) else _MAX_NUMBER + 1
    return number if number <= _MAX_NUMBER else None


def _read_constant(layer: _Layer, weights: Path) -> onnx.TensorProto | None:
    """Returns the value of a Const layer if it is an integer or a short list of integers, and otherwise None."""
    (port,) = layer.ports or [ET.Element("port")]
    dims = [size for size in _read_dims(port) if size is not None]
    kind = _INTEGERS.get(layer.get("element_type") or port.get("precision", "").lower())
    if kind is None or len(dims) > 1 or prod(dims) > MAX_ITEMS:
        return None
    place, size = layer.get("offset"), prod(dims) * kind[1]
    offset = _read_number(place)
    try:
        with weights.open("rb") as file:
            file.seek(offset or 0)
            raw = b"" if offset is None else file.read(size)
    except FileNotFoundError:
        raise ModelError(f"{weights} is missing; it has the value of the layer {layer.name}") from None
    if len(raw) != size:
        message = f"{weights} does not contain the {size} bytes of the layer {layer.name} at the offset {place!r}"
        raise ModelError(message)
    return helper.make_tensor(layer.name, kind[0], dims, raw, raw=True)


def _translate(layer: _Layer) -> _Nodes:
    """Translates a layer to ONNX nodes. The outputs of the last node are the outputs of the layer."""
    translated = [*_SPECIAL[layer.kind](layer)] if layer.kind in _SPECIAL else []
    if translated:
        yield from translated
    elif layer.kind in _RENAMED:
        attributes = _ATTRIBUTES[layer.kind](layer) if layer.kind in _ATTRIBUTES else {}
        yield helper.make_node(_RENAMED[layer.kind], layer.inputs, [layer.name], layer.name, **attributes)
    elif layer.kind != "Result":
        yield helper.make_node(layer.kind or "unknown", layer.inputs, layer.outputs, layer.name, domain=_DOMAIN)


def _translate_gather(layer: _Layer) -> _Nodes:
    # The third input is the axis. It is left out, because a list of dims has only one axis.
    if layer.ports and len(_read_dims(layer.ports[0])) <= 1:
        yield helper.make_node("Gather", layer.inputs[:2], [layer.name], layer.name, axis=0)


def _translate_slice(layer: _Layer) -> _Nodes:
    """Translates a StridedSlice of a list. Exporters use this layer to take dims from a shape."""
    names = ("begin", "end", "new_axis", "ellipsis", "shrink_axis")
    masks = {name for name in names if layer.get(f"{name}_mask").strip(" 0,")}
    port = layer.element.find("input/port")
    if port is None or len(_read_dims(port)) != 1 or masks & {"new_axis", "ellipsis"}:
        return
    data, begin, end, *step = layer.inputs
    if "shrink_axis" in masks:
        yield helper.make_node("Gather", [data, begin], [f"{layer.name}:taken"], axis=0)
        yield helper.make_node("Squeeze", [f"{layer.name}:taken"], [layer.name], layer.name)
        return
    for key, value in (("begin", 0), ("end", _MAX_NUMBER)):
        if key in masks:
            yield helper.make_node("Constant", [], [f"{layer.name}:{key}"], value_ints=[value])
    begin = f"{layer.name}:begin" if "begin" in masks else begin
    end = f"{layer.name}:end" if "end" in masks else end
    inputs = [data, begin, end, *(["", step[0]] if step else [])]
    yield helper.make_node("Slice", inputs, [layer.name], layer.name)


_SPECIAL: Mapping[str, Callable[[_Layer], _Nodes]] = {"Gather": _translate_gather, "StridedSlice": _translate_slice}
_ATTRIBUTES: Mapping[str, Callable[[_Layer], Mapping[str, Any]]] = {
    "Concat": lambda layer: {"axis": int(layer.get("axis", "0"))},
    "Convert": lambda layer: {"to": _INTEGERS.get(layer.get("destination_type"), (onnx.TensorProto.FLOAT, 0))[0]},
    "ReduceProd": lambda layer: {"keepdims": int(layer.is_set("keep_dims"))},
    "Reshape": lambda layer: {"allowzero": int(not layer.is_set("special_zero"))},
}
"""The attributes of the ONNX operator for a layer."""

_SAME = ("Abs", "Add", "Elu", "Erf", "Exp", "Gelu", "Log", "Mish", "Selu", "Sigmoid", "Sqrt", "Squeeze", "Tanh")
_RENAMED = {name: name for name in (*_SAME, "Concat", "ReduceProd", "Reshape", "Unsqueeze")} | {
    "Convert": "Cast",
    "Divide": "Div",
    "Multiply": "Mul",
    "Negative": "Neg",
    "ReLU": "Relu",
    "ShapeOf": "Shape",
    "SoftPlus": "Softplus",
    "Subtract": "Sub",
}
"""The ONNX operator for each layer type with the same inputs."""


def _describe_bodies(root: ET.Element) -> str:
    """Returns a note if loops or branches contain Reshape layers, because such layers are not checked."""
    count = sum(layer.get("type") == "Reshape" for layer in root.iter("layer"))
    count -= sum(layer.get("type") == "Reshape" for layer in root.findall("layers/layer"))
    return f"{count} Reshape layers in the bodies of loops and branches are not checked" if count else ""
