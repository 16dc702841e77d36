"""Messages as JSON. `server/http/test_transcoder` has the errors of malformed JSON."""

import base64
import json
import math
import re
from collections.abc import Callable
from itertools import product
from typing import Any, cast

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from hypothesis import given

from hypothesis_profiles import examples
from strategies import LAWFUL_REQUESTS
from tensor_reshape.rules.dims import name_dim
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.operations import STATIC_RESHAPE
from tensor_reshape.rules.questions import Question, ShapeRequest
from tensor_reshape.server.oip.messages import find_class
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.inference import build_infer_request, build_infer_response
from tensor_reshape.wire.json_messages import (
    Checks,
    Json,
    check_values,
    decode_text,
    describe_message,
    is_text,
    parse_json,
    read_message,
    shorten,
    write_json,
    write_message,
)

N = name_dim("N", 1, 2**62)
ANSWER = build_infer_response(
    answer_question(ShapeRequest(Question(STATIC_RESHAPE, [N, 4], [0, -1], special_zero=True), explain=True))
)
REJECTION = reshape_pb2.Rejection(reason="NO", metadata={"value": "2", "index": "1"})


def test_described_message_has_numbers_and_written_message_has_text():
    entry = {"index": 0, "symbol": {"name": "N", "bounds": {"min": 1, "max": 2**62}}}
    assert describe_message(ANSWER)["shape"] == {"dims": [-1, 4], "partial": [entry]}
    written = json.loads(write_message(ANSWER))["shape"]
    assert written["dims"] == ["-1", "4"]
    assert written["partial"][0]["symbol"]["bounds"] == {"min": "1", "max": str(2**62)}


def test_described_message_keeps_text_and_small_numbers():
    copied, inferred = describe_message(ANSWER)["origins"]
    assert (copied["kind"], copied["dataIndex"], inferred["dividend"]) == ("KIND_COPIED", 0, "N*4")
    assert [*describe_message(REJECTION)["metadata"].items()] == [("index", "1"), ("value", "2")]


@examples(100)
@given(LAWFUL_REQUESTS)
def test_described_message_is_read_again(request: ShapeRequest):
    for message in (build_infer_request(request), *_list_answers(request)):
        record = describe_message(message)
        assert read_message(type(message), json.loads(json.dumps(record))) == message
        assert read_message(type(message), json_format.MessageToDict(message)) == message


def _list_answers(request: ShapeRequest) -> list[reshape_pb2.InferShapeResponse]:
    try:
        return [build_infer_response(answer_question(request))]
    except InvalidRequestError:
        return []


ModelInferRequest: Any = find_class("ModelInferRequest")  # it has fields of more types than the own messages
INTEGERS = {
    "int_contents": (-(2**31), 2147483647),
    "int64_contents": (-(2**63), 9223372036854775807),
    "uint_contents": (0, 4294967295),
    "uint64_contents": (0, 18446744073709551615),
}
ODD: list[object] = [None, [], {}, math.nan, math.inf]
NO_TEXTS: list[object] = [1, True, [], {}, "\ud800", "a\udfff"]
NO_OBJECTS: list[object] = [[], "x", 1, None, True]
NO_INTEGERS: list[object] = [
    *(*ODD, True, False, 0.5, "", " 1", "1 ", "+1", "1.0", "1e2", "1_0", "--1", "\u0661", "0" * 21),
]


def read_contents(name: str, value: object) -> object:
    """Reads a value of the elements of a tensor."""
    document = {"inputs": [{}, {"contents": {name: [0, value] if name in INTEGERS else [value]}}]}
    return getattr(read_message(ModelInferRequest, document).inputs[1].contents, name)[-1]


def reject(kind: type[Message], document: object, path: str = "", **options: Any) -> tuple[str, str]:
    """Returns the text and the field of the rejection."""
    with pytest.raises(InvalidRequestError) as caught:
        pytest.fail(f"{document!r:.80} is read as {read_message(kind, document, path, **options)}")
    assert caught.value.reason is Reason.MESSAGE_MALFORMED
    return caught.value.message, caught.value.field


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_read_up_to_the_bounds_of_their_type(name: str):
    low, high = INTEGERS[name]
    whole: list[Any] = [low, high, str(low), str(high), 0, "-0", "007", -0.0, 7.0, float(low), "0" * 20, float(2**30)]
    assert [read_contents(name, value) for value in whole] == [int(value) for value in whole]
    for value in (*NO_INTEGERS, low - 1, high + 1, str(low - 1), str(high + 1), float(high) * 2 + 2, low * 2.0 - 1):
        place = f"inputs[1].contents.{name}[1]"
        document = {"inputs": [{}, {"contents": {name: [0, value]}}]}
        text = f"{place} is {shorten(value)}, not a whole number from {low} to {high}"
        assert reject(ModelInferRequest, document) == (text, place)


# A field of an element's type, values that are read, values that are rejected, and how a rejection names the type.
ELEMENTS: dict[str, tuple[dict[Any, object], list[object], str]] = {
    "bool_contents": ({True: True, False: False}, [*ODD, 0, 1, 1.0, "true", ""], "true or false"),
    "fp64_contents": (
        {
            **{value: value for value in (1, 0, -2.5, 1e300)},
            **{text: float(text) for text in ("1", "-1e-3", "1.5E+2", "0.5", "Infinity", "-Infinity")},
        },
        [None, [], {}, True, "", "x", " 1", "1.", ".5", "+1", "inf", "nan", "-NaN", "1e", "0x1", "1_0", "\u0661"],
        "a number",
    ),
    "bytes_contents": ({"": b"", "AAEC": b"\0\1\2"}, [*ODD, 7, True, "A", "\ud800"], "base64"),
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_only_values_of_the_type_of_a_field_are_read(name: str):
    good, wrong, wanted = ELEMENTS[name]
    for value, result in good.items():
        assert read_contents(name, value) == result, value
    place = f"inputs[1].contents.{name}[0]"
    for value in wrong:
        document = {"inputs": [{}, {"contents": {name: [value]}}]}
        assert reject(ModelInferRequest, document) == (f"{place} is {shorten(value)}, not {wanted}", place)


def test_not_a_number_is_written_as_text():
    assert math.isnan(cast("float", read_contents("fp64_contents", "NaN")))


def test_enum_is_a_name_or_a_number_of_32_bits():
    good: dict[Any, int] = {"DATA_TYPE_U8": tensor_pb2.DATA_TYPE_U8, **{n: n for n in (0, 7, -(2**31), 2**31 - 1)}}
    for value, number in good.items():
        assert read_message(tensor_pb2.Tensor, {"dataType": value}).data_type == number
    wrong: list[object] = [True, [], {}, 1.0, 2**31, 2**32, -(2**31) - 1, "\ud800"]
    for value in wrong:
        place = f"dataType is {shorten(value)}, not the name of a value"
        assert reject(tensor_pb2.Tensor, {"dataType": value}) == (place, "dataType")


def test_text_is_valid_unicode():
    good, wrong = ["", "größe", "\U0001f600"], NO_TEXTS
    assert [read_message(tensor_pb2.Symbol, {"name": text}).name for text in good] == good
    for value in wrong:
        assert reject(tensor_pb2.Symbol, {"name": value}) == (f"name is {shorten(value)}, not valid text", "name")
    assert [is_text(value) for value in (*good, *wrong)] == [True] * len(good) + [False] * len(wrong)


BASE64 = re.compile(r"(?:[A/]{4})*(?:|[A/]{2}(?:==)?|[A/]{3}=?)")


def test_bytes_are_base64_with_or_without_padding():
    for length in range(9):
        for value in map("".join, product("A=/*" if length < 6 else "A=", repeat=length)):
            if BASE64.fullmatch(value):
                padded = value.rstrip("=") + "=" * (-len(value.rstrip("=")) % 4)
                assert read_message(tensor_pb2.Tensor, {"data": value}).data == base64.b64decode(padded)
            else:
                assert reject(tensor_pb2.Tensor, {"data": value}) == (f'data is "{value}", not base64', "data")


def test_value_in_an_error_is_cut_after_60_characters():
    assert [shorten(value) for value in ("a" * 58, "a" * 59)] == [f'"{"a" * 58}"', f'"{"a" * 59}...']
    values: list[object] = [[[]], {"a": 1}, None, 10**60 - 1, 10**60]
    assert [*map(shorten, values)] == ["a list", "an object", "null", "9" * 60, f"1{'0' * 59}..."]


OPERATIONS = "OPERATION_STATIC_RESHAPE, OPERATION_DYNAMIC_RESHAPE, OPERATION_RESHAPE, OPERATION_ONNX_RESHAPE"

# A message, a value, the text of the rejection after the field, and the field; "*" may be any text.
MISFITS: list[tuple[Any, Json, str, str]] = [
    (reshape_pb2.InferShapeRequest, {"more": 1}, 'Message type "*" has no field named "more"*', ""),
    (reshape_pb2.InferShapeRequest, {"data": {"more": 1}}, '* has no field named "more"*', "data"),
    (reshape_pb2.InferShapeRequest, {"shape": {"partial": [{}, {"a": 1}]}}, "* has no field *", "shape.partial[1]"),
    (
        reshape_pb2.InferShapeRequest,
        {"data": {"shape": {"partial": [{"interval": {}, "symbol": {}}]}}},
        '* should not have multiple "kind" oneof fields',
        "data.shape.partial[0]",
    ),
    (
        reshape_pb2.InferShapeRequest,
        {"data": {"dataType": "NO."}},
        "Invalid enum value NO. for enum type tensor_reshape.v1.DataType; use one of DATA_TYPE_BOOLEAN, *",
        "data.dataType",
    ),
    (
        reshape_pb2.InferShapeRequest,
        {"operation": "x" * 300},
        f"Invalid enum value {'x' * 181}; use one of {OPERATIONS}",
        "operation",
    ),
    (reshape_pb2.InferShapeRequest, {"operation": " "}, f"Invalid enum value *; use one of {OPERATIONS}", "operation"),
    (reshape_pb2.Rejection, {"metadata": {"\ud800": "b"}}, "*surrogate*", "metadata.key"),
]


@pytest.mark.parametrize("path", ["", "answer", "cases[3].answer"])
def test_error_of_the_parser_names_the_field(path: str):
    for kind, document, pattern, field in MISFITS:
        text, place = reject(kind, document, path)
        assert place == ".".join(filter(None, (path, field)))
        assert text.startswith(f"{place or 'the body'}: ")
        shown = text.removeprefix(f"{place or 'the body'}: ")
        assert re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), shown), shown
        assert not re.search(r'Failed to parse| at "?[A-Z]', shown)
        assert len(shown.partition("; use one of ")[0]) <= 200


def test_value_that_makes_the_parser_fail_is_rejected():
    for path in ("", "answer"):
        text = f"{path or 'the body'} contains a number that is too large, invalid text, or a value of a wrong type"
        assert reject(tensor_pb2.Shape, {"\ud800": 1}, path) == (text, path)


@pytest.mark.parametrize("path", ["", "answer"])
def test_form_of_each_value_is_checked_by_name(path: str):
    before, body = f"{path}." if path else "", path or "the body"
    rejections: list[tuple[Any, object, str, str]] = [
        *((tensor_pb2.Shape, value, f"{body} is not a JSON object", path) for value in NO_OBJECTS),
        (tensor_pb2.Shape, {"dims": {}}, f"{before}dims is not a JSON list", f"{before}dims"),
        (tensor_pb2.Shape, {"dims": 1}, f"{before}dims is not a JSON list", f"{before}dims"),
        (reshape_pb2.Rejection, {"metadata": []}, f"{before}metadata is not a JSON object", f"{before}metadata"),
        (
            reshape_pb2.Rejection,
            {"metadata": {"a": "b", "c": 1}},
            f"{before}metadata[c] is 1, not valid text",
            f"{before}metadata[c]",
        ),
        (tensor_pb2.Shape, {"partial": [{}, []]}, f"{before}partial[1] is not a JSON object", f"{before}partial[1]"),
        (
            tensor_pb2.Shape,
            {"partial": [{"symbol": {"bounds": [1]}}]},
            f"{before}partial[0].symbol.bounds is not a JSON object",
            f"{before}partial[0].symbol.bounds",
        ),
        (
            tensor_pb2.Tensor,
            {"dataType": 1, "data_type": 1},
            f"{before}data_type is given twice",
            f"{before}data_type",
        ),
        (
            tensor_pb2.Tensor,
            {"data_type": 1, "dataType": None},
            f"{before}dataType is given twice",
            f"{before}dataType",
        ),
    ]
    for kind, document, text, field in rejections:
        for ignores_unknown in (False, True):
            assert reject(kind, document, path, ignores_unknown=ignores_unknown) == (text, field)


def test_number_of_entries_is_limited_on_request():
    kinds: list[tuple[Any, str, Callable[[int], object]]] = [
        (tensor_pb2.Shape, "dims", lambda count: [1] * count),
        (reshape_pb2.Rejection, "metadata", lambda count: {str(key): "" for key in range(count)}),
    ]
    for kind, name, make in kinds:
        check_values({name: make(1000)}, kind.DESCRIPTOR)
        check_values({name: make(3)}, kind.DESCRIPTOR, checks=Checks(max_entries=3))
        with pytest.raises(InvalidRequestError) as caught:
            check_values({name: make(4)}, kind.DESCRIPTOR, checks=Checks(max_entries=3))
        assert (caught.value.message, caught.value.field) == (f"{name} has 4 entries; at most 3 are allowed", name)


def test_opaque_message_may_have_any_form():
    kind, odd = tensor_pb2.Shape.DESCRIPTOR, {"partial": [{"symbol": 7}, {"symbol": {"name": "N"}}]}
    check_values(odd, kind, checks=Checks(opaque="tensor_reshape.v1.Symbol"))
    for checks in (Checks(), Checks(opaque="tensor_reshape.v1.Interval")):
        with pytest.raises(InvalidRequestError) as caught:
            check_values(odd, kind, checks=checks)
        assert caught.value.field == "partial[0].symbol"


def test_all_forms_of_values_in_the_mapping_are_read():
    rows = [
        ({"data": "AAEC"}, tensor_pb2.Tensor(data=bytes(range(3)))),
        ({"data": "__8"}, tensor_pb2.Tensor(data=b"\xff\xff")),
        ({"data": "//8="}, tensor_pb2.Tensor(data=b"\xff\xff")),
        ({"dims": [2, "3", 4.0, "-5"]}, tensor_pb2.Tensor(dims=[2, 3, 4, -5])),
        ({"dataType": 1}, tensor_pb2.Tensor(data_type=tensor_pb2.DataType.values()[1])),
        ({"data_type": "DATA_TYPE_F32", "dims": None}, tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32)),
    ]
    for document, message in rows:
        assert read_message(tensor_pb2.Tensor, document) == message, document


def test_unknown_names_are_ignored_only_on_request():
    document = {"dims": [2], "more": 1}
    assert read_message(tensor_pb2.Shape, document, ignores_unknown=True) == tensor_pb2.Shape(dims=[2])
    with pytest.raises(InvalidRequestError, match="no field named"):
        read_message(tensor_pb2.Shape, document)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": }', "the body is not JSON at character 7"),
        ('{\n"a": }', "the body is not JSON at line 2, character 6"),
        ('{"a": {"b": 1, "b": 1}}', "the body is not JSON: an object contains the same name twice"),
        ("9" * 5000, "the body is not JSON: a number has too many digits"),
        ("[" * 100_000, "the body is not JSON: it is nested too deeply"),
        ("[]", "the body is not a JSON object"),
    ],
    ids=lambda text: text[:20],
)
def test_error_of_text_that_is_not_json_names_the_place(text: str, message: str):
    with pytest.raises(InvalidRequestError) as caught:
        parse_json(text)
    assert caught.value.message == message


def test_json_text_is_utf_8_with_any_name_for_its_place():
    assert decode_text("größe".encode()) == "größe"
    with pytest.raises(InvalidRequestError) as caught:
        decode_text(b"ab\xff")
    assert (caught.value.message, caught.value.reason) == ("the body is not UTF-8 at byte 2", Reason.MESSAGE_MALFORMED)
    assert parse_json('{"a": [1, {"a": 2}]}') == {"a": [1, {"a": 2}]}
    for text, message in (("{", "line 3 is not JSON at character 2"), ("1", "line 3 is not a JSON object")):
        with pytest.raises(InvalidRequestError) as caught:
            parse_json(text, "line 3")
        assert (caught.value.message, caught.value.field) == (message, "")


def test_written_json_is_compact_and_has_finite_numbers():
    assert write_json({"a": [1, 2.5], "b": {}}) == b'{"a":[1,2.5],"b":{}}'
    assert write_message(tensor_pb2.Shape(dims=[1, 2])) == b'{"dims":["1","2"]}'
    for number in (math.nan, math.inf):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write_json([number])


def test_described_message_may_have_the_names_of_the_proto_file():
    message = reshape_pb2.InferShapeResponse(conditions_complete=True, origins=[reshape_pb2.Origin(data_index=2)])
    for kept, (outer, inner) in (
        (True, ("conditions_complete", "data_index")),
        (False, ("conditionsComplete", "dataIndex")),
    ):
        record = describe_message(message, preserving_proto_field_name=kept)
        assert record == {"origins": [{inner: 2}], outer: True}
