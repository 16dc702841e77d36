"""Every case that was executed: the same bytes through a server, and the elements that the documents draw."""

import re
from base64 import b64decode
from math import prod
from pathlib import Path

import grpc
import numpy as np

from server_processes import ServerProcess
from tensor_reshape.rules.dtypes import DataType, ElementKind
from tensor_reshape.rules.layouts import count_bytes
from tensor_reshape.v1 import reshape_pb2, reshape_pb2_grpc, tensor_pb2
from tensor_reshape.wire.arrays import DTYPES, build_array, view_array
from tensor_reshape.wire.json_messages import read_message
from tensor_reshape.wire.tensors import TensorView
from tests.oracles.conformance_cases import Case, load_recorded

ROOT = Path(__file__).parents[2]
CASES = load_recorded("ov")
"""Of packed types, for their bits."""

LAYOUTS = load_recorded("lay")
"""Of strides; each place of a buffer holds its own index."""

PICTURES = re.compile(r"^\| ([a-z\d, ]+) \| \d \| \d \| `([\d ]+)` \|$", re.MULTILINE)
COMMENT_PICTURES = re.compile(r"((?:\|\d{8})+)\|\n(?: *//.*\n)*? *DATA_TYPE_(\w+) =")


def read_type(case: Case) -> DataType:
    name: str = case["question"]["data"]["dataType"]
    return DataType[name.removeprefix("DATA_TYPE_")]


def read_bytes(case: Case) -> bytes:
    return b64decode(case["question"]["data"]["data"])


def test_recorded_openvino_cases_cover_every_packed_data_type():
    packed = {data_type for data_type in DataType if data_type.is_packed}
    assert (len(CASES), set(map(read_type, CASES))) == (54, packed | {DataType.F8E8M0})
    assert len(LAYOUTS) == 162


def test_server_returns_the_bytes_recorded_from_openvino(server: ServerProcess):
    with grpc.insecure_channel(server.address) as channel:
        stub = reshape_pb2_grpc.ReshapeServiceStub(channel)
        for case in (*CASES, *LAYOUTS):
            number = tensor_pb2.DataType.ValueType(read_type(case))
            question = case["question"]
            data = read_message(tensor_pb2.Tensor, question["data"])
            if "strides" in question["data"]:
                target = read_message(reshape_pb2.TargetShape, question["shape"])
                asked = reshape_pb2.StaticReshapeRequest(data=data, shape=target, special_zero=question["specialZero"])
                output = stub.StaticReshape(asked, timeout=60).output
            else:
                items = np.array(question["shape"].get("items", []), "<i8")
                shape = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_I64, dims=items.shape, data=items.tobytes())
                request = reshape_pb2.ReshapeRequest(data=data, shape=shape, special_zero=False)
                output = stub.Reshape(request, timeout=60).output
            dims = case["recorded"]["answer"]["shape"].get("dims", [])
            want = (number, dims, case["recorded"]["bytes"])
            assert (output.data_type, list(output.dims), output.data.hex()) == want, case["id"]
            assert list(output.strides) == [], case["id"]


def test_packed_arrays_have_the_elements_and_bytes_of_openvino():
    for case in CASES:
        data_type, raw, dims = read_type(case), read_bytes(case), case["question"]["data"]["dims"]
        assert count_bytes(data_type, dims) == len(raw), case["id"]
        if data_type not in DTYPES:
            continue
        array = build_array(TensorView(data_type, dims, None, memoryview(raw)))
        elements = np.array(case["recorded"]["elements"], np.float32).reshape(dims)
        np.testing.assert_array_equal(array.astype(np.float32), elements, err_msg=case["id"])
        packed, want = view_array(elements.astype(DTYPES[data_type]), "data").payload, bytearray(raw)
        used: int = prod(dims) * data_type.bits % 8
        if used:
            want[-1] &= (1 << used) - 1  # spare bits are written as 0
        assert packed.hex() == want.hex(), case["id"]


def read_picture(picture: str, raw: bytes, count: int) -> list[int]:
    """Returns the elements that a picture of bits describes. Later bytes of a group have higher bits."""
    drawn = picture.split()
    elements = [0] * count
    for begin in range(0, len(raw), len(drawn)):
        first = begin // len(drawn) * (int(max("".join(drawn))) + 1)
        found: dict[int, str] = {}
        for digits, byte in zip(drawn, raw[begin : begin + len(drawn)], strict=False):
            for index in sorted(set(digits)):
                bits = "".join(bit for bit, digit in zip(f"{byte:08b}", digits, strict=True) if digit == index)
                found[first + int(index)] = bits + found.get(first + int(index), "")
        for place, together in found.items():
            if place < count:
                elements[place] = int(together, 2)
    return elements


def test_documented_bit_layouts_of_packed_types_are_correct():
    found = PICTURES.findall((ROOT / "docs" / "concepts" / "element-types.md").read_text())
    pictures = {name: picture for names, picture in found for name in names.split(", ")}
    contract = (ROOT / "protos" / "tensor_reshape" / "v1" / "tensor.proto").read_text()
    drawn = {name.lower(): bits.strip("|").replace("|", " ") for bits, name in COMMENT_PICTURES.findall(contract)}
    like_u4 = {str(DataType.I4), str(DataType.NF4), str(DataType.F4E2M1)}
    assert pictures == drawn | dict.fromkeys(like_u4, drawn["u4"])
    assert {DataType[name.upper()] for name in pictures} == {one for one in DataType if one.is_packed}
    for case in CASES:
        data_type = read_type(case)
        if data_type.is_packed and data_type.kind is not ElementKind.FLOAT:
            elements = [item % 2**data_type.bits for item in case["recorded"]["elements"]]
            assert read_picture(pictures[str(data_type)], read_bytes(case), len(elements)) == elements, case["id"]
