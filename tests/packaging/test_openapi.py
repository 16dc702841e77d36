"""The OpenAPI document that the build generates describes what the server accepts and returns."""

import json
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given

from hypothesis_profiles import examples
from strategies import LAWFUL_REQUESTS, REQUESTS
from tensor_reshape.rules.dims import MAX_FACTORS
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.limits import DEFAULT_LIMITS, GRAPH_MAX_RANK, MAX_BATCH_ITEMS, MAX_DIM, MAX_RANK
from tensor_reshape.rules.names import MAX_SYMBOL_CHARACTERS
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE
from tensor_reshape.rules.questions import ShapeRequest
from tensor_reshape.server.oip.datatypes import DATATYPES
from tensor_reshape.server.oip.models import MODELS, VERSION
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.inference import build_infer_request
from tensor_reshape.wire.json_messages import read_message, write_message
from tensor_reshape.wire.status import MAX_REQUEST_ID_CHARACTERS

Json = dict[str, Any]

DOCUMENT: Json = json.loads(files("tensor_reshape.server.http").joinpath("openapi.json").read_bytes())
PATHS, COMPONENTS = DOCUMENT["paths"], DOCUMENT["components"]
SCHEMAS: Mapping[str, Json] = COMPONENTS["schemas"]
SERVICE = reshape_pb2.DESCRIPTOR.services_by_name["ReshapeService"]
UNARY = {f"/{SERVICE.full_name}/{method.name}": method for method in SERVICE.methods if not method.client_streaming}
RESPOND: dict[str, Callable[[bytes, Callable[[], bool]], bytes]] = {
    method.name: method.respond for method in ReshapeService(DEFAULT_LIMITS).methods.unary
}

LIMITS = {
    "Tensor.dims maxItems": MAX_RANK,
    "Tensor.dims minimum": 0,
    "Tensor.strides maxItems": MAX_RANK,
    "Tensor.strides minimum": 0,
    "Shape.dims maxItems": MAX_RANK,
    "Shape.dims minimum": -1,
    "Shape.partial maxItems": MAX_RANK,
    "TargetShape.items maxItems": MAX_RANK,
    "TargetShape.items minimum": -1,
    "TargetShape.partial maxItems": MAX_RANK,
    "PartialDim.index minimum": 0,
    "PartialDim.index maximum": MAX_RANK - 1,
    "Interval.min minimum": 0,
    "Interval.max minimum": 0,
    "Symbol.name minLength": 1,
    "Symbol.name maxLength": MAX_SYMBOL_CHARACTERS,
    "Expression.coefficient minimum": 1,
    "Expression.divisor minimum": 1,
    "Expression.factors maxItems": MAX_FACTORS,
    "Expression.divisors maxItems": MAX_FACTORS,
    "BatchInferShapeRequest.items maxItems": MAX_BATCH_ITEMS,
    "BatchInferShapeItem.dataFrom minimum": 0,
    "BatchInferShapeItem.dataFrom maximum": MAX_BATCH_ITEMS - 2,  # the last item cannot be an earlier item
    "StaticReshapeRequest.shape.items maxItems": GRAPH_MAX_RANK,
    "StaticReshapeRequest.shape.partial maxItems": 0,
    "StaticReshapeRequest.data.dims maxItems": GRAPH_MAX_RANK,
    "DynamicReshapeRequest.shape.dims minItems": 1,
    "DynamicReshapeRequest.shape.dims maxItems": 1,
    "DynamicReshapeRequest.shape.dims maximum": GRAPH_MAX_RANK,
    "DynamicReshapeRequest.data.dims maxItems": GRAPH_MAX_RANK,
    "ReshapeRequest.shape.dims minItems": 1,
    "ReshapeRequest.shape.dims maxItems": 1,
    "ReshapeRequest.shape.dims maximum": MAX_RANK,
    "InferRequest.parameters.shape maxItems": MAX_RANK,
    "InferRequest.inputs minItems": 1,
    "InferRequest.inputs maxItems": max(len(model.inputs) for model in MODELS.values()),
    "InferRequest.outputs maxItems": 1,
    "InferInput.shape maxItems": MAX_RANK,
    "InferInput.shape minimum": 0,
    "InferInput.parameters.binary_data_size minimum": 0,
}
"""The limits in requests, by schema, property and keyword."""

RESPONSES = ("Output", "InferOutput", "InferResponse")  # how the names of schemas without limits begin

SIX = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"  # 24 bytes in base64
DATA = {"dataType": "DATA_TYPE_F32", "dims": [2, "3"], "data": SIX}
VECTOR = {"dataType": "DATA_TYPE_I32", "dims": [1], "data": "/////w=="}  # [-1]
QUERY = {
    "operation": "OPERATION_RESHAPE",
    "specialZero": False,
    "data": {"shape": {"dims": [2, -1], "partial": [{"index": 1, "symbol": {"name": "N"}}]}},
    "shape": {"items": ["-1"]},
}
VALID: list[tuple[str, Json]] = [
    ("StaticReshape", {"shape": {"items": [3, -1]}, "specialZero": True, "data": DATA}),
    ("StaticReshape", {"shape": {}, "special_zero": True, "data": DATA | {"dims": [], "data": "AAAAAA=="}}),
    ("DynamicReshape", {"shape": VECTOR, "specialZero": False, "data": DATA, "expectedShape": {"dims": [-1]}}),
    ("Reshape", {"shape": VECTOR, "special_zero": False, "data": DATA, "expected_shape": {"dims": [6]}}),
    ("Reshape", {"shape": VECTOR, "specialZero": False, "data": {"data_type": "DATA_TYPE_U8"} | {"data": "AA=="}}),
    ("InferShape", QUERY),
    ("InferShape", QUERY | {"data": {"dataType": "DATA_TYPE_UNSPECIFIED"}, "explain": True}),
    ("BatchInferShape", {"items": [{"question": QUERY}, {"question": QUERY | {"data": {}}, "dataFrom": 0}]}),
    ("BatchInferShape", {}),
]
WRONG: list[tuple[str, Json]] = [
    ("StaticReshape", VALID[0][1] | {"allow_zero": True}),
    ("StaticReshape", VALID[0][1] | {"special_zero": True}),
    ("StaticReshape", VALID[0][1] | {"data": DATA | {"dataType": "DATA_TYPE_I8"}}),
    ("StaticReshape", VALID[0][1] | {"shape": {"items": [1] * 13}}),
    ("StaticReshape", {"shape": {"items": [6]}, "data": DATA}),
    ("DynamicReshape", VALID[2][1] | {"shape": VECTOR | {"dims": [1, 1]}}),
    ("DynamicReshape", VALID[2][1] | {"shape": {"items": [6]}}),
    ("Reshape", VALID[3][1] | {"data": DATA | {"dataType": "DATA_TYPE_UNSPECIFIED"}}),
    ("Reshape", VALID[3][1] | {"data": DATA | {"dims": [1] * 63 + [2, 3]}}),
    ("Reshape", VALID[3][1] | {"data": {"dims": [6], "data": SIX}}),
    ("InferShape", QUERY | {"operation": "OPERATION_UNSPECIFIED"}),
    ("InferShape", {key: value for key, value in QUERY.items() if key != "data"}),
    ("InferShape", QUERY | {"shape": {"items": [1.5]}}),
    ("InferShape", QUERY | {"shape": {"items": [-2]}}),
    ("InferShape", QUERY | {"shape": {"items": [1] * 65}}),
    ("InferShape", QUERY | {"shape": {"items": [{"value": 1}]}}),
    ("InferShape", QUERY | {"data": {"shape": {"dims": [2**63]}}}),
    ("InferShape", QUERY | {"data": {"shape": {"dims": [-1], "partial": [{"symbol": {"name": "N"}}]}}}),
    ("InferShape", QUERY | {"data": {"shape": {"dims": [-1], "partial": [{"index": 0, "symbol": {"name": ""}}]}}}),
    (
        "InferShape",
        QUERY | {"data": {"shape": {"dims": [-1], "partial": [{"index": 0, "interval": {}, "symbol": {}}]}}},
    ),
    ("BatchInferShape", {"items": {}}),
    ("BatchInferShape", {"items": [{"question": QUERY, "data": {}}]}),
]


def find_faults(document: object, schema: Json) -> list[str]:
    """Returns the differences of a JSON value from a schema of the document."""
    # Imported here, because each process imports all test files to find their tests, and this import takes two seconds.
    from jsonschema import Draft202012Validator  # noqa: PLC0415

    return [error.message for error in Draft202012Validator(schema | {"components": COMPONENTS}).iter_errors(document)]


def find_request_faults(name: str, document: object) -> list[str]:
    post = PATHS[f"/{SERVICE.full_name}/{name}"]["post"]
    return find_faults(document, post["requestBody"]["content"]["application/json"]["schema"])


def find_response_faults(name: str, document: object) -> list[str]:
    post = PATHS[f"/{SERVICE.full_name}/{name}"]["post"]
    return find_faults(document, post["responses"]["200"]["content"]["application/json"]["schema"])


def respond(name: str, document: Json) -> Json:
    """Returns the response of the service to a JSON request, as JSON."""
    request: type[Message] = getattr(reshape_pb2, f"{name}Request")
    response: type[Message] = getattr(reshape_pb2, f"{name}Response")
    raw = read_message(request, document).SerializeToString()
    answer: Json = json.loads(
        write_message(response.FromString(RESPOND[f"/{SERVICE.full_name}/{name}"](raw, lambda: False)))
    )
    return answer


def list_limits(schema: Json, path: str) -> Iterator[tuple[str, int]]:
    """Yields the limits in a schema, except the ranges of integer types."""
    for word in ("minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum"):
        if abs(schema.get(word, 2**31)) < 2**31 - 1:
            yield f"{path} {word}", schema[word]
    if "items" in schema:
        yield from list_limits(schema["items"], path)
    for name, inner in schema.get("properties", {}).items():
        yield from list_limits(inner, f"{path}.{name}")


@pytest.mark.repository  # takes several seconds for a generated file
def test_openapi_document_is_valid():
    from openapi_spec_validator import validate  # noqa: PLC0415 - see above

    validate(DOCUMENT)


def test_openapi_document_has_the_version_of_the_package():
    assert DOCUMENT["info"]["version"] == version("tensor-reshape")


def test_openapi_document_describes_all_paths():
    models = [f"/v2/models/{{name}}{part}" for part in ("", "/versions/{version}")]
    ends = ("", "/ready", "/config", "/stats", "/infer")
    inference = {"/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/stats", "/v2/repository/index"}
    inference |= {f"{model}{end}" for model in models for end in ends}
    assert PATHS.keys() == {*UNARY, "/healthz", "/readyz", *inference}


def test_openapi_operations_have_different_ids():
    ids = [verb["operationId"] for path in PATHS.values() for name, verb in path.items() if name != "parameters"]
    assert len(ids) == len(set(ids)) == len(PATHS)


def test_openapi_requests_have_both_names_of_each_field():
    for method in UNARY.values():
        names = {name for field in method.input_type.fields for name in (field.name, field.json_name)}
        assert SCHEMAS[method.input_type.name]["properties"].keys() == names


def test_openapi_responses_have_the_json_names_of_the_fields():
    for method in UNARY.values():
        names = [field.json_name for field in method.output_type.fields]
        assert [*SCHEMAS[method.output_type.name]["properties"]] == names


def test_openapi_limits_equal_the_constants():
    requests = {name: schema for name, schema in SCHEMAS.items() if not name.startswith(RESPONSES)}
    assert dict(limit for name, schema in requests.items() for limit in list_limits(schema, name)) == LIMITS


def test_openapi_integers_end_at_the_largest_dim():
    assert SCHEMAS["Shape"]["properties"]["dims"]["items"]["maximum"] == MAX_DIM
    assert SCHEMAS["InferInput"]["properties"]["shape"]["items"]["maximum"] == MAX_DIM


@pytest.mark.parametrize(
    ("schema", "field", "data_types"),
    [
        ("StaticReshapeRequest", "data", STATIC_RESHAPE.data_types),
        ("DynamicReshapeRequest", "data", DYNAMIC_RESHAPE.data_types),
        ("DynamicReshapeRequest", "shape", DYNAMIC_RESHAPE.shape_data_types),
        ("ReshapeRequest", "shape", RESHAPE.shape_data_types),
    ],
)
def test_openapi_data_types_are_those_of_the_operation(schema: str, field: str, data_types: frozenset[DataType]):
    tensor = SCHEMAS[schema]["properties"][field]["properties"]
    assert set(tensor["dataType"]["enum"]) == {f"DATA_TYPE_{data_type.name}" for data_type in data_types}
    assert tensor["data_type"] == tensor["dataType"]


def test_openapi_models_are_those_of_the_server():
    inputs = {spec.name for model in MODELS.values() for spec in model.inputs}
    parameters, tensor = COMPONENTS["parameters"], SCHEMAS["InferInput"]["properties"]
    assert parameters["Model"]["schema"]["enum"] == [*MODELS]
    assert parameters["Version"]["schema"]["const"] == VERSION
    assert set(tensor["name"]["enum"]) == inputs
    assert tensor["datatype"]["enum"] == [*DATATYPES]
    outputs = SCHEMAS["InferRequestedOutput"]["properties"]["name"]["enum"]
    assert set(outputs) == {model.output.name for model in MODELS.values()}


def test_openapi_request_id_has_the_limit_of_the_server():
    assert f" {MAX_REQUEST_ID_CHARACTERS} " in COMPONENTS["parameters"]["RequestId"]["description"]


@pytest.mark.parametrize(("name", "document"), VALID)
def test_accepted_request_and_its_response_match_the_schemas(name: str, document: Json):
    assert find_request_faults(name, document) == []
    assert find_response_faults(name, respond(name, document)) == []


@pytest.mark.parametrize(("name", "document"), WRONG)
def test_wrong_request_violates_the_schema_and_is_rejected(name: str, document: Json):
    assert find_request_faults(name, document)
    with pytest.raises(ReshapeError):
        respond(name, document)


@examples(60)
@given(LAWFUL_REQUESTS | REQUESTS)
def test_schemas_admit_every_accepted_shape_query(asked: ShapeRequest):
    query = json.loads(write_message(build_infer_request(asked)))
    try:
        answer = respond("InferShape", query)
    except ReshapeError:
        return
    assert find_request_faults("InferShape", query) == []
    assert find_response_faults("InferShape", answer) == []
