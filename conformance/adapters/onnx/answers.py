"""What an inferred model and a rejection say, as answers to the kit."""

import re
from collections.abc import Callable

from onnx import ModelProto, TensorShapeProto

from conformance.adapters.questions import Dim, Json, Question, Unknown, write_answer


def read_shape(inferred: ModelProto, read_name: Callable[[str], str | None]) -> Json:
    """Returns what a model says of its output, of whose names `read_name` returns those that mean something."""
    tensor = inferred.graph.output[0].type.tensor_type
    if not tensor.HasField("shape"):
        return write_answer(None)
    return write_answer(_read_dim(dim, read_name) for dim in tensor.shape.dim)


def _read_dim(dim: TensorShapeProto.Dimension, read_name: Callable[[str], str | None]) -> Dim:
    return int(dim.dim_value) if dim.HasField("dim_value") else Unknown(name=read_name(dim.dim_param))


def list_names(question: Question) -> list[str]:
    """Returns the names of a question's dims: any other that is answered was made up."""
    dims = (*(question.data or ()), *(question.shape or ()))
    return [dim.name for dim in dims if isinstance(dim, Unknown) and dim.name is not None]


def find_reason(message: str) -> str:
    """Returns the end of a message that begins with where it comes from."""
    return re.split(r"\[ShapeInferenceError\] |was false\. | bool\) ", message)[-1].strip()
