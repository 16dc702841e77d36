"""Bodies of inference over REST: what requests become, what is rejected, and the responses."""

import json
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from functools import partial
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from http_calls import change_body, write_body
from hypothesis_profiles import examples
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.server.oip.json_bodies import InferBody, read_infer_request, write_infer_response
from tensor_reshape.server.oip.requests import InferCall, read_request
from tensor_reshape.wire.tensors import TensorView

NESTED = [[1, 2, 3], [4, 5, 6.5]]
PACKED = pack("<6f", 1, 2, 3, 4, 5, 6.5)
MIB = 1 << 20


def read(body: bytes, payload: bytes = b"", model: str = "reshape", version: str = "") -> InferBody:
    return read_infer_request(body + payload, len(body), model, version)


def read_call(body: bytes, payload: bytes = b"", model: str = "reshape") -> InferCall:
    return read_request(read(body, payload, model).request, DEFAULT_LIMITS)


def find_rejection(body: bytes, payload: bytes = b"", model: str = "reshape") -> ReshapeError:
    with pytest.raises(ReshapeError) as caught:
        read(body, payload, model)
    return caught.value


def describe(body: bytes, model: str = "reshape") -> tuple[str, str, str]:
    """Returns the reason, the field and the text of a rejection."""
    rejection = find_rejection(body, model=model)
    return str(rejection.reason), rejection.field, rejection.message


def write_numbers(data: str, datatype: str = "FP32", shape: object = (1,)) -> bytes:
    """Returns a body whose elements are written as given."""
    return write_body(data=["HERE"], datatype=datatype, shape=shape).replace(b'["HERE"]', data.encode())


def pack_data(data: object, datatype: str, *shape: int) -> bytes:
    (content,) = read(write_body(data=data, datatype=datatype, shape=shape)).request.raw_contents
    return bytes(content)


@pytest.mark.parametrize("data", [[1, 2, 3, 4, 5, 6.5], NESTED], ids=["flat", "nested"])
def test_numbers_of_a_rest_request_become_bytes(data: object):
    assert pack_data(data, "FP32", 2, 3) == PACKED


@pytest.mark.parametrize(
    ("datatype", "code", "numbers"),
    [
        ("BOOL", "?", [True, False]),
        ("INT8", "b", [-128, 127]),
        ("INT16", "h", [-(2**15), 2**15 - 1]),
        ("INT32", "i", [-(2**31), 2**31 - 1]),
        ("INT64", "q", [-(2**63), 2**63 - 1]),
        ("UINT8", "B", [0, 255]),
        ("UINT16", "H", [0, 2**16 - 1]),
        ("UINT32", "I", [0, 2**32 - 1]),
        ("UINT64", "Q", [0, 2**64 - 1]),
        ("FP32", "f", [0.1, -0.0, 1e-45, 1e-60, 3.4028234663852886e38, 2**100, -7]),
        ("FP64", "d", [0.1, -0.0, 5e-324, 1.7976931348623157e308, 2**70]),
    ],
)
def test_numbers_of_each_datatype_become_its_bytes(datatype: str, code: str, numbers: list[float]):
    assert pack_data(numbers, datatype, len(numbers)) == pack(f"<{len(numbers)}{code}", *numbers)


def test_numbers_in_several_pieces_keep_their_order():
    numbers = list(range(40_000))
    assert pack_data(numbers, "INT32", 40_000) == pack("<40000i", *numbers)
    assert pack_data([numbers[at : at + 5] for at in range(0, 40_000, 5)], "INT32", 8_000, 5) == pack(
        "<40000i", *numbers
    )


@pytest.mark.parametrize(
    ("data", "shape"), [([], (0,)), ([], (0, 3)), ([[], []], (2, 0)), ([[], []], (2, 0, 3)), ([[[[1]]]], (1, 1, 1, 1))]
)
def test_nested_lists_may_be_empty_or_of_one_element(data: object, shape: tuple[int, ...]):
    assert len(pack_data(data, "INT8", *shape)) == (1 if 0 not in shape else 0)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e39", "1" + "0" * 400])
def test_number_that_is_not_finite_in_its_type_is_rejected(literal: str):
    rejection = find_rejection(write_numbers(f"[0,{literal}]", shape=[2]))
    assert (rejection.reason, rejection.field, rejection.metadata["index"]) == (
        Reason.INPUT_INVALID,
        "inputs[0].data[1]",
        "1",
    )


def test_first_number_that_does_not_fit_is_named():
    for literals in ("1e39,1e400", "1e400,1e39"):
        rejection = find_rejection(write_numbers(f"[0,{literals}]", shape=[3]))
        assert rejection.field == "inputs[0].data[1]"


def test_number_beyond_fp64_is_not_an_infinity():
    for literal in ("1e309", "1" + "0" * 309):
        assert find_rejection(write_numbers(f"[{literal}]", "FP64")).reason is Reason.INPUT_INVALID


@pytest.mark.parametrize(
    ("datatype", "number"),
    [("INT8", 128), ("UINT8", -1), ("INT64", 2**63), ("UINT64", 2**64), ("UINT16", 2**70), ("INT32", -(2**31) - 1)],
)
def test_integer_out_of_range_is_rejected_with_its_index(datatype: str, number: int):
    data = [1] * 5_000 + [number]
    rejection = find_rejection(write_body(data=data, datatype=datatype, shape=[5_001]))
    assert (rejection.reason, rejection.field) == (Reason.INPUT_INVALID, "inputs[0].data[5000]")
    assert rejection.metadata == {"index": "5000", "value": str(number)}
    assert rejection.message == f"inputs[0].data[5000] is {number}, which does not fit into {datatype}"


@pytest.mark.parametrize(
    ("datatype", "literal", "text"),
    [
        ("FP32", "true", "is true, not a number"),
        ("FP32", '"1"', 'is "1", not a number'),
        ("FP64", "null", "is null, not a number"),
        ("FP64", "[1]", "is a list, not a number"),
        ("FP64", "{}", "is an object, not a number"),
        ("INT8", "1.0", "is 1.0, not a whole number"),
        ("UINT64", "true", "is true, not a whole number"),
        ("BOOL", "1", "is 1, not true or false"),
    ],
)
def test_element_of_another_json_type_is_rejected(datatype: str, literal: str, text: str):
    reason = (Reason.INPUT_INVALID, "inputs[0].data[0]", f"inputs[0].data[0] {text}")
    assert describe(write_numbers(f"[{literal}]", datatype)) == reason


@pytest.mark.parametrize(
    "data", [{}, 1, "x", [[1, 2], [3, 4, 5, 6]], [[1, 2, 3], 4], [[[1, 2, 3], [4, 5, 6]]], [[1, 2], [3, 4], [5, 6]]]
)
def test_nested_lists_of_another_shape_are_rejected(data: object):
    reason, field, text = describe(write_body(data=data))
    assert (reason, field) == (Reason.INPUT_INVALID, "inputs[0].data")
    assert "or nested lists in the shape [2, 3]" in text


def test_wrong_number_of_elements_is_rejected():
    with pytest.raises(InvalidRequestError) as caught:
        read_call(write_body(data=[0] * 5))
    assert (caught.value.reason, caught.value.field) == (Reason.DATA_SIZE_MISMATCH, "inputs[0]")
    assert caught.value.message == "inputs[0] has 5 elements; FP32 of the shape [2, 3] has 6"


def test_negative_dim_is_left_to_the_rules():
    call = read(write_body(shape=[-1, 6]))
    with pytest.raises(ReshapeError):
        read_request(call.request, DEFAULT_LIMITS).first.check_layout("data")


def test_binary_input_is_a_view_of_the_body():
    body = write_body(binary=24)
    whole = body + PACKED
    (content,) = read_infer_request(whole, len(body), "reshape", "").request.raw_contents
    assert content == PACKED
    assert content.obj is whole


def test_binary_inputs_follow_the_json_in_their_order():
    first = json.loads(write_body(binary=24))["inputs"][0]
    target = {"name": "shape", "datatype": "INT64", "shape": [1], "parameters": {"binary_data_size": 8}}
    body = change_body(write_body(), inputs=[target, first])
    assert list(map(bytes, read(body, b"\0" * 8 + PACKED).request.raw_contents)) == [b"\0" * 8, PACKED]


def test_numbers_and_bytes_can_be_mixed():
    first = json.loads(write_body(binary=24))["inputs"][0]
    target = {"name": "shape", "datatype": "INT64", "shape": [2], "data": [3, -1]}
    body = change_body(write_body(), inputs=[target, first])
    assert list(map(bytes, read(body, PACKED).request.raw_contents)) == [pack("<2q", 3, -1), PACKED]


def test_bytes_that_belong_to_no_input_are_rejected():
    assert "has 1 bytes after its JSON" in find_rejection(write_body(), b"x").message


def test_bodies_do_not_import_numpy():
    body = write_body(binary=24)
    program = (
        "import sys; from tensor_reshape.server.oip.json_bodies import read_infer_request; "
        f"read_infer_request({body + PACKED!r}, {len(body)}, 'reshape', ''); "
        f"read_infer_request({write_body()!r}, {len(write_body())}, 'reshape', ''); "
        "print({'numpy', 'grpc', 'starlette'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("target", [[3, -1], "[3, -1]"], ids=["list", "text"])
def test_requested_shape_may_be_a_list_or_text(target: object):
    call = read_call(write_body(target=target))
    assert list(call.target) == [3, -1]


@pytest.mark.parametrize(
    ("parameters", "output", "is_binary"),
    [
        ({}, {}, False),
        ({"binary_data_output": True}, {}, True),
        ({}, {"binary_data": True}, True),
        ({"binary_data_output": True}, {"binary_data": False}, False),
    ],
    ids=["default", "of the request", "of the output", "both"],
)
def test_parameters_choose_the_form_of_the_output(
    parameters: dict[str, bool], output: dict[str, bool], is_binary: bool
):
    body = change_body(write_body(), parameters=parameters, outputs=[{"name": "output", "parameters": output}])
    assert read(body).is_binary is is_binary


def test_names_of_the_path_may_repeat_in_the_body():
    message = read(change_body(write_body(), model_name="reshape", model_version="1"), version="1").request.message
    assert (message.model_name, message.model_version) == ("reshape", "1")


def test_optional_fields_may_be_null():
    first = {**json.loads(write_body())["inputs"][0], "parameters": None}
    message = read(change_body(write_body(), id=None, outputs=None, inputs=[first])).request.message
    assert (message.id, len(message.outputs), len(message.inputs)) == ("", 0, 1)


@pytest.mark.parametrize("field", ["name", "datatype", "shape"])
@pytest.mark.parametrize("is_null", [False, True], ids=["absent", "null"])
def test_missing_field_of_an_input_is_named(field: str, is_null: bool):
    first = json.loads(write_body())["inputs"][0]
    if is_null:
        first[field] = None
    else:
        del first[field]
    wanted = (Reason.FIELD_MISSING, f"inputs[0].{field}", f"inputs[0].{field} is missing")
    assert describe(change_body(write_body(), inputs=[first])) == wanted


@pytest.mark.parametrize("value", ["null", "{}", "[]", "[[{}]]", "1e400", "NaN", str(2**70), '"\\ud800"', "true"])
def test_unknown_parameter_may_have_any_value(value: str):
    unknown = {"priority": "HERE", "\ud800": "HERE"}
    document = json.loads(write_body())
    document["parameters"] |= unknown
    document["inputs"][0]["parameters"] = unknown
    document["outputs"] = [{"name": "output", "parameters": unknown}]
    body = json.dumps(document).replace('"HERE"', value).encode()
    assert read_call(body).special_zero is False


def test_parameter_of_another_model_is_ignored():
    body = change_body(write_body(), parameters={"operation": 1})
    assert not read(body).request.message.parameters
    assert read(body, model="infer_shape").request.message.parameters


@pytest.mark.parametrize("value", [None, 1, {}, 2**70, "\ud800", [[1]], ["x"], [1.0], [True], [2**63]])
@pytest.mark.parametrize("key", ["special_zero", "shape"])
def test_parameter_of_a_wrong_type_is_rejected(key: str, value: object):
    body = change_body(write_body(), parameters={"shape": [1], key: value})
    with pytest.raises(InvalidRequestError) as caught:
        read_call(body)
    assert (caught.value.reason, caught.value.field) == (Reason.PARAMETER_INVALID, f"parameters[{key}]")


@pytest.mark.parametrize("value", [True, None, "24", 24.0, [24]])
def test_binary_size_of_another_type_is_rejected(value: object):
    document = json.loads(write_body(binary=0))
    document["inputs"][0]["parameters"]["binary_data_size"] = value
    reason, field, text = describe(json.dumps(document).encode())
    assert (reason, field) == (Reason.PARAMETER_INVALID, "inputs[0].parameters[binary_data_size]")
    assert text.endswith("not a whole number")


@pytest.mark.parametrize("size", [-1, 1, 2**70])
def test_binary_size_beyond_the_body_is_rejected(size: int):
    field = "inputs[0].parameters[binary_data_size]"
    text = f"{field} is {size}, but the body has 0 more bytes"
    assert describe(write_body(binary=size)) == (Reason.INPUT_INVALID, field, text)


def test_form_of_the_output_is_checked():
    outputs = [{"name": "output", "parameters": {"binary_data": "yes"}}]
    field = "outputs[0].parameters[binary_data]"
    wanted = (Reason.PARAMETER_INVALID, field, f'{field} is "yes", not true or false')
    assert describe(change_body(write_body(), outputs=outputs)) == wanted


@pytest.mark.parametrize("key", ["classification", "shared_memory_region"])
@pytest.mark.parametrize("value", [None, "region", 1])
def test_unavailable_parameter_of_a_tensor_is_rejected(key: str, value: object):
    first = json.loads(write_body())["inputs"][0]
    del first["data"]
    for body in (
        change_body(write_body(), inputs=[{**first, "parameters": {key: value}}]),
        change_body(write_body(), outputs=[{"name": "output", "parameters": {key: value}}]),
    ):
        reason, _, text = describe(body)
        assert reason == Reason.PARAMETER_INVALID
        assert f".parameters[{key}]: this server " in text


@pytest.mark.parametrize(
    ("body", "field", "text"),
    [
        (b'{"x":1}', "", "the body has the unknown key 'x'; use id, parameters, inputs, outputs"),
        (write_body(contents={}), "inputs[0]", "inputs[0] has the unknown key 'contents'"),
        (b'{"model_name":["reshape"]}', "model_name", "model_name differs from the path"),
        (b'{"id":1}', "id", "id is 1, not valid text"),
        (b'{"id":"\\ud800"}', "id", r'id is "\ud800", not valid text'),
        (b'{"parameters":[]}', "parameters", "parameters is not a JSON object"),
        (b'{"inputs":{}}', "inputs", "inputs is not a JSON list"),
        (b'{"inputs":[[]]}', "inputs[0]", "inputs[0] is not a JSON object"),
        (b'{"inputs":[null]}', "inputs[0]", "inputs[0] is not a JSON object"),
        (b'{"inputs":[1]}', "inputs[0]", "inputs[0] is not a JSON object"),
        (b'{"outputs":[[]]}', "outputs[0]", "outputs[0] is not a JSON object"),
        (write_body(name=1), "inputs[0].name", "inputs[0].name is 1, not valid text"),
        (write_body(shape="x"), "inputs[0].shape", "inputs[0].shape is not a JSON list"),
        (write_body(shape=[1, "x"]), "inputs[0].shape[1]", 'inputs[0].shape[1] is "x", not a whole number'),
        (write_body(shape=[1.5]), "inputs[0].shape[0]", "inputs[0].shape[0] is 1.5, not a whole number"),
        (write_body(shape=[2**63]), "inputs[0].shape[0]", f"is {2**63}, not a whole number from {-(2**63)} to "),
        (write_body(parameters=1), "inputs[0].parameters", "inputs[0].parameters is not a JSON object"),
    ],
)
def test_value_of_a_wrong_type_is_rejected_with_its_field(body: bytes, field: str, text: str):
    reason, at, message = describe(body)
    assert (reason, at) == (Reason.MESSAGE_MALFORMED, field)
    assert text in message


@pytest.mark.parametrize(
    ("body", "field", "text"),
    [
        (write_body(data=[0] * 6, datatype="FP16"), "inputs[0].data", "JSON cannot express elements of FP16"),
        (write_body(data=None), "inputs[0]", "must have its elements either as data, or as binary data"),
        (write_body(binary=24, data=[0] * 6), "inputs[0]", "must have its elements either as data, or as binary data"),
    ],
)
def test_input_without_one_form_of_elements_is_rejected(body: bytes, field: str, text: str):
    reason, at, message = describe(body)
    assert (reason, at) == (Reason.INPUT_INVALID, field)
    assert text in message


def test_numbers_of_an_unknown_datatype_are_rejected():
    reason, field, _ = describe(write_body(data=[0] * 6, datatype="BYTES"))
    assert (reason, field) == (Reason.DATA_TYPE_UNSUPPORTED, "inputs[0].datatype")


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"1", b'"x"', b"null", b"NaN", b"{", b'{"id":"a","id":"b"}', b"{}{}", b"\xff", b'{"id":"\xff"}'),
        *(b"\xef\xbb\xbf{}", b'{"id":"a\0"}', b"1" * 5_000, b'{"id":' + b"1" * 5_000 + b"}"),
        *(b"[" * 100_000, b'{"a":' * 100_000, b'{"inputs":' + b"[" * 100_000),
        *(write_body().replace(b'"data": [', b'"data": [' + b"[" * depth) for depth in (900, 100_000)),
    ],
    ids=range(20),
)
def test_body_that_is_not_an_object_of_json_is_malformed(body: bytes):
    assert find_rejection(body).reason is Reason.MESSAGE_MALFORMED


@pytest.mark.parametrize("depth", range(700, 1_000, 3))
def test_deep_values_are_rejected_or_ignored(depth: int):
    deep = b"[" * depth + b"]" * depth
    for body in (
        b'{"id":%b}' % deep,
        b'{"inputs":[%b]}' % deep,
        b'{"parameters":{"shape":%b}}' % deep,
        b'{"parameters":{"shape":[%b]}}' % deep,
        write_body(data=["HERE"]).replace(b'"HERE"', deep),
        write_body(shape=["HERE"]).replace(b'"HERE"', deep),
        b'{"inputs":[],"parameters":{"any":%b}}' % deep,
    ):
        with suppress(ReshapeError):
            read(body)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"inputs":[%b{}]}' % (b"{}," * 256), "inputs"),
        (change_body(write_body(), outputs=[{}] * 257), "outputs"),
        (write_body(shape=[1] * 257), "inputs[0].shape"),
        (change_body(write_body(), parameters=dict.fromkeys(map(str, range(257)))), "parameters"),
        (write_body(parameters=dict.fromkeys(map(str, range(257)))), "inputs[0].parameters"),
        (
            change_body(write_body(), outputs=[{"name": "", "parameters": dict.fromkeys(map(str, range(257)))}]),
            "outputs[0].parameters",
        ),
    ],
    ids=["inputs", "outputs", "dims", "parameters", "parameters of an input", "parameters of an output"],
)
def test_count_above_its_limit_is_rejected(body: bytes, field: str):
    rejection = find_rejection(body)
    assert (rejection.reason, rejection.field) == (Reason.MESSAGE_MALFORMED, field)
    assert rejection.message == f"{field} has 257 entries; at most 256 are allowed"


@pytest.mark.parametrize("part", ["{}", '{"":0}', "[0]"])
@pytest.mark.parametrize(
    "body",
    [
        '{"inputs":[%s]}',
        '{"parameters":{"any":[%s]}}',
        '{"inputs":[{"name":"data","datatype":"INT8","shape":[1,1],"data":[%s]}]}',
    ],
    ids=["inputs", "parameter", "data"],
)
def test_small_parts_take_bounded_memory(part: str, body: str):
    text = (body % ",".join([part] * (MIB // 2 // (len(part) + 1)))).encode()
    tracemalloc.start()
    try:
        with suppress(ReshapeError):
            read(text)
        assert tracemalloc.get_traced_memory()[1] < 48 * MIB
    finally:
        tracemalloc.stop()


KEYS = (
    *("id", "inputs", "outputs", "parameters", "name", "datatype", "shape", "data", "special_zero", "operation"),
    *("binary_data_size", "binary_data", "binary_data_output", "classification", "model_name"),
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**70), max_value=2**70)
    | st.just(10**400)
    | st.floats()
    | st.text(st.characters(), max_size=4)
    | st.sampled_from(["data", "shape", "INT64", "FP32", "BOOL", "[1,-1]"]),
    lambda values: (
        st.lists(values, max_size=4)
        | st.dictionaries(
            st.sampled_from(KEYS) | st.text(st.characters(), max_size=2),
            values,
            max_size=4,
        )
    ),
    max_leaves=12,
)
VALID = {
    **json.loads(write_body()),
    "id": "mine",
    "inputs": [
        json.loads(write_body(binary=24))["inputs"][0],
        {"name": "shape", "datatype": "INT64", "shape": [2], "data": [3, -1]},
        {"name": "special_zero", "datatype": "BOOL", "shape": [1], "data": [True]},
    ],
    "parameters": {"binary_data_output": True, "any": None},
    "outputs": [{"name": "output", "parameters": {"binary_data": False}}],
}


def list_paths(value: object) -> list[list[Any]]:
    """Returns the path of each value in a JSON value, as the keys and indices that lead to it."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [[key, *path] for key, item in items for path in [[], *list_paths(item)]]
    return []


@st.composite
def mutate(draw: st.DrawFn) -> bytes:
    """Draws a valid body in which up to three values are replaced or removed, or whose text is damaged."""
    document = json.loads(json.dumps(VALID))
    for _ in range(draw(st.integers(0, 3))):
        *path, last = draw(st.sampled_from(list_paths(document) or [["id"]]))
        part = document
        for key in path:
            part = part[key]
        if draw(st.booleans()):
            part[last] = draw(JSON)
        else:
            part.pop(last, None) if isinstance(part, dict) else part.pop(last)
    text = json.dumps(document).encode()
    if draw(st.booleans()):
        begin, end = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
        text = text[:begin] + draw(st.binary(max_size=3)) + text[min(end, begin + 4) :]
    return text


def check_outcome(body: bytes, model: str) -> None:
    with suppress(ReshapeError):
        read_call(body, PACKED, model)


def test_body_that_the_mutations_begin_with_is_valid():
    body = json.dumps(VALID).encode()
    assert read_call(body, PACKED).special_zero is True


@examples(1000)
@given(mutate(), st.sampled_from(["reshape", "infer_shape", "other"]))
def test_mutated_body_is_accepted_or_rejected(body: bytes, model: str):
    check_outcome(body, model)


@examples(1000)
@given(JSON)
def test_any_json_is_accepted_or_rejected(value: object):
    check = partial(check_outcome, model="reshape")
    check(json.dumps(value).encode())
    check(json.dumps({"inputs": [value]}).encode())
    check(change_body(write_body(), parameters=value))
    check(write_body(data=value))


def write(data_type: DataType, payload: bytes, *dims: int, is_binary: bool = False) -> tuple[object, bytes | None]:
    """Returns the JSON and the bytes of a response."""
    output = TensorView(data_type, dims, None, memoryview(payload))
    header, elements = write_infer_response(read_call(write_body()), output, None, is_binary=is_binary)
    return json.loads(header), None if elements is None else bytes(elements)


@pytest.mark.parametrize(
    ("data_type", "code", "numbers"),
    [
        (DataType.BOOLEAN, "?", [True, False]),
        (DataType.I8, "b", [-128, 127]),
        (DataType.U64, "Q", [0, 2**64 - 1]),
        (DataType.F32, "f", [0.5, -0.0]),
        (DataType.F64, "d", [0.1, 1e300]),
        (DataType.I64, "q", list(range(40_000))),
        (DataType.I32, "i", []),
    ],
    ids=lambda value: str(value) if isinstance(value, DataType) else "",
)
def test_elements_are_numbers_of_the_json(data_type: DataType, code: str, numbers: list[float]):
    document, payload = write(data_type, pack(f"<{len(numbers)}{code}", *numbers), len(numbers))
    assert isinstance(document, dict)
    assert repr(document["outputs"][0]["data"]) == repr(numbers)
    assert payload is None


@pytest.mark.parametrize(("datatype", "code", "width"), [("FP32", "f", 32), ("FP64", "d", 64)])
def test_floats_written_and_read_again_have_the_same_bits(datatype: str, code: str, width: int):
    @given(st.lists(st.floats(width=width, allow_nan=False, allow_infinity=False), max_size=8))  # type: ignore[arg-type] # of two widths
    def check(numbers: list[float]) -> None:
        payload = pack(f"<{len(numbers)}{code}", *numbers)
        data_type = DataType.F32 if width == 32 else DataType.F64
        document, _ = write(data_type, payload, len(numbers))
        assert isinstance(document, dict)
        data = document["outputs"][0]["data"]
        assert bytes(read_call(write_body(data=data, datatype=datatype, shape=[len(data)])).first.payload) == payload

    check()


def test_binary_elements_follow_the_json():
    document, payload = write(DataType.BF16, b"abcd", 2, is_binary=True)
    assert document == {
        "model_name": "reshape",
        "model_version": "1",
        "outputs": [{"name": "output", "datatype": "BF16", "shape": [2], "parameters": {"binary_data_size": 4}}],
    }
    assert payload == b"abcd"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(("data_type", "code"), [(DataType.F32, "f"), (DataType.F64, "d")])
def test_number_that_json_cannot_express_is_rejected(data_type: DataType, code: str, number: float):
    with pytest.raises(InvalidRequestError, match="set binary_data to true") as caught:
        write(data_type, pack(f"<{code}", number), 1)
    assert (caught.value.reason, caught.value.field) == (Reason.OUTPUT_INVALID, "outputs[0]")


@pytest.mark.parametrize("data_type", [DataType.F16, DataType.BF16], ids=str)
def test_type_without_a_form_in_json_is_rejected(data_type: DataType):
    with pytest.raises(InvalidRequestError, match=r"JSON cannot express .*: set binary_data to true") as caught:
        write(data_type, b"ab", 1)
    assert caught.value.reason is Reason.OUTPUT_INVALID


def test_too_many_elements_for_json_are_rejected():
    with pytest.raises(LimitError, match="the output has 524289 elements; JSON may contain at most 524288") as caught:
        write(DataType.I8, bytes((1 << 19) + 1), (1 << 19) + 1)
    assert caught.value.reason is Reason.OUTPUT_TOO_LARGE
