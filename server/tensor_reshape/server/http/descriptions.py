"""The OpenAPI 3.1 description of the JSON methods, generated from the API definition and its comments.

- The messages, fields and texts of the OpenAPI description come from the proto files in `protos/`. The generated
  classes of protobuf contain no comments, so the package has another generated file, which contains the API definition
  with its comments.
- Field names in the OpenAPI description are in lowerCamelCase, as in protobuf's JSON. A request may also use the field
  names of the API definition.
- The OpenAPI document is the same for every client and does not change while the server runs.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any, TypeAlias

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from tensor_reshape.wire.methods import BATCH_INFER_SHAPE, INFER_SHAPE, Method

OPENAPI_PATH, HEALTH_PATH = "/openapi.json", "/healthz"

Schema: TypeAlias = dict[str, Any]
# A value of this type is a `Descriptor` or an `EnumDescriptor` of protobuf. The type is Any, because the type stubs
# have several classes for each of them.
_Described: TypeAlias = Any

_PACKAGE = INFER_SHAPE.request.DESCRIPTOR.file.package
_SERVICE = INFER_SHAPE.path.strip("/").partition("/")[0]
_JSON = "application/json"
_SCALARS: Mapping[int, Schema] = {
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.TYPE_INT64: {"type": ["string", "integer"], "format": "int64"},
    FieldDescriptor.TYPE_SINT64: {"type": ["string", "integer"], "format": "int64"},
    FieldDescriptor.TYPE_STRING: {"type": "string"},
}
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
}
_ID_HEADER: Schema = {"schema": {"type": "string"}, "description": "The id of the request in the server's log."}


@cache
def describe() -> bytes:
    """Returns the OpenAPI document as JSON."""
    builder = _SchemaBuilder()
    document = {
        "openapi": "3.1.0",
        "info": {"title": "tensor-reshape", "version": version("tensor-reshape"), "summary": "Shapes of reshapes."},
        "paths": {
            **{method.path: {"post": builder.describe_method(method)} for method in (INFER_SHAPE, BATCH_INFER_SHAPE)},
            HEALTH_PATH: {"get": _describe_health()},
        },
        "components": {"schemas": {"Status": _STATUS, **builder.schemas}},
    }
    return json.dumps(document, separators=(",", ":")).encode()


class _SchemaBuilder:
    """Describes methods and the messages that they use.

    Attributes:
        schemas: the schemas of all described messages and enums, by name.
    """

    def __init__(self) -> None:
        described = FileDescriptorSet.FromString(files(__package__).joinpath("contract.binpb").read_bytes())
        self.schemas: dict[str, Schema] = {}
        self._comments = {name: text for file in described.file for name, text in _list_comments(file)}

    def describe_method(self, method: Method) -> Schema:
        """Returns the description of a method with its request and its responses."""
        text = self._comments[f"{_SERVICE}.{method.name}"]
        return {
            "operationId": method.name,
            "summary": text.partition(".")[0] + ".",
            "description": text,
            "parameters": [{"name": "x-request-id", "in": "header", "schema": {"type": "string", "maxLength": 128}}],
            "requestBody": {"required": True, "content": self._describe_content(method.request.DESCRIPTOR)},
            "responses": {
                "200": _describe_response("The result.", self._describe_content(method.response.DESCRIPTOR)),
                "default": _describe_response("An error.", {_JSON: {"schema": _refer("Status")}}),
            },
        }

    def _describe_content(self, message: _Described) -> Schema:
        return {_JSON: {"schema": self._refer_to(message)}}

    def _refer_to(self, described: _Described) -> Schema:
        """Returns a reference to the schema of a message or an enum. Creates this schema if it does not exist."""
        name = described.full_name.removeprefix(f"{_PACKAGE}.")
        if name not in self.schemas:
            self.schemas[name] = {}  # the placeholder prevents endless recursion if a message refers to itself
            if isinstance(described, EnumDescriptor):
                self.schemas[name] = self._describe_enum(described)
            else:
                self.schemas[name] = self._describe_message(described)
        return _refer(name)

    def _describe_message(self, message: Descriptor) -> Schema:
        properties = {field.json_name: self._describe_field(field) for field in message.fields}
        schema = {"type": "object", "description": self._comments[message.full_name], "properties": properties}
        # If all fields of a message belong to a oneof, at most one of the fields can be set.
        is_choice = bool(message.fields) and all(_is_in_oneof(field) for field in message.fields)
        return schema | ({"maxProperties": 1} if is_choice else {})

    def _describe_enum(self, enum: EnumDescriptor) -> Schema:
        values = [f"{value.name}: {self._comments[f'{enum.full_name}.{value.name}']}" for value in enum.values]
        text = "\n\n".join([self._comments[enum.full_name], *values])
        return {"type": "string", "description": text, "enum": [value.name for value in enum.values]}

    def _describe_field(self, field: FieldDescriptor) -> Schema:
        text = self._comments[field.full_name]
        message = field.message_type
        if message is not None and message.GetOptions().map_entry:
            values = _SCALARS[message.fields_by_name["value"].type]
            return {"type": "object", "additionalProperties": values, "description": text}
        one = _SCALARS.get(field.type) or self._refer_to(message or field.enum_type)
        return (
            {"type": "array", "items": one, "description": text} if field.is_repeated else {**one, "description": text}
        )


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


def _is_in_oneof(field: FieldDescriptor) -> bool:
    oneof = field.containing_oneof
    # protobuf creates a oneof for each `optional` field. The name of such a oneof begins with an underscore.
    return oneof is not None and not oneof.name.startswith("_")


def _describe_health() -> Schema:
    names = ["SERVING", "NOT_SERVING"]
    status = {"type": "object", "properties": {"status": {"type": "string", "enum": names}}, "required": ["status"]}
    content = {_JSON: {"schema": status}}
    return {
        "operationId": "Health",
        "summary": "Whether the server is ready for requests.",
        "responses": {
            "200": {"description": "The server is ready.", "content": content},
            "503": {"description": "The server is stopping.", "content": content},
        },
    }


def _describe_response(text: str, content: Schema) -> Schema:
    return {"description": text, "headers": {"x-request-id": _ID_HEADER}, "content": content}


def _refer(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}
