"""The OpenAPI document describes the inputs and outputs of the methods."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given

from dim_strategies import LAWFUL_REQUESTS, REQUESTS
from hypothesis_profiles import examples
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
METHODS = {method.name: method for method in build_json_methods(ReshapeService(DEFAULT_LIMITS))}


def find_faults(document: object, name: str) -> list[str]:
    """Returns the differences of a JSON value from its description."""
    # Imported here, because each process imports all test files to find their tests, and this import takes two seconds.
    from jsonschema import Draft202012Validator  # noqa: PLC0415

    schema = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    return [error.message for error in Draft202012Validator(schema).iter_errors(document)]


@pytest.mark.repository  # takes 4 seconds for a generated file, and the tests below read the same document
def test_openapi_document_is_valid():
    from openapi_spec_validator import validate  # noqa: PLC0415 - see above

    validate(DOCUMENT)


def test_openapi_document_describes_all_paths():
    assert DOCUMENT["paths"].keys() == {INFER_PATH, BATCH_PATH, HEALTH_PATH}


def test_openapi_schemas_match_the_proto_fields_and_enums():
    for name in SCHEMAS.keys() - {"Status"}:
        schema = SCHEMAS[name]
        assert schema["description"], name
        outer, _, inner = name.rpartition(".")
        files = (reshape_pb2.DESCRIPTOR, tensor_pb2.DESCRIPTOR)
        messages = {**files[1].message_types_by_name, **files[0].message_types_by_name}
        if schema["type"] == "object":
            assert list(schema["properties"]) == [field.json_name for field in messages[name].fields]
            assert all(field["description"] for field in schema["properties"].values())
        else:
            enums = [messages[outer]] if outer else files
            (enum,) = [found.enum_types_by_name[inner] for found in enums if inner in found.enum_types_by_name]
            assert schema["enum"] == [value.name for value in enum.values]
            assert all(f"{value}: " in schema["description"] for value in schema["enum"])
    assert SCHEMAS["Rejection"]["properties"]["metadata"]["additionalProperties"] == {"type": "string"}


@examples(30)
@given(LAWFUL_REQUESTS | REQUESTS)
def test_json_requests_and_responses_match_the_openapi_schemas(asked: ShapeRequest):
    question = json_format.MessageToDict(build_infer_request(asked))
    assert find_faults(question, "InferShapeRequest") == []
    try:
        answer = METHODS[INFER_PATH].respond(json.dumps(question).encode(), lambda: False)
    except ReshapeError:
        return
    assert find_faults(json.loads(answer), "InferShapeResponse") == []


def test_invalid_json_documents_violate_the_openapi_schemas():
    for document, name in (
        ({"operation": "OPERATION_NONE"}, "InferShapeRequest"),
        ({"shape": {"items": [1.5]}}, "InferShapeRequest"),
        ({"shape": {"items": [{"value": 1}]}}, "InferShapeRequest"),
        ({"items": {}}, "BatchInferShapeRequest"),
        ({"code": "3"}, "Status"),
    ):
        assert find_faults(document, name), document


def test_openapi_summaries_are_the_proto_comments():
    contract = Path(__file__).parents[3] / "protos" / "tensor_reshape" / "v1" / "reshape.proto"
    first = DOCUMENT["paths"][INFER_PATH]["post"]["summary"]
    assert f"// {first}" in contract.read_text()
