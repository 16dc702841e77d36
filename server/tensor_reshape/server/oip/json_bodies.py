"""Reads the bodies of inference requests over REST, and writes the bodies of their responses.

- The body begins with JSON. If inputs have the parameter `binary_data_size`, their elements follow the JSON as bytes,
  in the order of the inputs. The parsed request has a view of these bytes and not a copy.
- If elements are sent as numbers, they may be a flat list, or nested lists in the shape of the input.
- The parameter `binary_data` of the output chooses whether the output is sent as bytes or as numbers. Without this
  parameter, the parameter `binary_data_output` of the request chooses.
- An unknown parameter is ignored, as over gRPC, and may have any value.
- Before the JSON is converted to a message, the entries of lists and objects are counted, and their number is limited.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from math import prod
from typing import Any, NamedTuple, TypeVar, cast

from google.protobuf.descriptor import Descriptor

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, format_value
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.server.oip.datatypes import (
    BINARY_ONLY,
    NAMES,
    clip_name,
    decode_datatype,
    pack_numbers,
    unpack_numbers,
)
from tensor_reshape.server.oip.inferences import list_parameters
from tensor_reshape.server.oip.messages import InferRequest, find_class
from tensor_reshape.server.oip.models import MODELS, VERSION
from tensor_reshape.server.oip.requests import InferCall, SplitRequest, check_parameters
from tensor_reshape.wire.json_messages import (
    Checks,
    Json,
    check_values,
    decode_text,
    is_text,
    parse_json,
    reject_json,
    shorten,
    write_json,
)
from tensor_reshape.wire.tensors import TensorView

BINARY_SIZE, BINARY, BINARY_OUTPUT = "binary_data_size", "binary_data", "binary_data_output"
"""The names of the parameters of the extension for binary data."""

_REQUEST = find_class("ModelInferRequest")
_DESCRIPTOR = cast("Descriptor", _REQUEST.DESCRIPTOR)
_CHECKS = Checks(max_entries=256, opaque="inference.InferParameter")
_KEYS = ("id", "parameters", "inputs", "outputs")
_INPUT_KEYS = ("name", "datatype", "shape", "parameters", "data")
_OUTPUT_KEYS = ("name", "parameters")
_WANTED = {bool: "true or false", int: "a whole number"}
_Value = TypeVar("_Value", bool, int)


class InferBody(NamedTuple):
    """A parsed body.

    Attributes:
        request: the same request in the form of gRPC. All elements are raw contents.
        is_binary: whether the response contains the elements of the output as bytes and not as numbers.
    """

    request: SplitRequest
    is_binary: bool


def read_infer_request(body: bytes, json_length: int, name: str, version: str) -> InferBody:
    """Returns the parsed body of a request.

    Args:
        body: the body.
        json_length: the number of bytes of the JSON at the beginning of the body.
        name: the name of the model in the path.
        version: the version of the model in the path, or an empty text.

    Raises:
        InvalidRequestError: MESSAGE_MALFORMED, FIELD_MISSING, DATA_TYPE_UNSUPPORTED, INPUT_INVALID, or
            PARAMETER_INVALID.
    """
    document = parse_json(decode_text(body[:json_length]))
    for key, value in (("model_name", name), ("model_version", version)):
        if document.pop(key, None) not in (None, value):
            problem = f"{key} differs from the path of the request"
            raise reject_json(problem, key)
    check_values(document, _DESCRIPTOR, checks=_CHECKS)
    parameters = _take_parameters(document, "", _KEYS)
    raw = list(_take_elements(document.get("inputs") or (), memoryview(body)[json_length:]))
    is_binary = _read(parameters, BINARY_OUTPUT, bool, default=False)
    for index, output in enumerate(document.get("outputs") or ()):
        chosen = _take_parameters(output, f"outputs[{index}]", _OUTPUT_KEYS)
        is_binary = _read(chosen, BINARY, bool, f"outputs[{index}].", default=is_binary)
    known = MODELS[name].parameters.keys() & parameters.keys() if name in MODELS else ()
    wrapped = {key: _wrap(parameters[key]) for key in known}
    message: InferRequest = _REQUEST(model_name=name, model_version=version, parameters=wrapped, **document)
    return InferBody(SplitRequest(message, raw, None), is_binary)


def _take_parameters(part: Json, path: str, keys: Sequence[str]) -> Json:
    """Checks the keys of a request, an input or an output, and removes and returns its parameters."""
    unknown = next((key for key in part if key not in keys), None)
    if unknown is not None:
        problem = f"{path or 'the body'} has the unknown key {clip_name(unknown)!r}; use {', '.join(keys)}"
        raise reject_json(problem, path)
    parameters: Json = part.pop("parameters", None) or {}
    if path:
        check_parameters(parameters, path)
    return parameters


def _take_elements(inputs: Sequence[Json], binary: memoryview) -> Iterator[memoryview]:
    """Yields the elements of each input.

    Removes `data` and `parameters` from the inputs, because the message must not contain these keys.
    """
    begin = 0
    for index, tensor in enumerate(inputs):
        path = f"inputs[{index}]"
        parameters, data = _take_parameters(tensor, path, _INPUT_KEYS), tensor.pop("data", None)
        missing = next((f"{path}.{key}" for key in ("name", "datatype", "shape") if tensor.get(key) is None), None)
        if missing is not None:
            raise InvalidRequestError.of(Reason.FIELD_MISSING, f"{missing} is missing", missing)
        tensor["shape"] = [*map(int, tensor["shape"])]
        if (data is None) == (BINARY_SIZE not in parameters):
            text = f"{path} must have its elements either as data, or as binary data with {BINARY_SIZE}"
            raise InvalidRequestError.of(Reason.INPUT_INVALID, text, path)
        if data is None:
            size, left = _read(parameters, BINARY_SIZE, int, f"{path}."), len(binary) - begin
            if not 0 <= size <= left:
                field = f"{path}.parameters[{BINARY_SIZE}]"
                text = f"{field} is {format_value(size)}, but the body has {left} more bytes"
                raise InvalidRequestError.of(Reason.INPUT_INVALID, text, field, value=size, limit=left)
            yield binary[begin : begin + size]
            begin += size
        else:
            data_type = decode_datatype(tensor["datatype"], f"{path}.datatype")
            yield memoryview(_pack(data, tensor["shape"], data_type, f"{path}.data"))
    if begin != len(binary):
        text = f"the body has {len(binary)} bytes after its JSON, but the inputs have {begin} bytes of binary data"
        raise InvalidRequestError.of(Reason.INPUT_INVALID, text, "inputs", have=len(binary), want=begin)


def _read(parameters: Json, key: str, kind: type[_Value], path: str = "", default: _Value | None = None) -> _Value:
    value, field = parameters.get(key, default), f"{path}parameters[{key}]"
    if type(value) is not kind:  # bool is a subclass of int
        text = f"{field} is {shorten(value)}, not {_WANTED[kind]}"
        raise InvalidRequestError.of(Reason.PARAMETER_INVALID, text, field, key=key)
    return value


def _wrap(value: object) -> Json:
    """Returns a parameter as the fields of an InferParameter.

    Returns no field if no parameter of this server accepts this type of value. A requested shape may be a list, because
    tritonclient sends a requested shape as a list.
    """
    if isinstance(value, list):  # items that are lists or objects are not copied, because they may be deeply nested
        value = json.dumps([item if isinstance(item, int | float | str) else None for item in value])
    if isinstance(value, bool):
        return {"bool_param": value}
    return {"string_param": value} if is_text(value) else {}


def _pack(data: object, dims: Sequence[int], data_type: DataType, field: str) -> bytes:
    """Converts the elements of an input from numbers to dense little-endian bytes."""
    if data_type in BINARY_ONLY:
        message = f"{field}: JSON cannot express elements of {NAMES[data_type]}; use binary data"
        raise InvalidRequestError.of(Reason.INPUT_INVALID, message, field, value=NAMES[data_type])
    numbers: list[Any] = [data]
    for length in (None, *dims[1:]):
        if length is not None and not (numbers and isinstance(numbers[0], list)):
            break  # a flat list
        if not all(isinstance(part, list) and length in {None, len(part)} for part in numbers):
            text = f"{field} must be a list of elements, or nested lists in the shape {format_value(dims)}"
            raise InvalidRequestError.of(Reason.INPUT_INVALID, text, field)
        numbers = list(chain.from_iterable(numbers))
    return pack_numbers(numbers, data_type, field)


_MAX_NUMBERS = 512 * 1024  # the JSON of a request has at most 1 MiB, so it cannot contain more numbers
_FIELD = "outputs[0]"
_ADVICE = "set binary_data to true"


def write_infer_response(
    call: InferCall, output: TensorView, answer: ShapeAnswer | None, *, is_binary: bool
) -> tuple[bytes, memoryview | None]:
    """Returns the JSON of a response and the bytes that follow it.

    The bytes are None if the JSON contains the elements.

    Args:
        call: the request.
        output: the output.
        answer: the answer to a shape query, or None for other requests.
        is_binary: whether the response contains the elements as bytes.

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
        return write_json(document), output.payload
    described["data"] = []
    head, tail = write_json(document).split(b'"data":[]', 1)
    return b'%b"data":[%b]%b' % (head, _write_elements(output), tail), None


def _write_elements(output: TensorView) -> bytes:
    count = prod(output.dims)
    if count > _MAX_NUMBERS:
        message = f"the output has {count} elements; JSON may contain at most {_MAX_NUMBERS}: {_ADVICE}"
        raise LimitError.of(Reason.OUTPUT_TOO_LARGE, message, _FIELD, have=count, limit=_MAX_NUMBERS)
    if output.data_type in BINARY_ONLY:
        message = f"JSON cannot express elements of {NAMES[output.data_type]}: {_ADVICE}"
        raise InvalidRequestError.of(Reason.OUTPUT_INVALID, message, _FIELD, value=NAMES[output.data_type])
    try:
        return b",".join([write_json(piece)[1:-1] for piece in unpack_numbers(output)])
    except ValueError:
        message = f"the output contains NaN or an infinity, which JSON cannot express: {_ADVICE}"
        raise InvalidRequestError.of(Reason.OUTPUT_INVALID, message, _FIELD) from None
