"""Every type that was executed by OpenVINO for its bits: the same bytes, and the elements that the documents draw."""

import re
from math import prod
from pathlib import Path

import grpc
import numpy as np
import pytest

from server_processes import ServerProcess
from tensor_reshape.rules.dtypes import DataType, ElementKind
from tensor_reshape.rules.layouts import count_bytes
from tensor_reshape.v1 import reshape_pb2, reshape_pb2_grpc, tensor_pb2
from tensor_reshape.wire.arrays import DTYPES, build_array, view_array
from tensor_reshape.wire.tensors import TensorView
from tests.oracles.conformance_cases import Case, load_recorded

ROOT = Path(__file__).parents[2]
CASES = load_recorded("ov")
ARRAY_CASES = [case for case in CASES if DataType[case["data_type"].upper()] in DTYPES]
PACKED_CASES = [case for case in CASES if DataType[case["data_type"].upper()].is_packed]
INTEGER_CASES = [case for case in PACKED_CASES if DataType[case["data_type"].upper()].kind is not ElementKind.FLOAT]
PICTURES = re.compile(r"^\| ([a-z\d, ]+) \| \d \| \d \| `([\d ]+)` \|$", re.MULTILINE)
COMMENT_PICTURES = re.compile(r"((?:\|\d{8})+)\|\n(?: *//.*\n)*? *DATA_TYPE_(\w+) =")


def read_type(case: Case) -> DataType:
    return DataType[case["data_type"].upper()]


def name_case(case: Case) -> str:
    return f"{case['data_type']} {case['data']}"


@pytest.fixture(scope="module")
def stub(server: ServerProcess):
    with grpc.insecure_channel(server.address) as channel:
        yield reshape_pb2_grpc.ReshapeServiceStub(channel)


def test_the_cases_are_of_all_types_that_are_packed_and_of_f8e8m0():
    packed = {data_type for data_type in DataType if data_type.is_packed}
    assert (len(CASES), set(map(read_type, CASES))) == (54, packed | {DataType.F8E8M0})


@pytest.mark.parametrize("case", CASES, ids=name_case)
def test_a_tensor_has_the_bytes_that_it_has_in_openvino(case: Case):
    assert count_bytes(read_type(case), case["data"]) == len(bytes.fromhex(case["bytes"]))


@pytest.mark.parametrize("case", CASES, ids=name_case)
def test_every_bit_comes_back_as_from_openvino(stub: reshape_pb2_grpc.ReshapeServiceStub, case: Case):
    number = tensor_pb2.DataType.ValueType(read_type(case))
    items = np.array(case["shape"], "<i8")
    shape = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_I64, dims=items.shape, data=items.tobytes())
    data = tensor_pb2.Tensor(data_type=number, dims=case["data"], data=bytes.fromhex(case["bytes"]))

    output = stub.Reshape(reshape_pb2.ReshapeRequest(shape=shape, special_zero=False, data=data), timeout=10).output

    assert (output.data_type, list(output.dims), output.data.hex()) == (
        number,
        case["recorded"]["shape"],
        case["recorded"]["bytes"],
    )


@pytest.mark.parametrize("case", ARRAY_CASES, ids=name_case)
def test_an_array_has_the_elements_that_openvino_reads(case: Case):
    data_type, payload = read_type(case), memoryview(bytes.fromhex(case["bytes"]))
    array = build_array(TensorView(data_type, case["data"], None, payload))
    elements = np.array(case["recorded"]["elements"], np.float32).reshape(case["data"])
    np.testing.assert_array_equal(array.astype(np.float32), elements)


@pytest.mark.parametrize("case", ARRAY_CASES, ids=name_case)
def test_elements_are_packed_as_openvino_reads_them(case: Case):
    array = np.array(case["recorded"]["elements"], np.float32).astype(DTYPES[read_type(case)]).reshape(case["data"])
    packed, want = view_array(array, "data").payload, bytearray.fromhex(case["bytes"])
    used: int = prod(case["data"]) * read_type(case).bits % 8
    if used:
        want[-1] &= (1 << used) - 1  # spare bits are written as 0
    assert packed.hex() == want.hex()


def read_picture(picture: str, raw: bytes, count: int) -> list[int]:
    """Returns elements as a picture of their bits says: in each later byte of a group are higher bits."""
    drawn = picture.split()
    elements = [0] * count
    for begin in range(0, len(raw), len(drawn)):
        first = begin // len(drawn) * (int(max("".join(drawn))) + 1)
        found: dict[int, str] = {}
        for digits, byte in zip(drawn, raw[begin : begin + len(drawn)], strict=True):
            for index in sorted(set(digits)):
                bits = "".join(bit for bit, digit in zip(f"{byte:08b}", digits, strict=True) if digit == index)
                found[first + int(index)] = bits + found.get(first + int(index), "")
        for place, together in found.items():
            if place < count:
                elements[place] = int(together, 2)
    return elements


def list_pictures() -> dict[str, str]:
    """Returns the picture of each type, as the page draws it."""
    found = PICTURES.findall((ROOT / "docs" / "concepts" / "element-types.md").read_text())
    return {name: picture for names, picture in found for name in names.split(", ")}


def test_the_page_and_the_contract_draw_the_same_pictures():
    contract = (ROOT / "protos" / "tensor_reshape" / "v1" / "tensor.proto").read_text()
    drawn = {name.lower(): bits.strip("|").replace("|", " ") for bits, name in COMMENT_PICTURES.findall(contract)}
    like_u4 = {str(DataType.I4), str(DataType.NF4), str(DataType.F4E2M1)}
    assert list_pictures() == drawn | dict.fromkeys(like_u4, drawn["u4"])


def test_the_page_draws_every_type_that_is_packed():
    assert {DataType[name.upper()] for name in list_pictures()} == {one for one in DataType if one.is_packed}


@pytest.mark.parametrize("case", INTEGER_CASES, ids=name_case)
def test_the_picture_of_a_type_is_right(case: Case):
    elements = [item % 2 ** read_type(case).bits for item in case["recorded"]["elements"]]
    picture = list_pictures()[case["data_type"]]
    assert read_picture(picture, bytes.fromhex(case["bytes"]), len(elements)) == elements
