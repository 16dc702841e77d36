"""The table of models, which the parser of requests and the metadata use.

Invariant: requests may use everything that the metadata name. `properties` list what else is accepted, because the
protocol has only one datatype for an input and cannot express an unknown rank.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import NotFoundError, Reason
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, OPERATIONS, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.server.oip.datatypes import NAMES, clip_name, format_names

VERSION = "1"
"""The only version of each model, which is also the default."""

SPECIAL_ZERO, SHAPE, OPERATION = "special_zero", "shape", "operation"
"""The parameters of a request. `SHAPE` is also the name of the input that holds the target instead."""

INFER_SHAPE = "infer_shape"
"""The model that infers shapes without moving elements."""

_TARGET_TYPES = frozenset({DataType.I32, DataType.I64})


class TensorSpec(NamedTuple):
    """An input or an output.

    Attributes:
        name: the name in requests.
        datatype: the datatype in the metadata.
        data_types: all accepted data types.
    """

    name: str
    datatype: str
    data_types: frozenset[DataType]


# Compared by identity, like operations, because each is one row of a table and has a mapping, which cannot be hashed.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """A model.

    Attributes:
        name: the name in requests.
        operation: the operation whose rules apply; for `infer_shape`, the default.
        first: the input that each request has.
        target: the input with the requested shape. A request may have the parameter with this name instead.
        output: the output.
        parameters: the accepted parameters with their descriptions.
    """

    name: str
    operation: Operation
    first: TensorSpec
    target: TensorSpec
    output: TensorSpec
    parameters: Mapping[str, str]

    @property
    def has_data(self) -> bool:
        """Whether the model moves elements."""
        return self.name != INFER_SHAPE

    @property
    def properties(self) -> dict[str, str]:
        """The properties in the metadata, in addition to inputs and outputs."""
        listed = {f"parameters.{name}": text for name, text in self.parameters.items()}
        for spec in (self.first, self.target):
            listed[f"inputs.{spec.name}.datatypes"] = format_names(spec.data_types)
        if self.has_data:
            listed["inputs.data.shape"] = f"of any rank{_format_limit(self.operation)}"
            listed["outputs.output.datatype"] = "that of data"
            listed["outputs.output.shape"] = "the target, resolved"
        listed[f"inputs.{SHAPE}"] = f"optional: the parameter {SHAPE} may stand for it"
        return listed


_PARAMETERS = {
    SPECIAL_ZERO: "bool, required: whether a 0 in the target copies the data's dim",
    SHAPE: 'string, in place of the input of that name: "[0,-1]"',
}


def _build_reshape(operation: Operation) -> Model:
    datatype = "INT32" if operation.shape_data_types == {DataType.I32} else "INT64"
    return Model(
        name=operation.name,
        operation=operation,
        first=TensorSpec("data", "FP32", operation.data_types & NAMES.keys()),
        # More data types than the operation's shape tensor has, because clients use others, also for operations without
        # one.
        target=TensorSpec(SHAPE, datatype, operation.shape_data_types | _TARGET_TYPES),
        output=TensorSpec("output", "FP32", operation.data_types & NAMES.keys()),
        parameters=_PARAMETERS,
    )


MODELS = {
    model.name: model
    for model in (
        *map(_build_reshape, (STATIC_RESHAPE, DYNAMIC_RESHAPE, RESHAPE)),
        Model(
            name=INFER_SHAPE,
            operation=RESHAPE,
            first=TensorSpec("data_shape", "INT64", _TARGET_TYPES),
            target=TensorSpec(SHAPE, "INT64", _TARGET_TYPES),
            output=TensorSpec(SHAPE, "INT64", frozenset({DataType.I64})),
            parameters={**_PARAMETERS, OPERATION: f"string, one of {', '.join(OPERATIONS)}; without it: {RESHAPE}"},
        ),
    )
}
"""The models, by name."""


def find_model(name: str, version: str) -> Model:
    """Returns the model with a name, and with a version if the request has one.

    Raises:
        NotFoundError: MODEL_UNKNOWN.
    """
    model = MODELS.get(name)
    if model is None:
        message = f"Request for unknown model: '{clip_name(name)}' is not found; this server has {', '.join(MODELS)}"
        raise NotFoundError.of(Reason.MODEL_UNKNOWN, message, "model_name", value=name)
    if version not in {"", VERSION}:
        message = (
            f"Request for unknown model: '{name}' version '{clip_name(version)}' is not found; it has version {VERSION}"
        )
        raise NotFoundError.of(Reason.MODEL_UNKNOWN, message, "model_version", value=version)
    return model


def _format_limit(operation: Operation) -> str:
    return "" if operation.max_rank is None else f" up to {operation.max_rank}"
