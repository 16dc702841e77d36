"""Lists the operations, with the properties in which they differ.

`OPERATIONS` contains the three operations that the service executes. `SHAPE_OPERATIONS` also contains the operations
for which the service only infers shapes.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tensor_reshape.rules.dtypes import GRAPH_FLOATS, INTEGERS, NOT_IN_ONNX, DataType, format_data_types
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import GRAPH_MAX_RANK, Limits

OperationName: TypeAlias = Literal["static_reshape", "dynamic_reshape", "reshape", "onnx_reshape"]
"""The name of an operation of a shape query.

At run time, the SDK also accepts other spellings, such as "Reshape-1".

>>> client.infer_shape((0, 4), (-1, 0), special_zero=True, operation="reshape")
InferredShape([0, 4])
"""


# Operations are compared by identity (`eq=False`). Operations are parts of cache keys, and hashing all their fields
# would slow down each cache lookup.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operation:
    """The properties of an operation. All operations are defined in this module.

    Attributes:
        name: the name in the SDK and on the command line.
        data_types: the element types that the data may have.
        shape_data_types: the element types that the shape tensor may have; empty if the requested shape is an
            attribute.
        max_rank: the largest rank of data and target; None if the server's limit applies.
        copies_cancel: whether the copied dims are removed from both volumes before the -1 is computed.
    """

    name: OperationName
    data_types: frozenset[DataType]
    shape_data_types: frozenset[DataType]
    max_rank: int | None
    copies_cancel: bool

    def __str__(self) -> str:
        """The name of the operation."""
        return self.name

    def __reduce__(self) -> str:
        """Lets pickle and copy return this same object, because operations are compared by identity."""
        return self.name.upper()


STATIC_RESHAPE = Operation(
    name="static_reshape",
    data_types=GRAPH_FLOATS,
    shape_data_types=frozenset(),
    max_rank=GRAPH_MAX_RANK,
    copies_cancel=False,
)
"""The operation StaticReshape-1 of the oneDNN Graph specification."""

DYNAMIC_RESHAPE = Operation(
    name="dynamic_reshape",
    data_types=GRAPH_FLOATS,
    shape_data_types=frozenset({DataType.I32}),
    max_rank=GRAPH_MAX_RANK,
    copies_cancel=False,
)
"""The operation DynamicReshape-1 of the oneAPI Graph specification."""

RESHAPE = Operation(
    name="reshape",
    data_types=frozenset(DataType),
    shape_data_types=INTEGERS,
    max_rank=None,
    copies_cancel=True,
)
"""The operation Reshape-1 of OpenVINO's operation set 1."""

ONNX_RESHAPE = Operation(
    name="onnx_reshape",
    data_types=frozenset(DataType) - NOT_IN_ONNX,
    shape_data_types=frozenset({DataType.I64}),
    max_rank=None,
    copies_cancel=False,
)
"""The operator Reshape of ONNX, opsets 5 to 25, for shape inference only.

`special_zero` is the opposite of its attribute `allowzero`. ONNX divides the number of elements by all other dims, so a
copied dim of 0 makes a -1 impossible.
"""

OPERATIONS: dict[str, Operation] = {
    operation.name: operation for operation in (STATIC_RESHAPE, DYNAMIC_RESHAPE, RESHAPE)
}
"""The operations that the service executes, by name."""

SHAPE_OPERATIONS: dict[str, Operation] = {**OPERATIONS, ONNX_RESHAPE.name: ONNX_RESHAPE}
"""The operations of shape queries, by name."""

_BY_LETTERS = {name.replace("_", ""): operation for name, operation in SHAPE_OPERATIONS.items()}


def find_operation(name: str) -> Operation | None:
    """Returns the operation that has this name in any usual spelling: "reshape", "Reshape-1" or "STATIC_RESHAPE"."""
    operation = SHAPE_OPERATIONS.get(name)
    if operation is not None:
        return operation
    plain = name.lower().removeprefix("operation_").removesuffix("-1").replace("_", "").replace("-", "")
    return _BY_LETTERS.get(plain)


def check_data_type(operation: Operation, data_type: DataType) -> DataType:
    """Returns `data_type` if the operation accepts this type for the data.

    Raises:
        InvalidRequestError: the reason is DATA_TYPE_UNSUPPORTED.
    """
    if data_type not in operation.data_types:
        elsewhere = "every type" if data_type in RESHAPE.data_types else ""
        raise _reject_type(Reason.DATA_TYPE_UNSUPPORTED, "data", operation, data_type, elsewhere)
    return data_type


def check_shape_data_type(operation: Operation, data_type: DataType) -> DataType:
    """Returns `data_type` if the operation accepts this type for the shape tensor.

    Raises:
        InvalidRequestError: the reason is SHAPE_DATA_TYPE_UNSUPPORTED.
    """
    if data_type not in operation.shape_data_types:
        elsewhere = "every integer type" if data_type in RESHAPE.shape_data_types else ""
        raise _reject_type(Reason.SHAPE_DATA_TYPE_UNSUPPORTED, "shape", operation, data_type, elsewhere)
    return data_type


def _reject_type(
    reason: Reason, part: str, operation: Operation, data_type: DataType, elsewhere: str
) -> InvalidRequestError:
    """Returns the error of an unsupported type. `elsewhere` describes the types that Reshape-1 takes, or is empty."""
    admitted = format_data_types(operation.data_types if part == "data" else operation.shape_data_types)
    hint = f"; {RESHAPE.name} takes {elsewhere}" if elsewhere and operation is not RESHAPE else ""
    message = f"{part} has the type {data_type}; {operation.name} takes {admitted}{hint}"
    return InvalidRequestError.of(reason, message, f"{part}.data_type", data_type=data_type, admitted=admitted)


def check_rank(operation: Operation, rank: int, field: str, limits: Limits) -> int:
    """Returns `rank` if it is within the limit of the operation, or of the server if the operation has no limit.

    Raises:
        InvalidRequestError: the reason is RANK_UNSUPPORTED if the rank exceeds the limit of the specification.
        LimitError: the reason is RANK_LIMIT_EXCEEDED if the rank exceeds the server's limit.
    """
    if operation.max_rank is None:
        if rank > limits.max_rank:
            message = f"{field} has {rank} items; this server takes up to {limits.max_rank}"
            raise LimitError.of(Reason.RANK_LIMIT_EXCEEDED, message, field, rank=rank, limit=limits.max_rank)
    elif rank > operation.max_rank:
        message = f"{field} has {rank} items; {operation.name} takes up to {operation.max_rank}"
        raise InvalidRequestError.of(Reason.RANK_UNSUPPORTED, message, field, rank=rank, limit=operation.max_rank)
    return rank
