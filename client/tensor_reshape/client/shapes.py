"""The class of the inferred shapes that the SDK returns.

Only `to_json` imports protobuf, and only `to_svg` imports the module that draws. Local inference needs neither an array
library nor gRPC.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import index
from typing import Any, overload

from tensor_reshape.rules.conditions import Condition, list_declared
from tensor_reshape.rules.dims import AnyDim, Interval, are_known, format_dim
from tensor_reshape.rules.questions import AnyQuestion, DimGroup, Origin, ShapeAnswer


class InferredShape(Sequence[AnyDim]):
    """The output shape of an operation: a sequence of ints and of partially known dimensions.

    An `InferredShape` equals a tuple of the same dimensions, and prints in the usual notation: `[N, 4*C, 2..8, ?]`.

    Attributes:
        dims: the dimensions, or None if not even the rank is known.
        conditions: the conditions that the inputs must satisfy, in addition to their declared bounds.
        conditions_complete: whether all inputs that satisfy the conditions are accepted.
        origins: where each dimension comes from, if `explain` was set.
        groups: which input dimensions become which output dimensions, if `explain` was set.

    >>> shape = client.infer_shape(["N", 3, 4], [0, -1], special_zero=True)
    >>> print(shape, len(shape), shape[1])
    [N, 12] 2 12
    """

    def __init__(self, answer: ShapeAnswer, question: AnyQuestion | None = None) -> None:
        """Wraps the answer that the rules give to a shape query.

        Args:
            answer: the answer.
            question: the query that was answered. Without the query, only dimensions in the conditions have declared
                bounds, and the shape cannot be drawn.
        """
        self.dims: tuple[AnyDim, ...] | None = answer.dims
        self.conditions: tuple[Condition, ...] = answer.conditions
        self.conditions_complete: bool = answer.conditions_complete
        self.origins: tuple[Origin, ...] = answer.origins
        self.groups: tuple[DimGroup, ...] = answer.groups
        self._answer, self._question = answer, question

    @property
    def known(self) -> tuple[int, ...]:
        """The shape as integers.

        Raises:
            ValueError: the shape is not fully known.

        >>> client.infer_shape((2, 3), (-1,), special_zero=False).known
        (6,)
        """
        if not are_known(self.dims):
            raise ValueError(f"the shape {self} is not fully known")
        return tuple(self.dims)

    def find_violations(self, values: Mapping[str, int]) -> list[Condition]:
        """Returns the conditions that the given sizes of dimensions violate.

        A condition is skipped if one of its dimensions has no value.

        Args:
            values: maps the names of dimensions to their sizes. A dimension without a name is identified by its
                position, such as `data[0]`.

        Raises:
            ValueError: the query has no dimension of this name, or the value is outside the declared bounds of the
                dimension.

        >>> shape = client.infer_shape(["batch", "h:1..9"], [4, -1], special_zero=False)
        >>> print(*shape.find_violations({"batch": 3, "h": 6}))
        4 divides batch*h
        >>> shape.find_violations({"batch": 2, "h": 8})
        []
        """
        question = self._question
        if question is None:
            symbols = [symbol for condition in self.conditions for symbol in condition.list_symbols()]
            declared: Mapping[str, Interval] = {symbol.name: symbol.bounds for symbol in symbols}
        else:
            declared = list_declared(question.data, question.target, question.expected)
        sizes = {name: index(value) for name, value in values.items()}
        for name, size in sizes.items():
            bounds = declared.get(name)
            if bounds is None:
                known = ", ".join(declared) or "only numbers"
                raise ValueError(f"the query has no dimension {name!r}; it has {known}")
            if not bounds.holds(size):
                high = "" if bounds.max is None else bounds.max
                raise ValueError(f"{name} is {size}; the query declares {bounds.min}..{high}")
        bound = [condition for condition in self.conditions if condition.symbols <= sizes.keys()]
        return [condition for condition in bound if not condition.holds(sizes)]

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
            return self.dims == other.dims  # the shapes are also equal if both ranks are unknown and `dims` is None
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

    def to_json(self) -> dict[str, Any]:
        """Returns the result in the JSON form of the API, which is protobuf's JSON mapping of InferShapeResponse.

        The numbers of the result are JSON numbers, although the mapping writes 64-bit numbers as text. If the key
        "shape" is missing, the rank is unknown. In "dims", a -1 stands for a dimension that is not a known number, and
        "partial" describes this dimension. The key "conditionsComplete" is always present.

        >>> client.infer_shape([2, (1, 8), None], [0, 0, 4], special_zero=True).to_json()["shape"]
        {'dims': [2, -1, 4], 'partial': [{'index': 1, 'interval': {'min': 1, 'max': 8}}]}
        """
        from tensor_reshape.wire.inference import build_infer_response  # noqa: PLC0415 - protobuf, see the module
        from tensor_reshape.wire.json_messages import describe_message  # noqa: PLC0415

        record = describe_message(build_infer_response(self._answer))
        return {**record, "conditionsComplete": self.conditions_complete}

    def to_svg(self) -> str | None:
        """Returns the query and the shape as a drawing (SVG). Notebooks call this method.

        Lines lead from the dimensions of the input shape to those of the output shape. The drawing does not depend on
        `explain`, because this process finds the origins and the groups by the same rules as a server. The returned
        text can be saved as an SVG file.

        Returns:
            The drawing, or None if the shape was created without its query.

        >>> drawing = client.infer_shape(["N", 3, 4], [0, -1], special_zero=True).to_svg()
        >>> drawing.splitlines()[-1]
        '</svg>'
        """
        if self._question is None:
            return None
        from tensor_reshape.drawings.svg import draw_answer  # noqa: PLC0415 - few programs draw

        return draw_answer(self._question, self._answer, is_standalone=True)

    _repr_svg_ = to_svg

    def _require_rank(self) -> tuple[AnyDim, ...]:
        if self.dims is None:
            raise ValueError("the rank of the shape is unknown")
        return self.dims
