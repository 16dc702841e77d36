"""What both clients make of a response, without any I/O.

Laws:

- Whatever cannot be read, or is not what the rules give, is a `ResponseError`: it must not look like a refusal, which
  is the server's word on the request.
- Elements that end their response, as this project's server writes them, are not copied: the array is a view of it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar, overload

import numpy as np

from tensor_reshape.client.errors import ResponseError
from tensor_reshape.rules.dims import AnyDim, are_known, format_dim
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.questions import Equality, KnownQuestion, Origin, ShapeAnswer
from tensor_reshape.rules.records import Json, describe_answer
from tensor_reshape.rules.views import View
from tensor_reshape.wire import batches, inference, reshapes
from tensor_reshape.wire.arrays import Array, build_array
from tensor_reshape.wire.tensors import TensorView

Answer = TypeVar("Answer")

# Most calls are like one before but for the elements, so their responses begin with the same bytes: to compare these
# costs less than to read them, and to have them cached less than to encode them.
_encode_response_header = lru_cache(maxsize=1024)(reshapes.encode_response_header)


class InferredShape(Sequence[AnyDim]):
    """The output shape of an operation: a sequence of ints, and of dims that are not fully known.

    It equals a tuple of the same dims, and prints as people write shapes: `[N, 4*C, 2..8, ?]`.

    Attributes:
        dims: the dims; None: not even the rank is known.
        equalities: what else must hold between the symbols.
        origins: where each dim comes from, where `explain` was asked.
        view: whether the output can be a view of the data, where `data_strides` were given.
    """

    def __init__(self, answer: ShapeAnswer) -> None:
        """Shows an answer."""
        self.dims: tuple[AnyDim, ...] | None = answer.dims
        self.equalities: tuple[Equality, ...] = answer.equalities
        self.origins: tuple[Origin, ...] = answer.origins
        self.view: View | None = answer.view

    @property
    def known(self) -> tuple[int, ...]:
        """The shape as numbers.

        Raises:
            ValueError: it is not fully known.
        """
        if not are_known(self.dims):
            message = f"the shape {self} is not fully known"
            raise ValueError(message)
        return tuple(self.dims)

    def __len__(self) -> int:
        """The rank.

        Raises:
            ValueError: it is unknown.
        """
        return len(self._require_rank())

    @overload
    def __getitem__(self, where: int) -> AnyDim: ...
    @overload
    def __getitem__(self, where: slice) -> tuple[AnyDim, ...]: ...
    def __getitem__(self, where: int | slice) -> AnyDim | tuple[AnyDim, ...]:
        """The dim of an axis."""
        return self._require_rank()[where]

    def __iter__(self) -> Iterator[AnyDim]:
        """The dims, outermost first."""
        return iter(self._require_rank())

    def __eq__(self, other: object) -> bool:
        """Whether the dims are the same."""
        if isinstance(other, InferredShape):
            return self.dims == other.dims  # also where both ranks are unknown, which have no tuple
        return isinstance(other, tuple | list) and self.dims == tuple(other)

    def __hash__(self) -> int:
        """As the tuple of the dims."""
        return hash(self.dims)

    def __str__(self) -> str:
        """The shape as people write it."""
        return "[...]" if self.dims is None else f"[{', '.join(map(format_dim, self.dims))}]"

    def __repr__(self) -> str:
        """The shape as people write it, and what it is."""
        return f"InferredShape({self})"

    def to_json(self) -> Json:
        """Returns the answer as `json` writes it: `{"shape": [...]}`, None for an unknown rank.

        A dim is a number, None where nothing is known of it, else `{"min", "max", "name"}`: "max" is None where nothing
        bounds it, and "name" absent where it has none. "equalities", "origins" and "view" follow where there are any.
        """
        return describe_answer(ShapeAnswer(self.dims, self.equalities, self.origins, self.view))

    def _require_rank(self) -> tuple[AnyDim, ...]:
        if self.dims is None:
            message = "the rank of the shape is unknown"
            raise ValueError(message)
        return self.dims


def wrap_answers(answers: Iterable[ShapeAnswer | ReshapeError]) -> list[InferredShape | ReshapeError]:
    """Returns answers as shapes; refusals stay what they are."""
    return [answer if isinstance(answer, ReshapeError) else InferredShape(answer) for answer in answers]


def decode_answer(decode: Callable[[bytes], Answer], raw: bytes) -> Answer:
    """Reads a response with `decode`.

    Raises:
        ResponseError: it cannot be read: the refusal that `decode` raises is of the response, not of the request.
    """
    try:
        return decode(raw)
    except ReshapeError as error:
        message = f"the server's response cannot be read: {error}"
        raise ResponseError(message) from error


def decode_array(question: KnownQuestion, dims: Sequence[int], output_bytes: int, raw: bytes) -> Array:
    """Reads the response of an operation, whose output has `dims` by the rules, as a view of `raw`.

    Raises:
        ReshapeError: it is not a response of this contract.
        ResponseError: it is another tensor, or one that numpy cannot hold.
    """
    output = _read_output(question, dims, output_bytes, raw)
    try:
        return build_array(output)
    except ValueError:  # it has no elements, and dims whose product is beyond numpy's
        raise refuse_array(dims) from None


def decode_bytes(question: KnownQuestion, dims: Sequence[int], output_bytes: int, raw: bytes) -> Array:
    """Reads the same, and returns the bytes of the elements as they travel.

    Raises:
        ReshapeError: it is not a response of this contract.
        ResponseError: it is another tensor.
    """
    return np.frombuffer(_read_output(question, dims, output_bytes, raw).payload, np.uint8)


def decode_shape(raw: bytes) -> InferredShape:
    """Reads the response of InferShape.

    Raises:
        ReshapeError: it is not a response of this contract.
    """
    return InferredShape(inference.decode_infer_response(raw))


def decode_shapes(count: int, refused: Mapping[int, ReshapeError], raw: bytes) -> list[InferredShape | ReshapeError]:
    """Reads the response of BatchInferShape.

    Args:
        count: how many questions were sent.
        refused: those that could not be sent, by their index; what the server says of their placeholders is dropped.
        raw: the response.

    Raises:
        ReshapeError: it is not a response of this contract.
        ResponseError: it has more or fewer answers.
    """
    answers = batches.decode_batch_response(raw)
    # Answers have no names but their places: one too few, and each might be that of another question.
    if len(answers) != count:
        message = f"the server answered {len(answers)} of {count} questions"
        raise ResponseError(message)
    return wrap_answers(refused.get(index, answer) for index, answer in enumerate(answers))


def check_output(question: KnownQuestion, dims: Sequence[int], output: TensorView) -> TensorView:
    """Returns `output` where it has the type and the shape that the rules give.

    Raises:
        ResponseError: the server answered with another.
    """
    if tuple(output.dims) != tuple(dims) or output.data_type != question.data_type:
        message = f"the server answered {output.data_type}{list(output.dims)}; the rules give {list(dims)}"
        raise ResponseError(message)
    return output


def refuse_array(dims: Sequence[int]) -> ResponseError:
    """Builds the error for an output that is right, but nothing that numpy can hold."""
    return ResponseError(f"the output has the shape {list(dims)}, which numpy cannot hold")


def _read_output(question: KnownQuestion, dims: Sequence[int], output_bytes: int, raw: bytes) -> TensorView:
    """Reads a response; one that begins as this project's server writes it needs no parser."""
    data_type = question.data_type
    if data_type is not None:
        # The rules give type and shape, so the server's header is known before it comes: one comparison checks it all.
        header = _encode_response_header(data_type, dims, output_bytes)
        if len(raw) == len(header) + output_bytes and raw.startswith(header):
            return TensorView(data_type, dims, None, memoryview(raw)[len(header) :])
    return check_output(question, dims, reshapes.decode_reshape_response(raw))
