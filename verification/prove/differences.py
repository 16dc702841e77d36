"""The intended differences from OpenVINO, and how each is recognized; `docs/concepts/differences.md` explains them."""

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import NamedTuple

from tensor_reshape.rules.dims import AnyDim, Dim, Interval, are_known, find_bounds, format_dims
from tensor_reshape.rules.errors import Reason, ReshapeError
from tensor_reshape.rules.inference import infer
from tensor_reshape.rules.questions import AnyQuestion

_EXACT = 2**53
"""Every integer up to this number is exact as a double."""


class Answer(NamedTuple):
    """An answer about an output.

    Attributes:
        dims: the range of each dimension; None if the rank is unknown or the query is rejected.
        rejection: why there is no output; None if there is one.
    """

    dims: tuple[Interval, ...] | None
    rejection: str | None = None

    def holds(self, output: tuple[int, ...]) -> bool:
        """Returns whether the answer admits a concrete output."""
        if self.dims is None:
            return self.rejection is None
        return len(self.dims) == len(output) and all(map(Interval.holds, self.dims, output))

    def is_within(self, other: "Answer") -> bool:
        """Returns whether the other answer admits each output that this answer admits."""
        if self.rejection or other.rejection or other.dims is None:
            return self.rejection == other.rejection
        if self.dims is None or len(self.dims) != len(other.dims):
            return False
        return all(have.meet(want) == have for have, want in zip(self.dims, other.dims, strict=True))

    def __str__(self) -> str:
        dims = None if self.dims is None else list(map(Dim, self.dims))
        return f"rejected, {self.rejection}" if self.rejection else format_dims(dims)


def infer_ours(question: AnyQuestion) -> Answer:
    """Returns the answer of this project."""
    try:
        dims = infer(question).dims
    except ReshapeError as error:
        return Answer(None, error.reason)
    return Answer(None if dims is None else tuple(map(find_bounds, dims)))


class Comparison(NamedTuple):
    """The answers of this project and of OpenVINO to a query, and outputs of its instances that the rules accept."""

    question: AnyQuestion
    ours: Answer
    theirs: Answer
    outputs: Collection[tuple[int, ...]]

    @property
    def is_known(self) -> bool:
        """Whether all parts of the query are known."""
        return are_known(self.question.data) and are_known(self.question.target)

    @property
    def is_rejected_only_by_us(self) -> bool:
        """Whether OpenVINO returns a shape, this project rejects the query, and no instance has an output."""
        return self.ours.rejection is not None and self.theirs.rejection is None and not self.outputs

    def list_outside(self, answer: Answer) -> list[tuple[int, ...]]:
        """Returns the outputs that an answer does not admit; the answer is unsound if there is one."""
        return [output for output in self.outputs if not answer.holds(output)]


def _is_zero_with_minus_one(one: Comparison) -> bool:
    """Returns whether a literal 0 is next to a -1, and OpenVINO gives the -1 a value."""
    target = one.question.target or ()
    literal = 0 in target and -1 in target and not one.question.special_zero
    return literal and one.is_rejected_only_by_us and one.ours.rejection == Reason.MINUS_ONE_WITH_ZERO_VOLUME


def _is_large(one: Comparison) -> bool:
    """Returns whether a product exceeds a double or an int64; this project answers each instance exactly."""
    products = (_multiply_highs(one.question.data or ()), _multiply_highs(one.question.target or ()))
    if max(products) <= _EXACT or one.list_outside(one.ours):
        return False
    return one.is_rejected_only_by_us or bool(one.list_outside(one.theirs))


def _multiply_highs(dims: Sequence[AnyDim]) -> int:
    return prod(
        max(1, abs(dim) if isinstance(dim, int) else max(bound or 0 for bound in find_bounds(dim))) for dim in dims
    )


def _is_volume_of_copies(one: Comparison) -> bool:
    """Returns whether the volume differs from that of the data, which OpenVINO does not check if a 0 copies."""
    target = one.question.target or ()
    copied = 0 in target and -1 not in target and bool(one.question.special_zero)
    return copied and one.is_rejected_only_by_us and one.ours.rejection == Reason.VOLUME_MISMATCH


def _is_minus_one_of_any_rank(one: Comparison) -> bool:
    """Returns whether OpenVINO assumes a -1 of at least 1 if the rank is unknown, although the data may be empty."""
    target = list(one.question.target or ())
    if one.question.data is not None or one.theirs.dims is None or -1 not in target:
        return False
    at = target.index(-1)
    return one.theirs.dims[at].min == 1 and any(output[at] == 0 for output in one.list_outside(one.theirs))


REASONS: dict[str, Callable[[Comparison], bool]] = {
    "rank above the limit": lambda one: one.ours.rejection == Reason.RANK_LIMIT_EXCEEDED,
    "literal 0 with -1": _is_zero_with_minus_one,
    "product above 2^53": _is_large,
    "number of elements unchecked next to a copy": _is_volume_of_copies,
    "empty interval": lambda one: one.is_rejected_only_by_us and any(dim.is_empty for dim in one.theirs.dims or ()),
    "-1 of unknown rank at least 1": _is_minus_one_of_any_rank,
    # Any other interval of OpenVINO that lacks the output of an instance.
    "unsound interval": lambda one: (
        one.theirs.rejection is None and not one.is_known and bool(one.list_outside(one.theirs))
    ),
    # A partial query for which OpenVINO returns a shape although no instance has an output.
    "shape without an instance": lambda one: not one.is_known and one.is_rejected_only_by_us,
}
"""The differences by the name in the table of the page, in the order in which they are tried."""

SAME, TIGHTER, UNSOUND, UNEXPLAINED = "equal", "tighter", "OURS LACKS AN OUTPUT", "NOT EXPLAINED"


def judge(one: Comparison) -> str:
    """Returns how our answer compares with OpenVINO's: a name of `REASONS`, or one of the four constants."""
    ours, theirs = one.ours, one.theirs
    if ours.rejection != Reason.RANK_LIMIT_EXCEEDED and one.list_outside(ours):
        return UNSOUND
    if ours.dims == theirs.dims and (ours.rejection is None) == (theirs.rejection is None):
        return SAME
    if ours.rejection is None and theirs.rejection is None and ours.is_within(theirs):
        return TIGHTER
    return next((name for name, explains in REASONS.items() if explains(one)), UNEXPLAINED)
