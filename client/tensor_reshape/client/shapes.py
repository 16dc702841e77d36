"""Answers to questions about shapes, as callers get them.

Law: the standard library alone: whoever asks in this process need not wait for an array library, or for gRPC.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from tensor_reshape.rules.dims import AnyDim, are_known, format_dim
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.questions import Equality, Origin, ShapeAnswer
from tensor_reshape.rules.records import Json, describe_answer
from tensor_reshape.rules.views import View


class InferredShape(Sequence[AnyDim]):
    """The output shape of an operation: a sequence of ints, and of dims that are not fully known.

    It equals a tuple of the same dims, and prints as people write shapes: `[N, 4*C, 2..8, ?]`.

    Attributes:
        dims: the dims; None: not even the rank is known.
        equalities: what else must hold between the symbols.
        origins: where each dim comes from, where `explain` was asked.
        view: whether the output can be a view of the data, where `data_strides` were given.

    >>> shape = client.infer_shape(["N", 3, 4], [0, -1], special_zero=True)
    >>> print(shape, len(shape), shape[1])
    [N, 12] 2 12
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
    """Returns answers as shapes; refusals stay what they are."""
    return [answer if isinstance(answer, ReshapeError) else InferredShape(answer) for answer in answers]
