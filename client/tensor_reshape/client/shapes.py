"""Inferred shapes as the SDK returns them.

This module imports only the standard library, so that local inference needs neither an array library nor gRPC.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from tensor_reshape.rules.dims import AnyDim, are_known, format_dim
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.json_format import Json, describe_answer
from tensor_reshape.rules.questions import Equality, Origin, ShapeAnswer
from tensor_reshape.rules.views import View


class InferredShape(Sequence[AnyDim]):
    """The output shape of an operation: a sequence of ints and of partially known dimensions.

    It is equal to a tuple of the same dimensions, and prints in the usual notation: `[N, 4*C, 2..8, ?]`.

    Attributes:
        dims: the dimensions. None: not even the rank is known.
        equalities: equalities between symbols that must hold in addition.
        origins: where each dimension comes from, if `explain` was set.
        view: whether the output can be a view of the data, if `data_strides` was given.

    >>> shape = client.infer_shape(["N", 3, 4], [0, -1], special_zero=True)
    >>> print(shape, len(shape), shape[1])
    [N, 12] 2 12
    """

    def __init__(self, answer: ShapeAnswer) -> None:
        """Wraps an answer of the rules."""
        self.dims: tuple[AnyDim, ...] | None = answer.dims
        self.equalities: tuple[Equality, ...] = answer.equalities
        self.origins: tuple[Origin, ...] = answer.origins
        self.view: View | None = answer.view

    @property
    def known(self) -> tuple[int, ...]:
        """The shape as integers.

        Raises:
            ValueError: the shape is not fully known.

        >>> client.infer_shape((2, 3), (-1,), special_zero=False).known
        (6,)
        """
        if not are_known(self.dims):
            message = f"the shape {self} is not fully known"
            raise ValueError(message)
        return tuple(self.dims)

    def __len__(self) -> int:
        """The rank.

        Raises:
            ValueError: the rank is unknown.
        """
        return len(self._require_rank())

    @overload
    def __getitem__(self, where: int) -> AnyDim: ...
    @overload
    def __getitem__(self, where: slice) -> tuple[AnyDim, ...]: ...
    def __getitem__(self, where: int | slice) -> AnyDim | tuple[AnyDim, ...]:
        """The dimension of an axis, or a tuple of dimensions for a slice."""
        return self._require_rank()[where]

    def __iter__(self) -> Iterator[AnyDim]:
        """The dimensions, outermost first."""
        return iter(self._require_rank())

    def __eq__(self, other: object) -> bool:
        """Whether the dimensions are equal."""
        if isinstance(other, InferredShape):
            return self.dims == other.dims  # also true if both ranks are unknown and `dims` is None
        return isinstance(other, tuple | list) and self.dims == tuple(other)

    def __hash__(self) -> int:
        """The hash of the tuple of dimensions."""
        return hash(self.dims)

    def __str__(self) -> str:
        """The shape in the usual notation."""
        return "[...]" if self.dims is None else f"[{', '.join(map(format_dim, self.dims))}]"

    def __repr__(self) -> str:
        """The shape in the usual notation, with the class name."""
        return f"InferredShape({self})"

    def to_json(self) -> Json:
        """Returns the result in the form that `json` writes: `{"shape": [...]}`, or None for an unknown rank.

        A dimension is a number, None if nothing is known about it, or `{"min", "max", "name"}`. "max" is None if there
        is no upper bound, and "name" is absent if the dimension has no name. "equalities", "origins" and "view" follow
        if there are any.

        >>> client.infer_shape([2, (1, 8), None], [0, 0, 4], special_zero=True).to_json()
        {'shape': [2, {'min': 1, 'max': 8}, 4]}
        """
        return describe_answer(ShapeAnswer(self.dims, self.equalities, self.origins, self.view))

    def _require_rank(self) -> tuple[AnyDim, ...]:
        if self.dims is None:
            message = "the rank of the shape is unknown"
            raise ValueError(message)
        return self.dims


def wrap_answers(answers: Iterable[ShapeAnswer | ReshapeError]) -> list[InferredShape | ReshapeError]:
    """Returns results as `InferredShape` objects, and errors unchanged."""
    return [answer if isinstance(answer, ReshapeError) else InferredShape(answer) for answer in answers]
