"""The table of models of the Open Inference Protocol, and the statistics of each model.

The server accepts all inputs that the metadata of a model describes. In the metadata, an input has only one datatype
and a fixed rank, but the server also accepts other datatypes and ranks. The field `properties` of the metadata
therefore lists what the other fields cannot express.

The gRPC method ModelStatistics returns the statistics.

- A request is counted once, for the model that it names, when its response or error is known. A request that does not
  name an existing model is not counted.
- The duration of a request begins when the request has been parsed, or when the search in the response cache begins.
  The duration ends when the response is complete, so it includes the time for copying the elements.
- Each worker process counts its own requests and reports only its own counts.
- Any thread may count requests and read the counts.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import NotFoundError, Reason
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, SHAPE_OPERATIONS, STATIC_RESHAPE, Operation
from tensor_reshape.server.oip.datatypes import NAMES, clip_name, format_names

VERSION = "1"
"""The only version of each model, which is also the default version."""

SPECIAL_ZERO, SHAPE, OPERATION = "special_zero", "shape", "operation"
"""The names of the parameters of a request. A request may also send the first two as inputs of the same names."""

INFER_SHAPE = "infer_shape"
"""The name of the model that infers shapes without moving elements."""

_ANY_SIZE = -1
"""The size of a dim in the metadata that may have any size."""

_TARGET_TYPES = frozenset({DataType.I32, DataType.I64})


class TensorSpec(NamedTuple):
    """An input or an output of a model.

    Attributes:
        name: the name of the input or output in requests.
        datatype: the datatype in the metadata.
        data_types: all data types that requests and responses may have.
        size: the size of the single dim that the input or output has in the metadata.
    """

    name: str
    datatype: str
    data_types: frozenset[DataType]
    size: int = _ANY_SIZE


_FLAG = TensorSpec(SPECIAL_ZERO, "BOOL", frozenset({DataType.BOOLEAN}), size=1)


# Like operations, models are compared by identity and not by their attributes. There is only one object for each model,
# and a hash of all attributes would fail because `parameters` is not hashable.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """A model offers an operation, or shape inference, to clients of the Open Inference Protocol.

    Attributes:
        name: the name of the model in requests.
        operation: the operation whose rules apply. A request of `infer_shape` may select another operation.
        first: the input that each request must have.
        target: the input with the requested shape. A request may use the parameter of the same name instead.
        output: the output.
        parameters: the names of the accepted parameters, each with its description.
    """

    name: str
    operation: Operation
    first: TensorSpec
    target: TensorSpec
    output: TensorSpec
    parameters: Mapping[str, str]

    @property
    def has_data(self) -> bool:
        """Whether requests of the model contain the elements of a tensor."""
        return self.name != INFER_SHAPE

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """All inputs.

        Only the first input is required, because parameters with the same names can replace the other inputs.
        """
        return self.first, self.target, _FLAG

    @property
    def properties(self) -> dict[str, str]:
        """The properties in the metadata.

        They describe what the lists of inputs and outputs in the metadata cannot express.
        """
        listed = {f"parameters.{name}": text for name, text in self.parameters.items()}
        for spec in self.inputs:
            listed[f"inputs.{spec.name}.datatypes"] = format_names(spec.data_types)
        for spec in self.inputs[1:]:
            listed[f"inputs.{spec.name}"] = f"optional; the parameter {spec.name} can be used instead"
        if self.has_data:
            limit = self.operation.max_rank
            listed["inputs.data.shape"] = "of any rank" if limit is None else f"of any rank up to {limit}"
            listed["outputs.output.datatype"] = "the datatype of the input data"
            listed["outputs.output.shape"] = "the requested shape with its 0 and -1 replaced"
        return listed


_PARAMETERS = {
    SPECIAL_ZERO: (
        "bool, used instead of the input special_zero; whether a 0 in the requested shape copies the dimension of the "
        "input data at its index"
    ),
    SHAPE: 'string, used instead of the input shape, for example "[0,-1]"',
}


def _build_reshape(operation: Operation) -> Model:
    datatype = "INT32" if operation.shape_data_types == {DataType.I32} else "INT64"
    return Model(
        name=operation.name,
        operation=operation,
        first=TensorSpec("data", "FP32", operation.data_types & NAMES.keys()),
        # The requested shape may have the data type I32 or I64, or any data type that the operation allows for its
        # shape tensor. An operation without a shape tensor therefore also accepts the requested shape as an input.
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
            parameters={**_PARAMETERS, OPERATION: f"string, one of {', '.join(SHAPE_OPERATIONS)}; default: {RESHAPE}"},
        ),
    )
}
"""All models by name."""


def find_model(name: str, version: str) -> Model:
    """Returns the model with this name and version. An empty version stands for the only version.

    Raises:
        NotFoundError: the reason is MODEL_UNKNOWN.
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


@dataclass(slots=True)
class Count:
    """The counts of one model.

    Attributes:
        successes: the number of successful requests.
        success_ns: the total duration of the successful requests in nanoseconds.
        failures: the number of failed requests.
        failure_ns: the total duration of the failed requests in nanoseconds.
        last_ms: the time of the last success, in milliseconds since the epoch.
    """

    successes: int = 0
    success_ns: int = 0
    failures: int = 0
    failure_ns: int = 0
    last_ms: int = 0


class Statistics:
    """The counts of all models."""

    def __init__(self) -> None:
        """Starts with all counts at zero."""
        self._lock = threading.Lock()  # this lock is held only while the counts are changed or read
        self._counts = {name: Count() for name in MODELS}

    def count(self, model: str, began_ns: int, *, is_success: bool = True) -> None:
        """Counts a request, which began at `began_ns` by `time.perf_counter_ns`."""
        now, took = time.time_ns() // 1_000_000, time.perf_counter_ns() - began_ns
        with self._lock:
            count = self._counts[model]
            if is_success:
                count.successes += 1
                count.success_ns += took
                count.last_ms = now
            else:
                count.failures += 1
                count.failure_ns += took

    def read(self, model: str) -> Count:
        """Returns the current counts of a model."""
        with self._lock:
            return replace(self._counts[model])
