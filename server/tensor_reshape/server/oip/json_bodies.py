"""The bodies of inference requests over REST and of their responses.

- The body is JSON. The elements of the inputs with the parameter `binary_data_size` follow it as bytes, in the order of
  the inputs. These elements are a view of the body.
- Elements as numbers may be a flat list, or nested lists in the shape of the input. They are converted in pieces,
  because a conversion blocks all other threads.
- The parameters `binary_data` of the output and `binary_data_output` of the request choose the form of the output.
- An unknown parameter may have any value and is ignored, as over gRPC.
- The inputs, outputs, dims and parameters are counted before they become a message.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from math import isfinite, prod
from typing import Any, NamedTuple, TypeVar

from google.protobuf.descriptor import FieldDescriptor

from tensor_reshape.rules.dtypes import DataType, ElementKind
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, clip_text, format_value
from tensor_reshape.rules.limits import MAX_DIM, MAX_RANK
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.server.oip.datatypes import (
    AT_ONCE,
    BINARY_ONLY,
    NAMES,
    clip_name,
    decode_datatype,
    pack_numbers,
    reject_number,
    unpack_numbers,
)
from tensor_reshape.server.oip.inferences import list_parameters
from tensor_reshape.server.oip.messages import InferMessage, InferRequest, find_class
from tensor_reshape.server.oip.models import MODELS, SHAPE, SPECIAL_ZERO, VERSION
from tensor_reshape.server.oip.requests import InferCall, SplitRequest, check_parameters
from tensor_reshape.wire.json_messages import Json, decode_text, parse_json, reject_json, write_json
from tensor_reshape.wire.tensors import TensorView

BINARY_SIZE, BINARY, BINARY_OUTPUT = "binary_data_size", "binary_data", "binary_data_output"
"""The names of the parameters of the extension for binary data."""

_REQUEST = find_class("ModelInferRequest")
_KEYS = ("id", "parameters", "inputs", "outputs")
_INPUT_KEYS = ("name", "datatype", "shape", "parameters", "data")
_OUTPUT_KEYS = ("name", "parameters")
_MAX_INPUTS = max(len(model.inputs) for model in MODELS.values())
_MAX_OUTPUTS = 1
_MAX_PARAMETERS = 64
_SHOWN_CHARACTERS = 60
_WANTED = {bool: "true or false", int: "a whole number", str: "valid text", list: "a list", dict: "an object"}
_ELEMENTS: Mapping[ElementKind, tuple[set[type], str]] = {
    ElementKind.BOOLEAN: ({bool}, _WANTED[bool]),
    ElementKind.SIGNED: ({int}, _WANTED[int]),
    ElementKind.UNSIGNED: ({int}, _WANTED[int]),
    ElementKind.FLOAT: ({int, float}, "a number"),
}
"""The Python types of the JSON values of each kind of elements, and their description."""

_Value = TypeVar("_Value")


class InferBody(NamedTuple):
    """A parsed body.

    Attributes:
        request: the request in the form of gRPC. All elements are raw contents.
        is_binary: whether the elements of the output are sent as bytes and not as numbers.
    """

    request: SplitRequest
    is_binary: bool


def read_infer_request(body: bytes, json_length: int, name: str, version: str) -> InferBody:
    """Returns the parsed body of a request.

    Args:
        body: the body.
        json_length: the number of bytes of the JSON.
        name: the name of the model in the path.
        version: the version of the model in the path, or an empty text.

    Raises:
        InvalidRequestError: MESSAGE_MALFORMED, FIELD_MISSING, DATA_TYPE_UNSUPPORTED, DATA_SIZE_MISMATCH, INPUT_INVALID,
            OUTPUT_INVALID or PARAMETER_INVALID.
        LimitError: RANK_LIMIT_EXCEEDED.
    """
    document = parse_json(decode_text(body[:json_length]))
    for key, value in (("model_name", name), ("model_version", version)):
        if document.pop(key, None) not in (None, value):
            problem = f"{key} differs from the path of the request"
            raise reject_json(problem, key)
    _check_keys(document, _KEYS)
    parameters = _read_parameters(document)
    known = MODELS[name].parameters if name in MODELS else ()
    message: InferRequest = _REQUEST(
        model_name=name,
        model_version=version,
        id=_read(document, "id", str),
        parameters={key: _wrap(parameters[key], key) for key in known if key in parameters},
    )
    raw = list(_read_inputs(document, message, memoryview(body)[json_length:]))
    is_binary = _read_flag(parameters, BINARY_OUTPUT)
    for path, given in _list_parts(document, "outputs", _OUTPUT_KEYS, _MAX_OUTPUTS, Reason.OUTPUT_INVALID):
        message.outputs.add(name=_require(given, "name", str, path))
        chosen = _read_parameters(given, path)
        check_parameters(chosen, path)
        is_binary = _read_flag(chosen, BINARY, path, default=is_binary)
    return InferBody(SplitRequest(message, raw, None), is_binary)


def _read_inputs(document: Json, message: InferRequest, binary: memoryview) -> Iterator[memoryview]:
    """Adds the inputs to the message, and yields the elements of each input."""
    begin = 0
    for path, given in _list_parts(document, "inputs", _INPUT_KEYS, _MAX_INPUTS, Reason.INPUT_INVALID):
        name, datatype = (_require(given, key, str, path) for key in ("name", "datatype"))
        dims = _read_integers(_require(given, "shape", list, path), f"{path}.shape", Reason.MESSAGE_MALFORMED)
        message.inputs.add(name=name, datatype=datatype, shape=dims)
        parameters = _read_parameters(given, path)
        check_parameters(parameters, path)
        data = _read(given, "data", list, path)
        if (data is None) == (BINARY_SIZE not in parameters):
            text = f"{path} must have its elements either as data, or as binary data with {BINARY_SIZE}"
            raise InvalidRequestError.of(Reason.INPUT_INVALID, text, path)
        if data is None:
            size = _read_size(parameters, path, len(binary) - begin)
            yield binary[begin : begin + size]
            begin += size
        else:
            yield memoryview(_pack_numbers(data, dims, decode_datatype(datatype, f"{path}.datatype"), f"{path}.data"))
    if begin != len(binary):
        text = f"the body has {len(binary)} bytes after its JSON, but the inputs have {begin} bytes of binary data"
        raise InvalidRequestError.of(Reason.INPUT_INVALID, text, "inputs", have=len(binary), want=begin)


def _list_parts(
    document: Json, field: str, keys: Sequence[str], limit: int, reason: Reason
) -> Iterator[tuple[str, Json]]:
    """Yields the path and the value of each input or output."""
    parts = _read(document, field, list) or []
    _check_count(parts, limit, field, reason)
    for index, part in enumerate(parts):
        path = f"{field}[{index}]"
        yield path, _check_keys(_check(part, dict, path), keys, path)


def _read(part: Json, key: str, kind: type[_Value], path: str = "") -> _Value | None:
    """Returns the value of a field, or None if it is absent or null."""
    value = part.get(key)
    return None if value is None else _check(value, kind, f"{path}.{key}".strip("."))


def _require(part: Json, key: str, kind: type[_Value], path: str) -> _Value:
    value = _read(part, key, kind, path)
    if value is None:
        field = f"{path}.{key}"
        raise InvalidRequestError.of(Reason.FIELD_MISSING, f"{field} is missing", field)
    return value


def _read_parameters(part: Json, path: str = "") -> Json:
    parameters: Json = _read(part, "parameters", dict, path) or {}
    _check_count(parameters, _MAX_PARAMETERS, f"{path}.parameters".strip("."), Reason.PARAMETER_INVALID)
    return parameters


def _read_flag(parameters: Json, key: str, path: str = "", *, default: bool = False) -> bool:
    field = f"{path}.parameters[{key}]".strip(".")
    return _check(parameters.get(key, default), bool, field, Reason.PARAMETER_INVALID, key=key)


def _read_size(parameters: Json, path: str, left: int) -> int:
    """Returns the number of bytes of a binary input. The body has `left` more bytes."""
    field = f"{path}.parameters[{BINARY_SIZE}]"
    size = _check(parameters[BINARY_SIZE], int, field, Reason.PARAMETER_INVALID, key=BINARY_SIZE)
    if not 0 <= size <= left:
        text = f"{field} is {format_value(size)}, but the body has {left} more bytes"
        raise InvalidRequestError.of(Reason.INPUT_INVALID, text, field, value=size, limit=left)
    return size


def _read_integers(items: list[object], field: str, reason: Reason) -> list[int]:
    """Returns a list of dims, or a requested shape."""
    _check_count(items, MAX_RANK, field, Reason.RANK_LIMIT_EXCEEDED)
    integers = [_check(item, int, f"{field}[{index}]", reason) for index, item in enumerate(items)]
    for index, integer in enumerate(integers):
        if not -MAX_DIM - 1 <= integer <= MAX_DIM:
            raise reject_number(integer, DataType.I64, field, index, reason)
    return integers


def _wrap(value: object, key: str) -> Json:
    """Returns a known parameter of a request as the arguments of an InferParameter.

    A requested shape may be a list, because tritonclient sends it so.
    """
    field = f"parameters[{key}]"
    if key == SHAPE and isinstance(value, list):
        return {"string_param": json.dumps(_read_integers(value, field, Reason.PARAMETER_INVALID))}
    if key == SPECIAL_ZERO:
        return {"bool_param": _check(value, bool, field, Reason.PARAMETER_INVALID, key=key)}
    return {"string_param": _check(value, str, field, Reason.PARAMETER_INVALID, key=key)}


def _check(
    value: object, kind: type[_Value], field: str, reason: Reason = Reason.MESSAGE_MALFORMED, **values: object
) -> _Value:
    """Returns a value if it has exactly this type."""
    # bool is a subclass of int, and text with half of a surrogate pair has no encoding.
    if type(value) is not kind or (isinstance(value, str) and not _is_encodable(value)):
        raise _reject(value, _WANTED[kind], field, reason, **values)
    return value


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_keys(part: Json, keys: Sequence[str], path: str = "") -> Json:
    unknown = next((key for key in part if key not in keys), None)
    if unknown is not None:
        problem = f"{path or 'the body'} has the unknown key {clip_name(unknown)!r}; use {', '.join(keys)}"
        raise reject_json(problem, path)
    return part


def _check_count(items: Collection[object], limit: int, field: str, reason: Reason) -> None:
    if len(items) > limit:
        text = f"{field} has {len(items)} entries; at most {limit} are allowed"
        kind = LimitError if reason is Reason.RANK_LIMIT_EXCEEDED else InvalidRequestError
        raise kind.of(reason, text, field, have=len(items), limit=limit)


def _reject(value: object, wanted: str, field: str, reason: Reason, **values: object) -> InvalidRequestError:
    return InvalidRequestError.of(reason, f"{field} is {_show(value)}, not {wanted}", field, **values)


def _show(value: object) -> str:
    """Returns a short text for a JSON value. Lists and objects are only named, because they may be large and deep."""
    if isinstance(value, list | dict):
        return _WANTED[type(value)]
    return clip_text(json.dumps(value[:_SHOWN_CHARACTERS] if isinstance(value, str) else value), _SHOWN_CHARACTERS)


def _pack_numbers(data: list[object], dims: Sequence[int], data_type: DataType, field: str) -> bytes:
    """Returns the elements of an input that has them as numbers, as dense little-endian bytes."""
    if data_type in BINARY_ONLY:
        message = f"{field}: elements of {NAMES[data_type]} have no form in JSON; use binary data"
        raise InvalidRequestError.of(Reason.INPUT_INVALID, message, field, value=NAMES[data_type])
    elements, pieces, count = _flatten(data, dims, field), list[bytes](), 0
    while piece := list(islice(elements, AT_ONCE)):
        pieces.append(_pack(piece, data_type, field, count))
        count += len(piece)
    want = prod(dims)
    if count != want and min(dims, default=0) >= 0:  # the rules reject negative dims
        message = f"{field} has {count} elements; the shape {format_value(dims)} has {format_value(want)}"
        raise InvalidRequestError.of(Reason.DATA_SIZE_MISMATCH, message, field, have=count, want=want)
    return b"".join(pieces)


def _flatten(data: list[object], dims: Sequence[int], field: str) -> Iterator[object]:
    """Returns the elements of a flat list, or of nested lists whose lengths are the dims."""
    flat: Iterator[object] = iter(data)
    first = data
    for dim in dims[1:]:
        if not first or not isinstance(first[0], list):
            break
        flat = chain.from_iterable(_check_lists(flat, dim, dims, field))
        first = first[0]
    return flat


def _check_lists(items: Iterable[object], length: int, dims: Sequence[int], field: str) -> Iterator[list[object]]:
    for item in items:
        if not isinstance(item, list) or len(item) != length:
            text = f"{field} must be a list of elements, or nested lists in the shape {format_value(dims)}"
            raise InvalidRequestError.of(Reason.INPUT_INVALID, text, field)
        yield item


def _pack(elements: list[Any], data_type: DataType, field: str, begin: int) -> bytes:
    """Returns elements as bytes. `begin` is the index of the first of them."""
    types, wanted = _ELEMENTS[data_type.kind]
    wrong = {*map(type, elements)} - types
    if wrong:
        index = next(index for index, element in enumerate(elements) if type(element) in wrong)
        place = f"{field}[{begin + index}]"
        raise _reject(elements[index], wanted, place, Reason.INPUT_INVALID, index=begin + index)
    infinite = next((at for at, one in enumerate(elements) if type(one) is float and not isfinite(one)), len(elements))
    packed = pack_numbers(elements[:infinite], data_type, field, begin)  # an earlier number may not fit
    if infinite < len(elements):
        raise reject_number(elements[infinite], data_type, field, begin + infinite, Reason.INPUT_INVALID)
    return packed


_MAX_NUMBERS = 512 * 1024  # as many as the JSON of a request can have
_FIELD = "outputs[0]"
_ADVICE = "set binary_data to true"


class InferReply(NamedTuple):
    """A response to an inference request.

    Attributes:
        header: the JSON.
        payload: the elements of the output as bytes, or None if the JSON contains them.
    """

    header: bytes
    payload: memoryview | None


def write_infer_response(
    call: InferCall, output: TensorView, answer: ShapeAnswer | None, *, is_binary: bool
) -> InferReply:
    """Returns the response to an inference request.

    Args:
        call: the request.
        output: the output.
        answer: the answer to a shape query, or None for other requests.
        is_binary: whether the elements are sent as bytes.

    Raises:
        InvalidRequestError: OUTPUT_INVALID, if JSON cannot express the elements.
        LimitError: OUTPUT_TOO_LARGE, if the output has too many elements for JSON.
    """
    described: Json = {"name": call.model.output.name, "datatype": NAMES[output.data_type], "shape": list(output.dims)}
    document: Json = {"model_name": call.model.name, "model_version": VERSION, "outputs": [described]}
    if call.id:
        document["id"] = call.id
    if parameters := list_parameters(answer):
        document["parameters"] = parameters
    if is_binary:
        described["parameters"] = {BINARY_SIZE: output.payload.nbytes}
        return InferReply(write_json(document), output.payload)
    described["data"] = []
    head, tail = write_json(document).split(b'"data":[]', 1)
    return InferReply(b'%b"data":[%b]%b' % (head, _write_elements(output), tail), None)


def _write_elements(output: TensorView) -> bytes:
    count = prod(output.dims)
    if count > _MAX_NUMBERS:
        message = f"the output has {count} elements; JSON may have {_MAX_NUMBERS}: {_ADVICE}"
        raise LimitError.of(Reason.OUTPUT_TOO_LARGE, message, _FIELD, have=count, limit=_MAX_NUMBERS)
    if output.data_type in BINARY_ONLY:
        message = f"elements of {NAMES[output.data_type]} have no form in JSON: {_ADVICE}"
        raise InvalidRequestError.of(Reason.OUTPUT_INVALID, message, _FIELD, value=NAMES[output.data_type])
    try:
        return b",".join([write_json(piece)[1:-1] for piece in unpack_numbers(output)])
    except ValueError:
        message = f"the output contains NaN or an infinity, which JSON cannot express: {_ADVICE}"
        raise InvalidRequestError.of(Reason.OUTPUT_INVALID, message, _FIELD) from None


def describe_message(message: InferMessage) -> Json:
    """Returns a message of the protocol as JSON, with the names of its definition and 64-bit integers as numbers.

    Protobuf's own JSON has 64-bit integers as text, which clients of the protocol do not accept.
    """
    return {
        field.name: _describe_field(message, field)
        for field in message.DESCRIPTOR.fields
        if (message.HasField(field.name) if field.has_presence else _is_listed(message, field))
    }


def _is_listed(message: InferMessage, field: FieldDescriptor) -> bool:
    # A number 0 and an empty list of inputs say something, but an empty map of parameters or an empty text does not.
    value = getattr(message, field.name)
    return bool(value) or type(value) is int or (field.is_repeated and not _is_map(field))


def _describe_field(message: InferMessage, field: FieldDescriptor) -> object:
    value = getattr(message, field.name)
    if _is_map(field):
        return {key: _describe_value(item) for key, item in sorted(value.items())}
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    return [_describe_value(item) for item in value] if field.is_repeated else _describe_value(value)


def _describe_value(value: Any) -> object:  # noqa: ANN401 - of a message
    if not hasattr(value, "DESCRIPTOR"):
        return value
    choice = value.WhichOneof("parameter_choice") if "parameter_choice" in value.DESCRIPTOR.oneofs_by_name else None
    return describe_message(value) if choice is None else getattr(value, choice)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry
