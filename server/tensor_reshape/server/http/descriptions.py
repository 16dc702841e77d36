"""What is served over HTTP, described by OpenAPI 3.1: made from the contract, its comments and all.

- Nothing is written twice: messages, fields and what is said of them are those of `protos/`, from a file that is made
  beside the generated classes, which have no comments.
- Names are those of protobuf's JSON, in lowerCamelCase; the ones of the contract are taken as well.
- The document is the same for everybody, as long as the server runs.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any, TypeAlias

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from tensor_reshape.wire.methods import BATCH_INFER_SHAPE, INFER_SHAPE, Method

OPENAPI_PATH, HEALTH_PATH = "/openapi.json", "/healthz"

Schema: TypeAlias = dict[str, Any]

_Path: TypeAlias = tuple[int, ...]
"""Where something is in a file, as `SourceCodeInfo` counts."""

_MESSAGES, _ENUMS, _SERVICES = 4, 5, 6  # of a file
_FIELDS, _NESTED, _NESTED_ENUMS = 2, 3, 4  # of a message
_VALUES = _METHODS = 2  # of an enum, and of a service
_PACKAGE = f".{INFER_SHAPE.request.DESCRIPTOR.file.package}."
_JSON = "application/json"
_SCALARS: Mapping[int, Schema] = {
    FieldDescriptorProto.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptorProto.TYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptorProto.TYPE_INT64: {"type": ["string", "integer"], "format": "int64"},
    FieldDescriptorProto.TYPE_STRING: {"type": "string"},
}
_STATUS: Schema = {
    "type": "object",
    "description": "Why a request is rejected: a google.rpc.Status.",
    "properties": {
        "code": {"type": "integer", "format": "int32", "description": "Of gRPC: 3 is INVALID_ARGUMENT."},
        "message": {"type": "string", "description": "One sentence for people; its words may change."},
        "details": {
            "type": "array",
            "description": "Of the types of google/rpc/error_details.proto, which `@type` names: an ErrorInfo with a "
            "permanent reason, a BadRequest with the field to blame, a RetryInfo.",
            "items": {"type": "object", "properties": {"@type": {"type": "string"}}, "required": ["@type"]},
        },
    },
}
_ID_HEADER: Schema = {"schema": {"type": "string"}, "description": "What the server calls the request in its log."}


@cache
def describe() -> bytes:
    """Returns the document."""
    described = FileDescriptorSet.FromString(files(__package__).joinpath("contract.binpb").read_bytes())
    contract = _Contract(described)
    document = {
        "openapi": "3.1.0",
        "info": {"title": "tensor-reshape", "version": version("tensor-reshape"), "summary": "Shapes of reshapes."},
        "paths": {
            **{method.path: {"post": contract.describe_method(method)} for method in (INFER_SHAPE, BATCH_INFER_SHAPE)},
            HEALTH_PATH: {"get": _describe_health()},
        },
        "components": {"schemas": {"Status": _STATUS, **contract.schemas}},
    }
    return json.dumps(document, separators=(",", ":")).encode()


class _Contract:
    """The files of the contract.

    Attributes:
        schemas: of the messages and enums that have been asked for, and of all that they refer to, by their names.
    """

    def __init__(self, described: FileDescriptorSet) -> None:
        self.schemas: dict[str, Schema] = {}
        self._messages: dict[str, tuple[FileDescriptorProto, _Path, DescriptorProto]] = {}
        self._enums: dict[str, tuple[FileDescriptorProto, _Path, EnumDescriptorProto]] = {}
        self._comments = dict(_list_comments(described))
        self._methods: dict[str, str] = {}
        for file in described.file:
            for index, message in enumerate(file.message_type):
                self._add(file, (_MESSAGES, index), f".{file.package}", message)
            for index, enum in enumerate(file.enum_type):
                self._enums[f".{file.package}.{enum.name}"] = file, (_ENUMS, index), enum
            for index, service in enumerate(file.service):
                for number, method in enumerate(service.method):
                    place = (_SERVICES, index, _METHODS, number)
                    self._methods[method.name] = self._comments.get((file.name, place), "")

    def describe_method(self, method: Method) -> Schema:
        """Returns what a method takes and gives."""
        told = self._methods[method.name]
        return {
            "operationId": method.name,
            "summary": told.partition(".")[0] + ".",
            "description": told,
            "parameters": [{"name": "x-request-id", "in": "header", "schema": {"type": "string", "maxLength": 128}}],
            "requestBody": {"required": True, "content": self._describe_content(method.request.DESCRIPTOR.full_name)},
            "responses": {
                "200": _describe_response("The answer.", self._describe_content(method.response.DESCRIPTOR.full_name)),
                "default": _describe_response("A rejection.", {_JSON: {"schema": _refer("Status")}}),
            },
        }

    def _add(self, file: FileDescriptorProto, place: _Path, outer: str, message: DescriptorProto) -> None:
        name = f"{outer}.{message.name}"
        self._messages[name] = file, place, message
        for index, nested in enumerate(message.nested_type):
            self._add(file, (*place, _NESTED, index), name, nested)
        for index, enum in enumerate(message.enum_type):
            self._enums[f"{name}.{enum.name}"] = file, (*place, _NESTED_ENUMS, index), enum

    def _describe_content(self, name: str) -> Schema:
        return {_JSON: {"schema": self._refer_to(f".{name}")}}

    def _refer_to(self, name: str) -> Schema:
        """Returns a reference to a message or an enum, which is described once."""
        short = name.removeprefix(_PACKAGE)
        if short not in self.schemas:
            self.schemas[short] = {}  # for a message that refers to itself
            describe = self._describe_message if name in self._messages else self._describe_enum
            self.schemas[short] = describe(name)
        return _refer(short)

    def _describe_message(self, name: str) -> Schema:
        file, place, message = self._messages[name]
        properties = {
            field.json_name: self._describe_field(field, self._comments.get((file.name, (*place, _FIELDS, index)), ""))
            for index, field in enumerate(message.field)
        }
        schema = {"type": "object", "description": self._comments.get((file.name, place), ""), "properties": properties}
        real = [field for field in message.field if field.HasField("oneof_index") and not field.proto3_optional]
        # One of a few: of a message that has nothing else.
        return schema | ({"maxProperties": 1} if real and len(real) == len(message.field) else {})

    def _describe_enum(self, name: str) -> Schema:
        file, place, enum = self._enums[name]
        told = [self._comments.get((file.name, place), "")] + [
            f"{value.name}: {self._comments.get((file.name, (*place, _VALUES, index)), '')}"
            for index, value in enumerate(enum.value)
        ]
        return {"type": "string", "description": "\n\n".join(told), "enum": [value.name for value in enum.value]}

    def _describe_field(self, field: FieldDescriptorProto, told: str) -> Schema:
        schema = _SCALARS.get(field.type)
        found = self._messages.get(field.type_name)
        if found is not None and found[2].options.map_entry:
            value = _SCALARS[found[2].field[1].type]
            return {"type": "object", "additionalProperties": value, "description": told}
        one = self._refer_to(field.type_name) if schema is None else schema
        if field.label == FieldDescriptorProto.LABEL_REPEATED:
            return {"type": "array", "items": one, "description": told}
        return {**one, "description": told}


def _list_comments(described: FileDescriptorSet) -> Iterator[tuple[tuple[str, _Path], str]]:
    """Yields what stands before each thing, by its file and place."""
    for file in described.file:
        for location in file.source_code_info.location:
            if location.leading_comments:
                lines = [line.removeprefix(" ") for line in location.leading_comments.rstrip("\n").split("\n")]
                yield (file.name, tuple(location.path)), "\n".join(lines)


def _describe_health() -> Schema:
    names = ["SERVING", "NOT_SERVING"]
    status = {"type": "object", "properties": {"status": {"type": "string", "enum": names}}, "required": ["status"]}
    content = {_JSON: {"schema": status}}
    return {
        "operationId": "Health",
        "summary": "Whether the server is to be sent requests.",
        "responses": {
            "200": {"description": "It is.", "content": content},
            "503": {"description": "It is not: it stops.", "content": content},
        },
    }


def _describe_response(told: str, content: Schema) -> Schema:
    return {"description": told, "headers": {"x-request-id": _ID_HEADER}, "content": content}


def _refer(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}
