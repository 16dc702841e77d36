"""Builds the OpenAPI 3.1 description of the HTTP port from the protobuf definitions and their comments.

Only the build hook uses this module. The environment of a build has neither the package nor its constants, so the
limits are repeated here. `tests/packaging/test_openapi.py` compares them with the constants.

- A schema of a request has each field under its two names, of which a request may use one. A response has only the
  name in lowerCamelCase.
- A message that occurs in requests and responses has two schemas. The name of the second begins with `Output`.
- The messages of the Open Inference Protocol have their original names, and 64-bit integers are numbers.
"""

import re
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Any, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

Schema: TypeAlias = dict[str, Any]
# A descriptor of protobuf. The type is Any, because the type stubs have several classes for each kind of descriptor.
_Described: TypeAlias = Any

_PACKAGE, _SERVICE = "tensor_reshape.v1.", "tensor_reshape.v1.ReshapeService"
_INFERENCE = "inference.GRPCInferenceService"
_JSON, _BINARY = "application/json", "application/octet-stream"
_REQUIRED = re.compile(r"\bRequired[.,]")  # how the comment of a required field begins a sentence

_MAX_RANK, _GRAPH_MAX_RANK, _MAX_BATCH_ITEMS = 64, 12, 65536
_MAX_NAME, _MAX_FACTORS, _MAX_REQUEST_ID = 64, 64, 128
_FLOATS = ["DATA_TYPE_F16", "DATA_TYPE_BF16", "DATA_TYPE_F32"]
_SHAPE_TYPES = [f"DATA_TYPE_{kind}{bits}" for kind in "IU" for bits in (8, 16, 32, 64)]


def _limit_tensor(data_types: list[str], dims: Schema) -> Schema:
    types = {"enum": data_types}
    return {"properties": {"dataType": types, "data_type": types, "dims": dims}}


_GRAPH_DATA = _limit_tensor(_FLOATS, {"maxItems": _GRAPH_MAX_RANK})
_LIMITS: Mapping[str, Schema] = {
    "Tensor.dims": {"maxItems": _MAX_RANK, "minimum": 0},
    "Tensor.strides": {"maxItems": _MAX_RANK, "minimum": 0},
    "Shape.dims": {"maxItems": _MAX_RANK, "minimum": -1},
    "Shape.partial": {"maxItems": _MAX_RANK},
    "TargetShape.items": {"maxItems": _MAX_RANK, "minimum": -1},
    "TargetShape.partial": {"maxItems": _MAX_RANK},
    "PartialDim.index": {"minimum": 0, "maximum": _MAX_RANK - 1, "pattern": "^[0-9]{1,2}$"},
    "Interval.min": {"minimum": 0},
    "Interval.max": {"minimum": 0},
    "Symbol.name": {"minLength": 1, "maxLength": _MAX_NAME},
    "Expression.coefficient": {"minimum": 1},
    "Expression.factors": {"maxItems": _MAX_FACTORS},
    "Expression.divisor": {"minimum": 1},
    "Expression.divisors": {"maxItems": _MAX_FACTORS},
    "BatchInferShapeRequest.items": {"maxItems": _MAX_BATCH_ITEMS},
    "BatchInferShapeItem.data_from": {"minimum": 0, "maximum": _MAX_BATCH_ITEMS - 2},
    "StaticReshapeRequest.shape": {
        "properties": {"items": {"maxItems": _GRAPH_MAX_RANK}, "partial": {"maxItems": 0}},
    },
    "StaticReshapeRequest.data": _GRAPH_DATA,
    "DynamicReshapeRequest.shape": _limit_tensor(
        ["DATA_TYPE_I32"], {"minItems": 1, "maxItems": 1, "items": {"maximum": _GRAPH_MAX_RANK}}
    ),
    "DynamicReshapeRequest.data": _GRAPH_DATA,
    "ReshapeRequest.shape": _limit_tensor(
        _SHAPE_TYPES, {"minItems": 1, "maxItems": 1, "items": {"maximum": _MAX_RANK}}
    ),
}
"""Further keywords for the fields of requests. Those of a list and those of its items are in the same mapping."""

_REQUIRED_BY_METHOD = "InferShapeRequest.data"  # an item of a batch may omit this field
_MAYBE_UNSPECIFIED = "TensorSpec.data_type"  # in a request, the value 0 of every other enum is rejected

_INTEGERS: Mapping[int, str] = {
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_SINT64: "int64",
    FieldDescriptor.TYPE_UINT64: "uint64",
}
_SCALARS: Mapping[int, Schema] = {
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_STRING: {"type": "string"},
    FieldDescriptor.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
}

_DESCRIPTION = """\
Messages of ReshapeService are in protobuf's JSON mapping. Fields with their default value are absent from responses.
In addition to what the schemas show, a request may have the number of an enum value, and base64 without padding or with
the alphabet for URLs. A request with the header `connect-protocol-version` gets errors in the form of the Connect
protocol."""
_CODES = """\
400: the request breaks a rule or is not a valid message. 401: the credentials are missing or invalid. 403: you may not
make this request. 413: the body is too large. 415: the server does not read this type or encoding of a body. 429: the
request exceeds a limit or a quota, or the server is busy. 500: the server has a bug. 503: the server is not available.
504: the deadline is over. If the response has the header `retry-after`, you may repeat the request."""
_STATUS: Schema = {
    "type": "object",
    "description": "The error of a rejected request: a google.rpc.Status.",
    "properties": {
        "code": {"type": "integer", "format": "int32", "description": "The gRPC code. 3 is INVALID_ARGUMENT."},
        "message": {"type": "string", "description": "An explanation for people. Its wording may change."},
        "details": {
            "type": "array",
            "description": "Messages of google/rpc/error_details.proto, such as an ErrorInfo with a permanent reason, "
            "a BadRequest with the wrong field, or a RetryInfo. `@type` names the type of each message.",
            "items": {"type": "object", "properties": {"@type": {"type": "string"}}, "required": ["@type"]},
        },
    },
    "additionalProperties": False,
}

_MODELS = ["static_reshape", "dynamic_reshape", "reshape", "infer_shape"]
_INPUTS = ["data", "data_shape", "shape", "special_zero"]
_DATATYPES = [
    *("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"),
    *("FP16", "BF16", "FP32", "FP64"),
]
_LENGTH_HEADER = "inference-header-content-length"
_INFER_TEXT = f"""\
The body is JSON, or JSON that is followed by the elements of inputs as little-endian bytes. In the second form, the
header `{_LENGTH_HEADER}` has the number of bytes of the JSON. The elements follow in the order of the inputs, and each
of these inputs has the parameter `binary_data_size` instead of `data`. The response has the second form if the output
has the parameter `binary_data`, or if the request has the parameter `binary_data_output`. Elements of FP16 and BF16
need the second form."""


def _describe_object(required: tuple[str, ...], **properties: Schema) -> Schema:
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": [*required]} if required else {})


def _describe_parameters(text: str, **properties: Schema) -> Schema:
    """Returns the schema of parameters, which may have other names, too."""
    return {"type": "object", "description": text, "properties": properties}


def _refer(kind: str, name: str) -> Schema:
    return {"$ref": f"#/components/{kind}/{name}"}


_INFER_DIM = {"type": "integer", "format": "int64", "minimum": 0, "maximum": 2**63 - 1}
_INFER_SCHEMAS: Schema = {
    "InferRequest": _describe_object(
        ("inputs",),
        id={"type": "string", "description": "An id of your choice. The response has the same id."},
        model_name={"type": "string", "description": "The name of the model in the path. You may omit it."},
        model_version={"type": "string", "description": "The version in the path. You may omit it."},
        parameters=_describe_parameters(
            "`shape` and `special_zero`. You need a parameter only if you do not send the input of the same name. The "
            "model infer_shape also has `operation`, the name of an operation. The server ignores unknown parameters.",
            shape={"type": ["array", "string"], "items": {"type": "integer", "format": "int64"}, "maxItems": _MAX_RANK},
            special_zero={"type": "boolean"},
            binary_data_output={"type": "boolean"},
        ),
        inputs={"type": "array", "minItems": 1, "maxItems": 3, "items": _refer("schemas", "InferInput")},
        outputs={"type": "array", "maxItems": 1, "items": _refer("schemas", "InferRequestedOutput")},
    ),
    "InferInput": _describe_object(
        ("name", "datatype", "shape"),
        name={"enum": _INPUTS},
        datatype={"enum": _DATATYPES},
        shape={"type": "array", "items": _INFER_DIM, "maxItems": _MAX_RANK},
        parameters=_describe_parameters(
            "`binary_data_size` is the number of bytes of the elements after the JSON.",
            binary_data_size={"type": "integer", "minimum": 0},
        ),
        data={
            "type": "array",
            "description": "The elements as a flat list, or as nested lists in the shape of the input.",
            "items": {"type": ["number", "boolean", "array"]},
        },
    ),
    "InferRequestedOutput": _describe_object(
        ("name",),
        name={"enum": ["output", "shape"]},
        parameters=_describe_parameters(
            "`binary_data` tells whether the elements follow the JSON of the response.",
            binary_data={"type": "boolean"},
        ),
    ),
    "InferResponse": _describe_object(
        ("model_name", "model_version", "outputs"),
        id={"type": "string"},
        model_name={"type": "string"},
        model_version={"type": "string"},
        parameters=_describe_parameters(
            "The model infer_shape returns `conditions`, which is a JSON list of texts, and `conditions_complete`.",
            conditions={"type": "string"},
            conditions_complete={"type": "boolean"},
        ),
        outputs={"type": "array", "minItems": 1, "maxItems": 1, "items": _refer("schemas", "InferOutput")},
    ),
    "InferOutput": _describe_object(
        ("name", "datatype", "shape"),
        name={"enum": ["output", "shape"]},
        datatype={"enum": _DATATYPES},
        shape={"type": "array", "items": _INFER_DIM},
        parameters=_describe_parameters(
            "`binary_data_size` is the number of bytes of the elements after the JSON.",
            binary_data_size={"type": "integer"},
        ),
        data={"type": "array", "items": {"type": ["number", "boolean"]}},
    ),
}
_INFER: Schema = {
    "description": _INFER_TEXT,
    "parameters": [
        _refer("parameters", "RequestId"),
        {"name": _LENGTH_HEADER, "in": "header", "schema": {"type": "integer", "minimum": 0}},
    ],
    "requestBody": {
        "required": True,
        "content": {_JSON: {"schema": _refer("schemas", "InferRequest")}, _BINARY: {}},
    },
    "responses": {
        "200": {
            "description": "The output.",
            "headers": {
                "x-request-id": _refer("headers", "RequestId"),
                _LENGTH_HEADER: {"schema": {"type": "integer"}, "description": "Only before elements as bytes."},
            },
            "content": {_JSON: {"schema": _refer("schemas", "InferResponse")}, _BINARY: {}},
        },
        "default": _refer("responses", "InferenceError"),
    },
}

_PARAMETERS: Schema = {
    "RequestId": {
        "name": "x-request-id",
        "in": "header",
        "description": "An id for the server's log. The server ignores an id of more than "
        f"{_MAX_REQUEST_ID} characters, and one with characters that are not visible ASCII.",
        "schema": {"type": "string"},
    },
    "Model": {"name": "name", "in": "path", "required": True, "schema": {"enum": _MODELS}},
    "Version": {"name": "version", "in": "path", "required": True, "schema": {"const": "1"}},
}
_HEADERS: Schema = {
    "RequestId": {"schema": {"type": "string"}, "description": "The id of the request in the server's log."},
    "RetryAfter": {"schema": {"type": "integer"}, "description": "The seconds to wait before you repeat the request."},
    "Reason": {"schema": {"type": "string"}, "description": "The permanent reason of the error, if it has one."},
}
_ERROR_HEADERS = {"x-request-id": _refer("headers", "RequestId"), "retry-after": _refer("headers", "RetryAfter")}
_ERRORS: Schema = {
    "Error": {
        "description": _CODES,
        "headers": _ERROR_HEADERS,
        "content": {_JSON: {"schema": _refer("schemas", "Status")}},
    },
    "InferenceError": {
        "description": f"{_CODES} 404: the model or its version does not exist.",
        "headers": {**_ERROR_HEADERS, "tensor-reshape-reason": _refer("headers", "Reason")},
        "content": {_JSON: {"schema": _describe_object(("error",), error={"type": "string"})}},
    },
}


class _Form(Enum):
    """A form of messages in JSON."""

    REQUEST = auto()
    RESPONSE = auto()
    INFERENCE = auto()


def build_document(descriptors: bytes, version: str) -> Schema:
    """Returns the OpenAPI document.

    Args:
        descriptors: a serialized `FileDescriptorSet` of the definitions, with their comments.
        version: the version of the package.
    """
    files = FileDescriptorSet.FromString(descriptors).file
    pool = DescriptorPool()
    for file in files:
        pool.Add(file)
    schemas = _Schemas({name: text for file in files for name, text in _list_comments(file)})
    unary = [method for method in pool.FindServiceByName(_SERVICE).methods if not method.client_streaming]
    # Requests come first, because the name of a schema depends on the messages in requests.
    bodies = {method.name: schemas.refer(method.input_type, _Form.REQUEST) for method in unary}
    bodies["InferShape"]["required"] = ["data"]
    results = {method.name: schemas.refer(method.output_type, _Form.RESPONSE) for method in unary}
    calls = {
        f"/{_SERVICE}/{method.name}": {
            "post": {
                **schemas.summarize(method),
                "parameters": [_refer("parameters", "RequestId")],
                "requestBody": {"required": True, "content": {_JSON: {"schema": bodies[method.name]}}},
                "responses": _describe_results(results[method.name], "Error"),
            }
        }
        for method in unary
    }
    inference = {method.name: method for method in pool.FindServiceByName(_INFERENCE).methods}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tensor-reshape",
            "version": version,
            "summary": "Reshape of tensors, and shape inference.",
            "description": _DESCRIPTION,
        },
        "security": [{}, {"token": []}],
        "paths": {**calls, **_describe_health(), **_describe_inference(schemas, inference)},
        "components": {
            "schemas": {"Status": _STATUS, **_INFER_SCHEMAS, **schemas.found},
            "parameters": _PARAMETERS,
            "headers": _HEADERS,
            "responses": _ERRORS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


class _Schemas:
    """Describes messages and the messages and enums in them.

    Attributes:
        found: the schemas of all described messages and enums, by name.
    """

    def __init__(self, comments: Mapping[str, str]) -> None:
        """Starts without schemas. `comments` are the comments of all elements of the definitions."""
        self.found: dict[str, Schema] = {}
        self._comments = comments
        self._requested = set[str]()

    def refer(self, described: _Described, form: _Form) -> Schema:
        """Returns a reference to the schema of a message or an enum. Creates this schema if it does not exist."""
        name = described.full_name.removeprefix(_PACKAGE)
        is_enum = hasattr(described, "values")
        if form is _Form.REQUEST:
            self._requested.add(name)
        elif name in self._requested and not is_enum:
            name = f"Output{name}"
        if name not in self.found:
            self.found[name] = {}  # keeps the schemas in the order of their first use
            self.found[name] = self._describe_enum(described) if is_enum else self._describe(described, name, form)
        return _refer("schemas", name)

    def summarize(self, method: _Described) -> Schema:
        """Returns the name and the texts of a method."""
        text = self._comments[method.full_name]
        return {"operationId": method.name, "summary": text.partition(".")[0] + ".", "description": text}

    def _describe(self, message: _Described, name: str, form: _Form) -> Schema:
        schema: Schema = {"type": "object", **self._comment(message), "properties": {}, "additionalProperties": False}
        required, rules = list[str](), list[Schema]()
        for field in message.fields:
            shown = field.name if form is _Form.INFERENCE else field.json_name
            is_required = self._is_required(field)
            described = self._describe_field(field, form)
            schema["properties"][shown] = (
                described if is_required or form is not _Form.REQUEST else _allow_null(described)
            )
            if form is _Form.REQUEST and shown != field.name:
                other = {"$ref": f"#/components/schemas/{name}/properties/{shown}"}
                schema["properties"][field.name] = {**other, "description": f"Another name of `{shown}`."}
                rules.append(_choose_name(shown, field.name, is_required=is_required))
            elif is_required:
                required.append(shown)
        schema |= {"required": required} if required else {}
        schema |= {"allOf": rules} if rules else {}
        excluded = sum(len(oneof.fields) - 1 for oneof in message.oneofs)
        return schema | ({"maxProperties": len(message.fields) - excluded} if excluded else {})

    def _describe_enum(self, enum: _Described) -> Schema:
        values = [value for value in enum.values if value.number]
        names = {value.name: f"{enum.full_name}.{value.name}" for value in values}
        texts = [f"{name}: {self._comments[full]}" for name, full in names.items() if full in self._comments]
        text = "\n\n".join(filter(None, [self._comments.get(enum.full_name), *texts]))
        described = {"description": text} if text else {}
        return {"type": "string", **described, "enum": [*names]}

    def _describe_field(self, field: _Described, form: _Form) -> Schema:
        limits = _LIMITS.get(field.full_name.removeprefix(_PACKAGE), {}) if form is _Form.REQUEST else {}
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            schema = {
                "type": "object",
                "additionalProperties": self._describe_type(entry.fields_by_name["value"], form),
            }
        elif field.is_repeated:
            of_items = {key: value for key, value in limits.items() if not key.endswith("Items")}
            of_list = {key: value for key, value in limits.items() if key.endswith("Items")}
            schema = {"type": "array", "items": self._describe_type(field, form) | of_items, **of_list}
        else:
            schema = self._describe_type(field, form) | limits
        return schema | self._comment(field)

    def _describe_type(self, field: _Described, form: _Form) -> Schema:
        """Returns the schema of one value of a field."""
        if field.type in _INTEGERS:
            return _describe_integer(_INTEGERS[field.type], form)
        schema = _SCALARS.get(field.type) or self.refer(field.message_type or field.enum_type, form)
        if field.full_name.endswith(_MAYBE_UNSPECIFIED):
            return {"anyOf": [schema, {"const": field.enum_type.values[0].name}]}
        return schema

    def _is_required(self, field: _Described) -> bool:
        text = self._comments.get(field.full_name, "")
        return _REQUIRED.search(text) is not None and not field.full_name.endswith(_REQUIRED_BY_METHOD)

    def _comment(self, described: _Described) -> Schema:
        text = self._comments.get(described.full_name)
        return {"description": text} if text else {}


def _list_comments(file: FileDescriptorProto) -> Iterator[tuple[str, str]]:
    """Yields the full name and the comment of each element of a file that has a leading comment."""
    for location in file.source_code_info.location:
        if location.leading_comments:
            element: Any = file
            names = [file.package]
            # In protobuf's source information, the path of a location is a sequence of pairs of numbers. Each pair has
            # the number of a repeated field and an index into this field.
            for number, index in zip(location.path[::2], location.path[1::2], strict=False):
                element = getattr(element, element.DESCRIPTOR.fields_by_number[number].name)[index]
                names.append(element.name)
            lines = [line.removeprefix(" ") for line in location.leading_comments.rstrip("\n").split("\n")]
            yield ".".join(names), "\n".join(lines)


def _allow_null(schema: Schema) -> Schema:
    """Returns the schema of a field that may also be null, which means that the field is absent."""
    if "type" not in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    types = schema["type"]
    return {**schema, "type": [*([types] if isinstance(types, str) else types), "null"]}


def _choose_name(shown: str, original: str, *, is_required: bool) -> Schema:
    """Returns the rule that a request has a field under at most one of its names."""
    rule: Schema = {"if": {"required": [original]}, "then": {"properties": {shown: False}}}
    return rule | ({"else": {"required": [shown]}} if is_required else {})


def _describe_integer(name: str, form: _Form) -> Schema:
    if form is not _Form.REQUEST:
        return {"type": "string" if form is _Form.RESPONSE and name == "int64" else "integer", "format": name}
    end = 2 ** (int(name[-2:]) - 1)
    bounds = {"minimum": -end, "maximum": end - 1}
    return {"type": ["integer", "string"], "format": name, "pattern": "^-?[0-9]{1,20}$", **bounds}


def _describe_results(schema: Schema, error: str) -> Schema:
    headers = {"x-request-id": _refer("headers", "RequestId")}
    result = {"description": "The result.", "headers": headers, "content": {_JSON: {"schema": schema}}}
    return {"200": result, "default": _refer("responses", error)}


def _describe_flag(text: str, key: str, *, value: object, **others: Schema) -> Schema:
    """Returns the response of a probe: an object whose property `key` has this value."""
    properties = {**others, key: {"const": value}}
    return {"description": text, "content": {_JSON: {"schema": _describe_object((*properties,), **properties)}}}


def _describe_health() -> Schema:
    live = {
        "operationId": "Healthz",
        "summary": "Whether the process answers.",
        "responses": {"200": _describe_flag("The process answers.", "status", value="SERVING")},
    }
    ready = {
        "operationId": "Readyz",
        "summary": "Whether the server accepts calls and will continue to accept calls.",
        "responses": {
            "200": _describe_flag("The server is ready.", "status", value="SERVING"),
            "503": _describe_flag("The server is not ready.", "status", value="NOT_SERVING"),
        },
    }
    return {"/healthz": {"get": live}, "/readyz": {"get": ready}}


def _describe_inference(schemas: _Schemas, methods: Mapping[str, _Described]) -> Schema:
    """Returns the paths of the Open Inference Protocol."""

    def call(name: str, result: Schema) -> Schema:
        parameters = [_refer("parameters", "RequestId")]
        responses = _describe_results(result, "InferenceError")
        return {**schemas.summarize(methods[name]), "parameters": parameters, "responses": responses}

    def probe(name: str, responses: Schema) -> Schema:
        return {**schemas.summarize(methods[name]), "responses": responses}

    def refer(name: str, field: str = "") -> Schema:
        message = methods[name].output_type
        return schemas.refer(message.fields_by_name[field].message_type if field else message, _Form.INFERENCE)

    unknown = _describe_flag("The model does not exist.", "ready", value=False, name={"type": "string"})
    known = _describe_flag("The model is ready.", "ready", value=True, name={"enum": _MODELS})
    of_model = {
        "": call("ModelMetadata", refer("ModelMetadata")),
        "/ready": probe("ModelReady", {"200": known, "404": unknown}),
        "/config": call("ModelConfig", refer("ModelConfig", "config")),
        "/stats": call("ModelStatistics", refer("ModelStatistics")),
        "/infer": schemas.summarize(methods["ModelInfer"]) | _INFER,
    }
    live = _describe_flag("The server is live.", "live", value=True)
    ready, not_ready = (
        _describe_flag(f"The server is {text}.", "ready", value=value)
        for text, value in (("ready", True), ("not ready", False))
    )
    text = "Returns the number and duration of the inferences of all models."
    statistics = call("ModelStatistics", refer("ModelStatistics"))
    index = call("RepositoryIndex", {"type": "array", "items": refer("RepositoryIndex", "models")})
    paths: Schema = {
        "/v2": {"get": call("ServerMetadata", refer("ServerMetadata"))},
        "/v2/health/live": {"get": probe("ServerLive", {"200": live})},
        "/v2/health/ready": {"get": probe("ServerReady", {"200": ready, "503": not_ready})},
        "/v2/models/stats": {"get": {**statistics, "operationId": "Statistics", "summary": text, "description": text}},
        "/v2/repository/index": {"post": {**index, "requestBody": {"content": {_JSON: {"schema": {}}}}}},
    }
    name, version = _refer("parameters", "Model"), _refer("parameters", "Version")
    for end, operation in of_model.items():
        verb = "post" if end == "/infer" else "get"
        versioned = {**operation, "operationId": f"{operation['operationId']}OfVersion"}
        paths[f"/v2/models/{{name}}{end}"] = {"parameters": [name], verb: operation}
        paths[f"/v2/models/{{name}}/versions/{{version}}{end}"] = {"parameters": [name, version], verb: versioned}
    return paths
