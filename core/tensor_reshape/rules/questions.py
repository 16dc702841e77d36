"""Questions about shapes, and their answers: one type each, for what is known whole and for what is known in part."""

from collections.abc import Sequence
from enum import Enum
from typing import Generic, NamedTuple, TypeAlias, TypeGuard, TypeVar

from tensor_reshape.rules.dims import AnyDim, Expression, are_known
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import Operation
from tensor_reshape.rules.views import View

Shape_co = TypeVar("Shape_co", bound="Sequence[AnyDim] | None", covariant=True)


class Kind(Enum):
    """What an item of a target is, and so where a dim of the output comes from.

    >>> told = client.infer_shape((2, 3, 4), (0, -1), special_zero=True, explain=True)
    >>> [origin.kind.value for origin in told.origins]
    ['copied', 'inferred']
    """

    LITERAL = "literal"
    """A number: the dim itself."""

    COPIED = "copied"
    """A 0 under `special_zero`: the data dim at the same index."""

    INFERRED = "inferred"
    """The -1: what the other items leave of the volume."""

    LENGTH = "length"
    """An interval, a symbol or an expression: a dim, and never an instruction, whatever its value is."""

    UNKNOWN = "unknown"
    """Nothing is known of it: it may be a length, a copy, or the -1."""


# Tuples, these and those below: a frozen dataclass takes twice as long to make, and a batch makes thousands.
class Question(NamedTuple, Generic[Shape_co]):
    """What decides an output shape: everything of a request but the elements.

    Attributes:
        operation: whose rules answer.
        data: the data's dims, Python integers where they are numbers (numpy's wrap); None: not even the rank is known.
        target: the target's items, where an int below 1 is an instruction, as in the operations; None: nothing is known
            of it, not even its length.
        special_zero: whether a 0 in the target copies; None where the request does not say, which is an error.
        data_type: of the data; None where it is not to be checked.
        expected: the output dims that the caller counts on, known in part; None: nothing is declared.
    """

    operation: Operation
    data: Shape_co
    target: Shape_co
    special_zero: bool | None
    data_type: DataType | None = None
    expected: Sequence[AnyDim] | None = None


KnownQuestion: TypeAlias = Question[Sequence[int]]
"""A question whose data and target are numbers throughout: each of the rules decides it exactly."""

AnyQuestion: TypeAlias = Question[Sequence[AnyDim] | None]
"""A question that may be known in part. It stands for all its instances: each data and target that it admits."""


def is_known(question: AnyQuestion) -> TypeGuard[KnownQuestion]:
    """Whether data and target are numbers throughout."""
    return are_known(question.data) and are_known(question.target)


class ShapeRequest(NamedTuple):
    """A question, and what else is to be told with its answer.

    Attributes:
        question: what is asked.
        explain: whether the answer says where its dims come from, and a refusal what would have been accepted.
        strides: of the data, in elements, where it is asked whether the output can be a view; else None.
    """

    question: AnyQuestion
    explain: bool = False
    strides: Sequence[int] | None = None


class Equality(NamedTuple):
    """Two expressions that the answer shows to be the same dim, or the same product of dims.

    Attributes:
        left: of the data.
        right: of the output.
        unless_empty: whether it holds only where the tensor has elements.

    >>> told = client.infer_shape(["N", 4], ["M", 2], special_zero=False)
    >>> print(told, *told.equalities)
    [M, 2] 2*N = M
    """

    left: Expression
    right: Expression
    unless_empty: bool

    def __str__(self) -> str:
        """The equality as a sentence: `2*N = M`, or `N = M unless the tensor is empty`."""
        condition = " unless the tensor is empty" if self.unless_empty else ""
        return f"{self.left} = {self.right}{condition}"


class Origin(NamedTuple):
    """Where a dim of the output comes from.

    Attributes:
        kind: what its item in the target is.
        text: one sentence for people.
        data_index: of a copy: which dim of the data.
        dividend: of an inferred dim: the product that is divided.
        divisor: of an inferred dim: what it is divided by.

    >>> told = client.infer_shape((2, 3, 4), (0, -1), special_zero=True, explain=True)
    >>> print(told.origins[1].text)
    shape[1] is -1: 24 / 2 = 12
    """

    kind: Kind
    text: str
    data_index: int | None = None
    dividend: str = ""
    divisor: str = ""


class ShapeAnswer(NamedTuple):
    """An answer. It holds the output of each instance of the question that the rules accept.

    Attributes:
        dims: the output's; None: not even the rank is known.
        equalities: what else must hold between the symbols.
        origins: where each dim comes from, where that was asked.
        view: whether the output can be a view, where that was asked.
    """

    dims: tuple[AnyDim, ...] | None
    equalities: tuple[Equality, ...] = ()
    origins: tuple[Origin, ...] = ()
    view: View | None = None
