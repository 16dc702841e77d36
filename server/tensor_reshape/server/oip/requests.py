"""Reads a ModelInferRequest and checks whether it follows the protocol. The reshape rules check the shapes later.

- The bytes of a tensor are a view of the received message.
- Inputs and outputs are identified by name and may have any order. The raw contents have one entry for each input, in
  the order of the inputs.
- As in ReshapeService, a request may have at most `MAX_HEADER_BYTES` in addition to its elements, because parsing a
  shape with a million numbers would delay all other calls.
- Unknown parameters are ignored, as in Triton and KServe, because the protocol itself defines no parameters. A
  parameter that places a tensor in shared memory is rejected. If the server ignored it, the client would read an old
  result from the shared memory.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason, ReshapeError, format_value
from tensor_reshape.rules.layouts import count_bytes
from tensor_reshape.rules.limits import MAX_HEADER_BYTES, MAX_RANK, Limits
from tensor_reshape.rules.operations import SHAPE_OPERATIONS, Operation, check_rank
from tensor_reshape.server.oip.datatypes import NAMES, clip_name, decode_datatype, format_names, pack_contents
from tensor_reshape.server.oip.messages import InferRequest, InferTensor, find_class
from tensor_reshape.server.oip.models import OPERATION, SHAPE, SPECIAL_ZERO, Model, find_model
from tensor_reshape.server.oip.raw_contents import Split, find_header_limit
from tensor_reshape.wire.fields import check_header_size, parse_message
from tensor_reshape.wire.reshapes import read_items
from tensor_reshape.wire.tensors import TensorView

_REQUEST = find_class("ModelInferRequest")
_BOOLS = ("false", "true")
_UNAVAILABLE = {
    "classification": "this server does not classify",
    "shared_memory_region": "this server has no shared memory; send the tensor in the message",
}
_LEAST = -(2**63)  # the smallest value of INT64, which is the datatype of the input `shape`


class SplitRequest(NamedTuple):
    """A request message that is split into its raw contents and its other fields.

    Attributes:
        message: the message without its raw contents.
        raw_contents: views of the raw contents.
        split: the positions of the raw contents, or None if protobuf has parsed the whole message.
    """

    message: InferRequest
    raw_contents: Sequence[memoryview]
    split: Split | None


class InferCall(NamedTuple):
    """A parsed request.

    Attributes:
        id: the id of the request, which the response repeats.
        model: the model.
        operation: the operation whose rules apply.
        first: the input that each request of the model must have.
        field: the path of this input in the request.
        target: the requested shape, which may contain 0 and -1.
        special_zero: the parameter or the input `special_zero`, or None if the request has neither.
        is_typed: whether elements are sent as numbers in the request, and therefore also in the response.
        source: the input whose elements the response repeats as numbers. None if the response does not repeat the
            numbers of an input.
    """

    id: str
    model: Model
    operation: Operation
    first: TensorView
    field: str
    target: Sequence[int]
    special_zero: bool | None
    is_typed: bool
    source: InferTensor | None

    def read_list(self, limits: Limits) -> Sequence[int]:
        """Returns the elements of an input that is a list of dims.

        Raises:
            ReshapeError: the input is not a list of dims.
        """
        return _read_list(self.operation, self.first, limits, self.field)

    def rename_error(self, error: ReshapeError) -> ReshapeError:
        """Returns an error of the reshape rules.

        The error names the fields as in this protocol, and not as in ReshapeService.
        """
        dims = f"{self.field}.shape" if self.model.has_data else self.model.first.name
        return _rename(error, "data.dims", dims)


def parse_split(raw: bytes, split: Split) -> SplitRequest:
    """Returns the request that a split message contains.

    Raises:
        InvalidRequestError: the reason is MESSAGE_MALFORMED.
    """
    view = memoryview(raw)
    contents = [view[begin:end] for begin, end in split.raw_contents]
    return SplitRequest(parse_message(_REQUEST, split.header), contents, split)


def parse_whole(raw: bytes, limits: Limits) -> SplitRequest:
    """Returns the request in a message that could not be split.

    Raises:
        InvalidRequestError: the reason is MESSAGE_MALFORMED.
    """
    limit = find_header_limit(limits)
    if len(raw) > limit:
        text = (
            f"the message is not an inference.ModelInferRequest, or has an unusual encoding and more than {limit} bytes"
        )
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, text)
    message: InferRequest = parse_message(_REQUEST, raw)
    return SplitRequest(message, [memoryview(content) for content in message.raw_input_contents], None)


def read_request(request: SplitRequest, limits: Limits) -> InferCall:
    """Returns the parsed content of a request.

    Raises:
        ReshapeError: the request violates the protocol, or uses a feature that this server does not have.
    """
    _check_header(request)
    message = request.message
    model = find_model(message.model_name, message.model_version)
    flag = _read_parameter(message.parameters, SPECIAL_ZERO, "bool")
    operation = _read_operation(model, message.parameters)
    named = _name_inputs(model, message)
    _check_outputs(model, message)
    tensors, is_typed = _read_tensors(model, named, request)
    fields = {name: f"inputs[{index}]" for index, name in enumerate(named)}
    text = _read_target_parameter(model, named, message.parameters)
    target = _read_list(operation, tensors[SHAPE], limits, fields[SHAPE]) if text is None else _parse_list(text)
    return InferCall(
        id=message.id,
        model=model,
        operation=operation,
        first=tensors[model.first.name],
        field=fields[model.first.name],
        target=target,
        special_zero=_read_flag(tensors.get(SPECIAL_ZERO), fields.get(SPECIAL_ZERO, ""), flag=flag),
        is_typed=is_typed,
        source=named[model.first.name] if is_typed and model.has_data else None,
    )


def check_parameters(parameters: Mapping[str, Any], field: str) -> None:
    """Rejects the parameters of an input or output if they select a feature that this server does not have.

    Raises:
        InvalidRequestError: PARAMETER_INVALID.
    """
    for key, text in _UNAVAILABLE.items():
        if key in parameters:
            message = f"{field}.parameters[{key}]: {text}"
            raise InvalidRequestError.of(Reason.PARAMETER_INVALID, message, f"{field}.parameters", key=key)


def _check_header(request: SplitRequest) -> None:
    """Checks the size of all fields of a request except for its elements. The elements may be bytes or numbers.

    Raises:
        LimitError: the reason is HEADER_TOO_LARGE.
    """
    if request.split and len(request.split.header) <= MAX_HEADER_BYTES:
        return
    message = request.message
    numbers = sum(tensor.contents.ByteSize() for tensor in message.inputs)
    check_header_size(message.ByteSize() - numbers - sum(map(len, message.raw_input_contents)))


def _read_operation(model: Model, parameters: Mapping[str, Any]) -> Operation:
    if OPERATION not in model.parameters:
        return model.operation
    name = _read_parameter(parameters, OPERATION, "string")
    operation = model.operation if name is None else SHAPE_OPERATIONS.get(name)
    if operation is None:
        message = f"parameters[{OPERATION}] is {clip_name(name)!r}; use one of {', '.join(SHAPE_OPERATIONS)}"
        raise InvalidRequestError.of(
            Reason.PARAMETER_INVALID, message, f"parameters[{OPERATION}]", key=OPERATION, value=name
        )
    return operation


def _read_parameter(parameters: Mapping[str, Any], key: str, kind: str) -> Any:  # noqa: ANN401 - of that kind
    if key not in parameters:  # reading a missing key of a protobuf map would create an entry
        return None
    choice = parameters[key].WhichOneof("parameter_choice")
    if choice != f"{kind}_param":
        message = f"parameters[{key}] must be a {kind}; the request has {choice or f'no {kind}'}"
        raise InvalidRequestError.of(Reason.PARAMETER_INVALID, message, f"parameters[{key}]", key=key, have=choice)
    return getattr(parameters[key], choice)


def _name_inputs(model: Model, message: InferRequest) -> dict[str, InferTensor]:
    """Returns the inputs by name, in the order of the request."""
    named: dict[str, InferTensor] = {}
    names = [spec.name for spec in model.inputs]
    for index, tensor in enumerate(message.inputs):
        if tensor.name not in names:
            text = f"unexpected inference input '{clip_name(tensor.name)}' for model '{model.name}', whose inputs are "
            text += ", ".join(names)
            raise _reject_input(text, index, tensor.name)
        if tensor.name in named:
            text = f"input '{clip_name(tensor.name)}' for model '{model.name}' is given twice"
            raise _reject_input(text, index, tensor.name)
        named[tensor.name] = tensor
    if model.first.name not in named:
        text = f"expected input '{model.first.name}' for model '{model.name}', which is missing in the request"
        raise InvalidRequestError.of(Reason.FIELD_MISSING, text, "inputs", name=model.first.name)
    return named


def _reject_input(text: str, index: int, name: str) -> InvalidRequestError:
    return InvalidRequestError.of(Reason.INPUT_INVALID, text, f"inputs[{index}].name", index=index, value=name)


def _check_outputs(model: Model, message: InferRequest) -> None:
    for index, output in enumerate(message.outputs):
        field = f"outputs[{index}]"
        if output.name != model.output.name or index:
            what = "is given twice" if output.name == model.output.name else "is unexpected"
            text = f"inference output '{clip_name(output.name)}' {what}; model '{model.name}' has '{model.output.name}'"
            raise InvalidRequestError.of(Reason.OUTPUT_INVALID, text, f"{field}.name", index=index, value=output.name)
        check_parameters(output.parameters, field)


def _read_tensors(
    model: Model, named: Mapping[str, InferTensor], request: SplitRequest
) -> tuple[dict[str, TensorView], bool]:
    """Returns the inputs by name, and whether all their elements are sent as numbers."""
    for index, tensor in enumerate(request.message.inputs):
        check_parameters(tensor.parameters, f"inputs[{index}]")
    is_typed = not request.raw_contents
    if not is_typed:
        _check_contents(request)
    tensors = {}
    for index, (name, tensor) in enumerate(named.items()):
        field = f"inputs[{index}]"
        data_type = _read_type(model, tensor, f"{field}.datatype")
        payload = memoryview(pack_contents(tensor, data_type, field)) if is_typed else request.raw_contents[index]
        tensors[name] = TensorView(data_type, tuple(tensor.shape), None, payload)
        _check_size(tensors[name], field)
    return tensors, is_typed


def _check_contents(request: SplitRequest) -> None:
    """Checks that the raw contents have one entry for each input, and that no input has elements as numbers.

    Raises:
        InvalidRequestError: the reason is INPUT_INVALID.
    """
    have, want = len(request.raw_contents), len(request.message.inputs)
    if have != want:
        text = f"raw_input_contents has {have} entries; it must have {want}, one for each input"
        raise InvalidRequestError.of(Reason.INPUT_INVALID, text, "raw_input_contents", have=have, want=want)
    for index, tensor in enumerate(request.message.inputs):
        if tensor.HasField("contents"):
            text = f"contents field must not be specified when using raw_input_contents; input '{tensor.name}' has one"
            raise InvalidRequestError.of(Reason.INPUT_INVALID, text, f"inputs[{index}].contents", index=index)


def _read_type(model: Model, tensor: InferTensor, field: str) -> DataType:
    """Returns the data type of an input.

    Raises:
        InvalidRequestError: DATA_TYPE_UNSUPPORTED, or SHAPE_DATA_TYPE_UNSUPPORTED for the requested shape.
    """
    data_type = decode_datatype(tensor.datatype, field)
    spec = next(spec for spec in model.inputs if spec.name == tensor.name)
    if data_type not in spec.data_types:
        admitted = format_names(spec.data_types)
        text = f"input '{tensor.name}' has datatype {tensor.datatype}; model '{model.name}' accepts {admitted}"
        reason = Reason.SHAPE_DATA_TYPE_UNSUPPORTED if tensor.name == SHAPE else Reason.DATA_TYPE_UNSUPPORTED
        raise InvalidRequestError.of(reason, text, field, value=tensor.datatype, admitted=admitted)
    return data_type


def _read_target_parameter(model: Model, named: Mapping[str, InferTensor], parameters: Mapping[str, Any]) -> str | None:
    """Returns the parameter with the requested shape, or None if the requested shape is an input."""
    text: str | None = _read_parameter(parameters, SHAPE, "string")
    if (SHAPE in named) == (text is not None):
        what = "neither" if text is None else "both"
        message = f"model '{model.name}' needs the requested shape as the input '{SHAPE}' or as a parameter '{SHAPE}'; "
        message += f"the request has {what}"
        reason = Reason.FIELD_MISSING if text is None else Reason.PARAMETER_INVALID
        raise InvalidRequestError.of(reason, message, SHAPE)
    return text


def _read_list(operation: Operation, tensor: TensorView, limits: Limits, field: str) -> Sequence[int]:
    if len(tensor.dims) != 1:
        message = f"{field}.shape is {format_value(tensor.dims)}; a list of dimensions must have rank 1"
        raise InvalidRequestError.of(Reason.SHAPE_RANK_INVALID, message, f"{field}.shape", rank=len(tensor.dims))
    if tensor.dims[0] > MAX_RANK:
        check_rank(operation, tensor.dims[0], field, limits)
    try:
        return read_items(operation, tensor, limits)
    except ReshapeError as error:
        raise _rename(error, "shape.dims", f"{field}.shape") from None


def _check_size(tensor: TensorView, field: str) -> None:
    """Checks the number of elements of an input. The reshape rules reject negative dims later."""
    if min(tensor.dims, default=0) < 0:
        return
    have, want, what = tensor.payload.nbytes, count_bytes(tensor.data_type, tensor.dims), "bytes"
    if have == want:
        return
    size = tensor.data_type.count_bytes(1)
    if not have % size:
        have, want, what = have // size, want // size, "elements"
    shape = f"{NAMES[tensor.data_type]} of the shape {format_value(tensor.dims)}"
    message = f"{field} has {have} {what}; {shape} has {format_value(want)}"
    raise InvalidRequestError.of(Reason.DATA_SIZE_MISMATCH, message, field, have=have, want=want)


def _rename(error: ReshapeError, old: str, new: str) -> ReshapeError:
    """Returns an error in which the name `new` of this protocol replaces the name `old` of ReshapeService."""
    message, field = error.message.replace(old, new), error.field.replace(old, new)
    return type(error)(message, reason=error.reason, field=field, metadata=error.metadata)


def _read_flag(tensor: TensorView | None, field: str, *, flag: bool | None) -> bool | None:
    """Returns `special_zero` from the input or the parameter. A request may have both if their values are equal."""
    if tensor is None:
        return flag
    if tensor.dims not in {(), (1,)}:
        text = f"input '{SPECIAL_ZERO}' has the shape {format_value(tensor.dims)}; it must have the shape [1]"
        raise InvalidRequestError.of(Reason.INPUT_INVALID, text, f"{field}.shape", value=tensor.dims)
    (value,) = tensor.payload
    if value > 1:
        text = f"input '{SPECIAL_ZERO}' is the byte {value}; it must be 0 (false) or 1 (true)"
        raise InvalidRequestError.of(Reason.INPUT_INVALID, text, field, value=value)
    if flag is not None and flag != value:
        text = f"the input '{SPECIAL_ZERO}' is {_BOOLS[value]}, but the parameter '{SPECIAL_ZERO}' is {_BOOLS[flag]}; "
        text += "send only one of them"
        raise InvalidRequestError.of(Reason.PARAMETER_INVALID, text, SPECIAL_ZERO)
    return bool(value)


def _parse_list(text: str) -> Sequence[int]:
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):  # `int` also raises ValueError for a number with too many digits
        items = None
    # The exact type is checked, because bool is a subclass of int.
    if not isinstance(items, list) or any(type(item) is not int for item in items):
        raise _reject_list(text, 'a list of integers, such as "[0,-1]"')
    if any(not _LEAST <= item < -_LEAST for item in items):
        raise _reject_list(text, "a list of numbers that fit into INT64")
    return items


def _reject_list(text: str, want: str) -> InvalidRequestError:
    message = f"parameters[{SHAPE}] is {clip_name(text)!r}; it must be {want}"
    return InvalidRequestError.of(Reason.PARAMETER_INVALID, message, f"parameters[{SHAPE}]", key=SHAPE, value=text)
