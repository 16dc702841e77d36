"""JSON that protobuf rejects: the fault has the field and the value."""

import json

import pytest
from google.protobuf import json_format

from tensor_reshape.server.http.faults import find_fault
from tensor_reshape.v1 import reshape_pb2

KIND = reshape_pb2.BatchInferShapeRequest
DIM = '{"items":[{"question":{"shape":{"dims":[{},%s]}}}]}'
ITEM = "items[0].question"
PLACE = f"{ITEM}.shape.dims[1]"


FAULTS = [
    ('{"a":1}', "", 'has no field named "a"'),
    ('{"items":5}', "items", "items: "),
    ('{"items":[{},5]}', "items[1]", "items[1] is not an object"),
    ('{"items":[{"question":[1]}]}', "items[0].question", "is not an object"),
    ('{"items":[{"question":{"operation":"X"}}]}', f"{ITEM}.operation", "Invalid enum value X"),
    ('{"items":[{"question":{"operation":1e99}}]}', f"{ITEM}.operation", "Value out of range: 99999"),
    ('{"items":[{"question":{"specialZero":"yes"}}]}', f"{ITEM}.special_zero", "true or false"),
    ('{"items":[{"dataFrom":1,"data_from":2}]}', "items[0]", "multiple"),
    ('{"items":[{"dataFrom":2147483648}]}', "items[0].data_from", "out of range: 2147483648"),
    (DIM % '{"value":"x"}', f"{PLACE}.value", "'x'"),
    (DIM % '{"value":1.5}', f"{PLACE}.value", "1.5"),
    (DIM % '{"value":true}', f"{PLACE}.value", "Bool value True"),
    (DIM % '{"value":1e30}', f"{PLACE}.value", "out of range: 1000000000"),
    (DIM % '{"value":NaN}', f"{PLACE}.value", "nan"),
    (DIM % '{"value":1e999}', f"{PLACE}.value", "inf"),
    (DIM % '{"value":9223372036854775808}', f"{PLACE}.value", "out of range: 9223372036854775808"),
    (DIM % '{"value":1,"symbol":{}}', PLACE, 'multiple "kind" oneof'),
    (DIM % '{"val":1}', PLACE, 'no field named "val"'),
    (DIM % "null", PLACE, "is not an object"),
    (DIM % '{"symbol":{"name":5}}', f"{PLACE}.symbol.name", "got 'int'"),
    (DIM % '{"symbol":{"name":"\\ud800"}}', f"{PLACE}.symbol.name", "surrogate"),
]


def test_fault_names_the_field_and_the_value():
    for text, field, told in FAULTS:
        document = json.loads(text)
        with pytest.raises(json_format.ParseError):
            json_format.ParseDict(document, KIND())
        fault = find_fault(KIND, document)
        assert fault is not None
        assert fault.field == field
        assert told in fault.text


def test_document_that_protobuf_takes_has_no_fault():
    for text in (
        "{}",
        '{"items":null}',
        '{"items":[{"question":{"operation":3,"specialZero":true,"shape":null}}]}',
        DIM % '{"value":"7"}',
        DIM % '{"value":1e3}',
        DIM % '{"value":null,"symbol":{"name":"N"}}',
    ):
        document = json.loads(text)
        json_format.ParseDict(document, KIND())
        assert find_fault(KIND, document) is None, text


def test_fault_of_an_item_has_its_place_in_the_batch():
    fault = find_fault(reshape_pb2.BatchInferShapeItem, {"dataFrom": "x"}, "items[7]")
    assert fault is not None
    assert fault.field == "items[7].data_from"
    assert fault.text.startswith("items[7].data_from: ")


def test_fault_of_a_long_value_is_short():
    fault = find_fault(reshape_pb2.InferShapeRequest, {"x" * 100_000: 1})
    assert fault is not None
    assert len(fault.text) < 256
