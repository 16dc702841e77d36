"""Defines shape queries and their results, which may be partially known."""

from collections.abc import Sequence
from enum import Enum
from typing import Generic, NamedTuple, TypeAlias, TypeGuard, TypeVar

from tensor_reshape.rules.conditions import Condition
from tensor_reshape.rules.dims import AnyDim, are_known
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import Operation

Shape_co = TypeVar("Shape_co", bound="Sequence[AnyDim] | None", covariant=True)


class Kind(Enum):
    """The kind of an item of the requested shape, which determines the origin of an output dimension.

    >>> result = client.infer_shape((2, 3, 4), (0, -1), special_zero=True, explain=True)
    >>> [origin.kind.value for origin in result.origins]
    ['copied', 'inferred']
    """

    LITERAL = "literal"
    """The item is a number, which is the dimension itself."""

    COPIED = "copied"
    """The item is a 0 with `special_zero`, which copies the input dimension at the same index."""

    INFERRED = "inferred"
    """The item is -1. The dimension is computed from the number of elements and the other items."""

    LENGTH = "length"
    """The item is an interval, a symbol or an expression. Such an item is a dimension, even if its value is 0."""

    UNKNOWN = "unknown"
    """Nothing is known about the item, which may be a length, a copy, or the -1."""


# The classes below are tuples, because creating a frozen dataclass takes twice as long, and a batch creates thousands
# of these objects.
class Question(NamedTuple, Generic[Shape_co]):
    """A query: all the values that determine an output shape.

    Attributes:
        operation: the operation whose rules apply.
        data: the input dims. Numbers must be Python integers, because numpy's integers overflow. None means that not
            even the rank is known.
        target: the items of the requested shape. A 0 and a -1 have the special meanings of rule 2. None means that not
            even the length of the requested shape is known.
        special_zero: whether a 0 in the target copies a data dim. None means that the request has no value, which is an
            error.
        data_type: the type of the data. None means that the type is not checked.
        expected: the output dims that the caller expects, which may be partially known. None means that the output is
            not checked.
    """

    operation: Operation
    data: Shape_co
    target: Shape_co
    special_zero: bool | None
    data_type: DataType | None = None
    expected: Sequence[AnyDim] | None = None


KnownQuestion: TypeAlias = Question[Sequence[int]]
"""A query whose data and target are numbers. Each rule either accepts or rejects such a query."""

AnyQuestion: TypeAlias = Question[Sequence[AnyDim] | None]
"""A query that may be partially known. The query stands for all its instances, which are the known queries that match
it.
"""


def is_known(question: AnyQuestion) -> TypeGuard[KnownQuestion]:
    """Whether data and target consist only of numbers."""
    return are_known(question.data) and are_known(question.target)


class ShapeRequest(NamedTuple):
    """A query with its options.

    Attributes:
        question: the query.
        explain: whether a result contains the origins and the groups of its dims, and whether an error contains the
            values that would be accepted.
    """

    question: AnyQuestion
    explain: bool = False


class Origin(NamedTuple):
    """The origin of an output dimension.

    Attributes:
        kind: the kind of the item that determines the dimension.
        text: one sentence that explains the dimension to people.
        data_index: the index of the copied input dimension, if the dimension is a copy.
        dividend: the product that is divided, if the dimension is inferred.
        divisor: the product by which the dividend is divided, if the dimension is inferred.

    >>> result = client.infer_shape((2, 3, 4), (0, -1), special_zero=True, explain=True)
    >>> print(result.origins[1].text)
    shape[1] is -1: 24 / 2 = 12
    """

    kind: Kind
    text: str
    data_index: int | None = None
    dividend: str = ""
    divisor: str = ""


class DimGroup(NamedTuple):
    """Neighbouring input dimensions, and the output dimensions that they become.

    Attributes:
        data: the indices of the input dimensions. The range is empty if the input is a scalar.
        output: the indices of the output dimensions. The range is empty if the output is a scalar.

    >>> result = client.infer_shape(("b", "s", 768), (0, 0, 12, 64), special_zero=True, explain=True)
    >>> [(list(group.data), list(group.output)) for group in result.groups]
    [([0], [0]), ([1], [1]), ([2], [2, 3])]
    """

    data: range
    output: range


class ShapeAnswer(NamedTuple):
    """The result of a query. The dims contain the output of each instance that the rules accept.

    Attributes:
        dims: the output dims. None means that not even the rank is known.
        conditions: the conditions that every accepted instance satisfies.
        origins: the origin of each dim, if requested.
        conditions_complete: whether every instance that satisfies the conditions is accepted.
        groups: the groups of input dims, with the output dims that they become. They are listed if the origins were
            requested and both ranks are known.
    """

    dims: tuple[AnyDim, ...] | None
    conditions: tuple[Condition, ...] = ()
    origins: tuple[Origin, ...] = ()
    conditions_complete: bool = True
    groups: tuple[DimGroup, ...] = ()
