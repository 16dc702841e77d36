"""What OpenAPI is told of the methods is what they take and give."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given

from dim_strategies import LAWFUL_REQUESTS, REQUESTS
from example_counts import draw
from json_bodies import BATCH_PATH, INFER_PATH
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.rules.questions import ShapeRequest
from tensor_reshape.server.http.descriptions import HEALTH_PATH, describe
from tensor_reshape.server.http.json_methods import build_json_methods
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.inference import build_infer_request

DOCUMENT: dict[str, Any] = json.loads(describe())
SCHEMAS = DOCUMENT["components"]["schemas"]
METHODS = {method.name: method for method in build_json_methods(ReshapeService(DEFAULT_LIMITS).methods)}


def find_faults(document: object, name: str) -> list[str]:
    """Returns where a value of JSON is not as the description says."""
    # Here, because each process imports all test files, to find their tests, and this takes two seconds.
    from jsonschema import Draft202012Validator  # noqa: PLC0415

    schema = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    return [error.message for error in Draft202012Validator(schema).iter_errors(document)]


def test_the_document_is_one_of_openapi():
    from openapi_spec_validator import validate  # noqa: PLC0415 - as above

    validate(DOCUMENT)


def test_all_paths_are_described():
    assert DOCUMENT["paths"].keys() == {INFER_PATH, BATCH_PATH, HEALTH_PATH}


@pytest.mark.parametrize("name", sorted(SCHEMAS.keys() - {"Status"}))
def test_every_field_and_every_value_is_there_with_what_the_contract_says_of_it(name: str):
    schema = SCHEMAS[name]
    assert schema["description"]
    outer, _, inner = name.rpartition(".")
    if schema["type"] == "object":
        message = (
            reshape_pb2.DESCRIPTOR.message_types_by_name.get(name) or tensor_pb2.DESCRIPTOR.message_types_by_name[name]
        )
        assert list(schema["properties"]) == [field.json_name for field in message.fields]
        assert all(field["description"] for field in schema["properties"].values())
    else:
        holder = reshape_pb2.DESCRIPTOR.message_types_by_name[outer] if outer else None
        enums = [holder] if holder else [reshape_pb2.DESCRIPTOR, tensor_pb2.DESCRIPTOR]
        (enum,) = [found.enum_types_by_name[inner] for found in enums if inner in found.enum_types_by_name]
        assert schema["enum"] == [value.name for value in enum.values]
        assert all(f"{value}: " in schema["description"] for value in schema["enum"])


@draw(30)
@given(LAWFUL_REQUESTS | REQUESTS)
def test_questions_and_answers_are_as_described(asked: ShapeRequest):
    question = json_format.MessageToDict(build_infer_request(asked))
    assert find_faults(question, "InferShapeRequest") == []
    try:
        answer = METHODS[INFER_PATH].answer(json.dumps(question).encode(), lambda: False)
    except ReshapeError:
        return
    assert find_faults(json.loads(answer), "InferShapeResponse") == []


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"operation": "OPERATION_NONE"}, "InferShapeRequest"),
        ({"shape": {"dims": [{"value": 1.5}]}}, "InferShapeRequest"),
        ({"shape": {"dims": [{"value": 1, "symbol": {"name": "N"}}]}}, "InferShapeRequest"),
        ({"items": {}}, "BatchInferShapeRequest"),
        ({"code": "3"}, "Status"),
    ],
)
def test_and_what_is_none_is_not(document: object, name: str):
    assert find_faults(document, name)


def test_a_field_of_a_map_has_values_of_its_type():
    assert SCHEMAS["Refusal"]["properties"]["metadata"]["additionalProperties"] == {"type": "string"}


def test_the_file_is_made_of_the_contract_as_it_is():
    contract = Path(__file__).parents[3] / "protos" / "tensor_reshape" / "v1" / "reshape.proto"
    first = DOCUMENT["paths"][INFER_PATH]["post"]["summary"]
    assert f"// {first}" in contract.read_text()
