"""The page of the contract: every method, message, field and value of `protos/`, with its comment.

- Names, numbers and types are those of the descriptors that `buf build` makes, and the comments are those of the same
  file: nothing of the contract is written a second time.
- In a comment an indented line begins an item of a list; what is indented further goes on with it.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
    ServiceDescriptorProto,
)

from verification.document.tables import collapse_lines, escape

PROTOS = Path(__file__).parents[2] / "protos"

# The numbers of the fields of descriptors, of which the paths of comments consist.
_MESSAGES, _ENUMS, _SERVICES = (
    FileDescriptorProto.MESSAGE_TYPE_FIELD_NUMBER,
    FileDescriptorProto.ENUM_TYPE_FIELD_NUMBER,
    FileDescriptorProto.SERVICE_FIELD_NUMBER,
)
_FIELDS, _NESTED, _NESTED_ENUMS, _ONEOFS = (
    DescriptorProto.FIELD_FIELD_NUMBER,
    DescriptorProto.NESTED_TYPE_FIELD_NUMBER,
    DescriptorProto.ENUM_TYPE_FIELD_NUMBER,
    DescriptorProto.ONEOF_DECL_FIELD_NUMBER,
)
_SYNTAX = (FileDescriptorProto.SYNTAX_FIELD_NUMBER,)
_ITEM = re.compile(r" {1,4}(?P<mark>\d+\.|\S+ ) *(?P<text>\S.*)")


class Source(NamedTuple):
    """A file of the contract.

    Attributes:
        file: what it declares.
        comments: what stands in front of each declaration, by its path.
    """

    file: FileDescriptorProto
    comments: dict[tuple[int, ...], str]


def read_sources() -> dict[str, Source]:
    """Returns the files of the contract by their names, compiled."""
    buf = Path(sys.executable).with_name("buf")  # of this environment, which need not be on the PATH
    built = subprocess.run([buf, "build", PROTOS, "-o", "-#format=binpb"], capture_output=True, check=True)
    return {file.name: Source(file, _read_comments(file)) for file in FileDescriptorSet.FromString(built.stdout).file}


def _read_comments(file: FileDescriptorProto) -> dict[tuple[int, ...], str]:
    return {
        tuple(location.path): "\n".join([*location.leading_detached_comments, location.leading_comments])
        for location in file.source_code_info.location
        if location.leading_comments or location.leading_detached_comments
    }


def build_contract(source: Source) -> Iterator[str]:
    """Yields the lines of one file of the contract."""
    yield from _build_text(source, _SYNTAX)
    for index, service in enumerate(source.file.service):
        yield from _build_service(source, service, (_SERVICES, index))
    for index, message in enumerate(source.file.message_type):
        yield from _build_message(source, message, (_MESSAGES, index))
    for index, enum in enumerate(source.file.enum_type):
        yield from _build_enum(source, enum, (_ENUMS, index))


def _build_service(source: Source, service: ServiceDescriptorProto, path: tuple[int, ...]) -> Iterator[str]:
    yield from (f"### {service.name}", "", f"`{source.file.package}.{service.name}`", "")
    yield from _build_text(source, path)
    for index, method in enumerate(service.method):
        yield from (f"#### {method.name}", "", _describe_method(method), "")
        yield from _build_text(source, (*path, ServiceDescriptorProto.METHOD_FIELD_NUMBER, index))


def _describe_method(method: MethodDescriptorProto) -> str:
    sent, received = "stream of " * method.client_streaming, "stream of " * method.server_streaming
    return f"{sent}{_link(method.input_type)} → {received}{_link(method.output_type)}"


def _build_message(
    source: Source, message: DescriptorProto, path: tuple[int, ...], outer: Sequence[str] = ()
) -> Iterator[str]:
    names = (*outer, message.name)
    yield from (f"### {'.'.join(names)}", "")
    yield from _build_text(source, path)
    for index, field in enumerate(message.field):
        yield f"- **`{field.name}`** = {field.number}, {_describe_type(field, message)}"
        yield from _indent(_build_text(source, (*path, _FIELDS, index)))
    for index, enum in enumerate(message.enum_type):
        yield from _build_enum(source, enum, (*path, _NESTED_ENUMS, index), names)
    for index, nested in enumerate(message.nested_type):
        if not nested.options.map_entry:
            yield from _build_message(source, nested, (*path, _NESTED, index), names)


def _build_enum(
    source: Source, enum: EnumDescriptorProto, path: tuple[int, ...], outer: Sequence[str] = ()
) -> Iterator[str]:
    yield from (f"### {'.'.join((*outer, enum.name))}", "")
    yield from _build_text(source, path)
    for index, value in enumerate(enum.value):
        yield f"- **`{value.name}`** = {value.number}"
        yield from _indent(_build_text(source, (*path, EnumDescriptorProto.VALUE_FIELD_NUMBER, index)))


def _describe_type(field: FieldDescriptorProto, message: DescriptorProto) -> str:
    """Returns the type of a field, with a link where it is one of the contract, and which oneof the field is of."""
    for nested in message.nested_type:
        if nested.options.map_entry and field.type_name.endswith(f".{message.name}.{nested.name}"):
            key, value = (_name_type(part) for part in nested.field)
            return f"map of {key} to {value}"
    label = "repeated " * (field.label == FieldDescriptorProto.LABEL_REPEATED) or "optional " * field.proto3_optional
    is_choice = field.HasField("oneof_index") and not field.proto3_optional
    choice = f", one of `{message.oneof_decl[field.oneof_index].name}`" if is_choice else ""
    return f"{label}{_name_type(field)}{choice}"


def _name_type(field: FieldDescriptorProto) -> str:
    scalar = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    return _link(field.type_name) if field.type_name else scalar


def _link(full_name: str) -> str:
    """Returns a link to the heading of a message or an enum; the page has those of one package."""
    name = re.sub(r"^\.[a-z0-9_.]+\.(?=[A-Z])", "", full_name)
    return f"[{name}](#{name.lower().replace('.', '')})"


def _build_text(source: Source, path: tuple[int, ...]) -> Iterator[str]:
    """Yields a comment as paragraphs and lists, each followed by an empty line."""
    for paragraph in re.split(r"\n\s*\n", source.comments.get(path, "").rstrip()):
        lines = [line.removeprefix(" ") for line in paragraph.splitlines() if line.strip()]
        if lines:
            yield from (*_build_paragraph(lines), "")


def _build_paragraph(lines: list[str]) -> Iterator[str]:
    blocks: list[str] = []
    for line in lines:
        item = _ITEM.fullmatch(line)
        if item:
            mark = item["mark"] if item["mark"].endswith(".") else f"- `{item['mark'].strip()}`:"
            blocks.append(f"{mark} {item['text']}")
        elif blocks and (line.startswith(" ") or not _is_item(blocks[-1])):
            blocks[-1] += f" {line}"
        else:
            blocks += ["", line] if blocks else [line]
    yield from (escape(collapse_lines(block)) for block in blocks)


def _is_item(block: str) -> bool:
    return re.match(r"- |\d+\. ", block) is not None


def _indent(lines: Iterator[str]) -> Iterator[str]:
    """Yields what belongs to an item of a list."""
    texts = list(lines)
    yield from ("", *(f"  {line}" if line else "" for line in texts)) if texts else ("",)
