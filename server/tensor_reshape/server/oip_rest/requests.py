"""Reads inference requests over REST.

- The body of a request is JSON. With the header `Inference-Header-Content-Length`, only the first bytes of the body are
  JSON, and the elements of the inputs with the parameter `binary_data_size` follow in the order of the inputs.
- The elements of a binary input are a view of the body.
- Elements as numbers may be a flat list, or nested lists in the shape of the input.
- The parameters `binary_data` of the output and `binary_data_output` of the request choose the form of the output.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.server.http.json_methods import parse_body
from tensor_reshape.server.http.requests import CLOSE, is_compressed
from tensor_reshape.server.oip.contents import pack_numbers
from tensor_reshape.server.oip.datatypes import clip_name, decode_datatype
from tensor_reshape.server.oip.messages import InferRequest, InferTensor, find_class
from tensor_reshape.server.oip.requests import Request
from tensor_reshape.server.oip_rest.responses import LENGTH_HEADER, build_error
from tensor_reshape.wire.json_messages import Json, read_message

MAX_JSON_BYTES = 1024 * 1024
"""Maximum size of the JSON of a request in bytes.

The parser of JSON holds the interpreter lock, for about 10 ms if the JSON has this size.
"""

BINARY_SIZE, BINARY, BINARY_OUTPUT = "binary_data_size", "binary_data", "binary_data_output"
"""The names of the parameters of the extension for binary data."""

_REQUEST = find_class("ModelInferRequest")
_KEYS = ("id", "parameters", "inputs", "outputs")
_DISCARD_SECONDS = 5.0
_LENGTH = re.compile("[0-9]{1,10}")


class InferBody(NamedTuple):
    """A parsed body.

    Attributes:
        request: the request in the form of gRPC. All elements are raw contents.
        is_binary: whether the elements of the output are sent as bytes and not as numbers.
    """

    request: Request
    is_binary: bool


def find_infer_error(request: HttpRequest, max_bytes: int) -> Response | None:
    """Checks the headers about the body. Returns an error response, or None if they are valid.

    Args:
        request: the HTTP request.
        max_bytes: the maximum size of a body.
    """
    length, json_length = request.headers.get("content-length", ""), request.headers.get(LENGTH_HEADER)
    # A chunked body may be longer than its Content-Length.
    if not _LENGTH.fullmatch(length) or "transfer-encoding" in request.headers:
        text = "the request needs a Content-Length header of at most ten digits, and no Transfer-Encoding header"
        return build_error(411, Reason.MESSAGE_MALFORMED, text, CLOSE)
    if int(length) > max_bytes:
        text = f"the body has {length} bytes, but the limit is {max_bytes}"
        return build_error(413, Reason.MESSAGE_TOO_LARGE, text, CLOSE)
    if is_compressed(request):
        text = "this server does not accept compressed bodies: omit the Content-Encoding header"
        return build_error(415, Reason.MESSAGE_MALFORMED, text, CLOSE)
    if json_length is not None and not (_LENGTH.fullmatch(json_length) and int(json_length) <= int(length)):
        text = "Inference-Header-Content-Length must be the number of bytes of the JSON at the beginning of the body"
        return build_error(400, Reason.MESSAGE_MALFORMED, text, CLOSE)
    if int(json_length or length) > MAX_JSON_BYTES:
        text = f"the JSON has more than {MAX_JSON_BYTES} bytes: send the elements as binary data"
        return build_error(413, Reason.MESSAGE_TOO_LARGE, text, CLOSE)
    return None


async def discard_body(request: HttpRequest) -> None:
    """Reads a rejected body for some seconds. A client that still sends would otherwise lose the error response."""
    with suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(_DISCARD_SECONDS):
            async for _ in request.stream():
                pass


def read_infer_body(body: bytes, json_length: int, name: str, version: str) -> InferBody:
    """Returns the parsed body of a request.

    Args:
        body: the body.
        json_length: the number of bytes of the JSON.
        name: the name of the model in the path.
        version: the version of the model in the path, or an empty text.

    Raises:
        InvalidRequestError: MESSAGE_MALFORMED, INPUT_INVALID or PARAMETER_INVALID.
    """
    document = parse_body(body[:json_length])
    for key, value in (("model_name", name), ("model_version", version)):
        if document.pop(key, None) not in (None, value):
            text = f"{key} differs from the path of the request"
            raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, text, key)
    unknown = next((key for key in document if key not in _KEYS), None)
    if unknown is not None:
        text = f"the body has the unknown key {clip_name(unknown)!r}; use {', '.join(_KEYS)}"
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, text)
    is_binary = _pop_flag(document.get("parameters"), BINARY_OUTPUT)
    inputs, outputs = (_list_tensors(document, field) for field in ("inputs", "outputs"))
    contents = [(given.pop("data", None), _pop_parameter(given, BINARY_SIZE)) for given in inputs]
    is_binary = _pop_flag(outputs[0].get("parameters"), BINARY, is_binary) if outputs else is_binary
    for part in (document, *inputs, *outputs):
        if isinstance(part.get("parameters"), Mapping):
            part["parameters"] = {key: _wrap(value) for key, value in part["parameters"].items()}
    message: InferRequest = read_message(_REQUEST, {**document, "model_name": name, "model_version": version})
    raw = list(_list_contents(message.inputs, contents, memoryview(body)[json_length:]))
    return InferBody(Request(message, raw, None), is_binary)


def _list_tensors(document: Json, field: str) -> list[Json]:
    """Returns the inputs or outputs of a request as new dicts, which replace those of the request.

    A value of another type is left to protobuf, whose error names it.
    """
    given = document.get(field)
    if not isinstance(given, list) or not all(isinstance(tensor, Mapping) for tensor in given):
        return []
    document[field] = tensors = [dict(tensor) for tensor in given]
    return tensors


def _pop_parameter(tensor: Json, name: str) -> object:
    parameters = tensor.get("parameters")
    return parameters.pop(name, None) if isinstance(parameters, dict) else None


def _pop_flag(parameters: object, name: str, default: bool = False) -> bool:  # noqa: FBT001, FBT002 - a value
    value = parameters.pop(name, default) if isinstance(parameters, dict) else default
    if not isinstance(value, bool):
        message = f"parameters[{name}] must be true or false"
        raise InvalidRequestError.of(Reason.PARAMETER_INVALID, message, f"parameters[{name}]", key=name)
    return value


def _wrap(value: object) -> Json:
    """Returns a parameter as the JSON of an InferParameter. A list becomes its text, as tritonclient sends it."""
    if isinstance(value, bool):
        return {"bool_param": value}
    if isinstance(value, int):
        return {"int64_param": value}
    if isinstance(value, float):
        return {"double_param": value}
    return {"string_param": json.dumps(value) if isinstance(value, list) else value}


def _list_contents(
    tensors: Sequence[InferTensor], contents: Sequence[tuple[object, object]], binary: memoryview
) -> Iterator[memoryview]:
    """Yields the elements of each input."""
    begin = 0
    for index, (tensor, (data, size)) in enumerate(zip(tensors, contents, strict=True)):
        field = f"inputs[{index}]"
        if (data is None) == (size is None):
            text = f"{field} must have its elements either as data, or as binary data with {BINARY_SIZE}"
            raise InvalidRequestError.of(Reason.INPUT_INVALID, text, field, index=index)
        if size is not None:
            left = len(binary) - begin
            if type(size) is not int or not 0 <= size <= left:
                text = f"{field}.parameters[{BINARY_SIZE}] must be an integer up to {left}, the bytes left in the body"
                raise InvalidRequestError.of(Reason.INPUT_INVALID, text, f"{field}.parameters", index=index, limit=left)
            yield binary[begin : begin + size]
            begin += size
        else:
            data_type = decode_datatype(tensor.datatype, f"{field}.datatype")
            yield memoryview(pack_numbers(_flatten(data, tensor.shape, f"{field}.data"), data_type, f"{field}.data"))
    if begin != len(binary):
        text = f"the body has {len(binary)} bytes after its JSON, but the inputs have {begin} bytes of binary data"
        raise InvalidRequestError.of(Reason.INPUT_INVALID, text, "inputs", have=len(binary), want=begin)


def _flatten(data: object, shape: Sequence[int], field: str) -> list[Any]:
    """Returns the elements of a flat list, or of nested lists whose lengths are the dims of `shape`."""
    flat: object = data
    for dim in shape[1:]:
        if not isinstance(flat, list) or not flat or not isinstance(flat[0], list):
            break
        is_nested = all(isinstance(part, list) and len(part) == dim for part in flat)
        flat = list(chain.from_iterable(flat)) if is_nested else None
    if not isinstance(flat, list):
        text = f"{field} must be a list of elements, or nested lists in the shape {list(shape)}"
        raise InvalidRequestError.of(Reason.INPUT_INVALID, text, field)
    return flat
