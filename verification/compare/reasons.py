"""The differences from OpenVINO that are meant, and how each is told; `docs/concepts/differences.md` explains them."""

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from tensor_reshape.rules.dims import AnyDim, are_known, find_bounds
from tensor_reshape.rules.errors import Reason
from tensor_reshape.rules.questions import AnyQuestion
from tests.oracles.shape_instances import Dims
from verification.compare.answers import Answer

_EXACT = 2**53
"""Up to here every integer is a double."""


class Comparison(NamedTuple):
    """Two answers to a question, and what becomes of concrete instances of it.

    Attributes:
        question: what was asked.
        ours: the answer of this project.
        theirs: that of OpenVINO.
        outputs: that of each instance that was tried, None where the rules refuse it.
        is_complete: whether they are all there are.
    """

    question: AnyQuestion
    ours: Answer
    theirs: Answer
    outputs: list[Dims | None]
    is_complete: bool

    @property
    def is_known(self) -> bool:
        """Whether nothing of the question is unknown."""
        return are_known(self.question.data) and are_known(self.question.target)

    @property
    def is_refused_by_us_alone(self) -> bool:
        """Whether OpenVINO gives a shape, we refuse, and no instance has an output."""
        return self.ours.refusal is not None and self.theirs.refusal is None and not any(self.list_outputs())

    def list_outputs(self) -> list[Dims]:
        """Returns the output of each instance that the rules accept."""
        return [output for output in self.outputs if output is not None]

    def list_outside(self, answer: Answer) -> list[Dims]:
        """Returns the outputs that an answer does not admit: it is unsound where there is one."""
        return [output for output in self.list_outputs() if not answer.holds(output)]


def is_rank_limit(one: Comparison) -> bool:
    """A rank above the limit of the server."""
    return one.ours.refusal == Reason.RANK_LIMIT_EXCEEDED


def is_zero_with_minus_one(one: Comparison) -> bool:
    """A literal 0 beside a -1, where OpenVINO gives the -1 a value."""
    target = one.question.target or ()
    literal = 0 in target and -1 in target and not one.question.special_zero
    return literal and one.is_refused_by_us_alone and one.ours.refusal == Reason.MINUS_ONE_WITH_ZERO_VOLUME


def is_large(one: Comparison) -> bool:
    """A product that a double, or an int64, does not hold; each instance is answered exactly here."""
    products = (_multiply_highs(one.question.data or ()), _multiply_highs(one.question.target or ()))
    if max(products) <= _EXACT or one.list_outside(one.ours):
        return False
    return one.is_refused_by_us_alone or bool(one.list_outside(one.theirs))


def is_volume_of_copies(one: Comparison) -> bool:
    """Another volume than that of the data, which OpenVINO does not look at where a 0 copies."""
    target = one.question.target or ()
    copied = 0 in target and -1 not in target and bool(one.question.special_zero)
    return copied and one.is_refused_by_us_alone and one.ours.refusal == Reason.VOLUME_MISMATCH


def is_empty_interval(one: Comparison) -> bool:
    """A dim of OpenVINO's that lies between nothing, which is a refusal here."""
    empty = any(bounds.is_empty for bounds in one.theirs.dims or ())
    return empty and one.is_refused_by_us_alone


def is_minus_one_of_any_rank(one: Comparison) -> bool:
    """A -1 that OpenVINO takes for at least 1 where the rank is unknown, though the data may be empty."""
    if one.question.data is not None or one.theirs.dims is None or -1 not in (one.question.target or ()):
        return False
    inferred = list(one.question.target or ()).index(-1)
    return one.theirs.dims[inferred].min == 1 and any(output[inferred] == 0 for output in one.list_outside(one.theirs))


def is_unsound_interval(one: Comparison) -> bool:
    """Any other interval of OpenVINO's that lacks the output of an instance."""
    return one.theirs.refusal is None and not one.is_known and bool(one.list_outside(one.theirs))


def is_without_instance(one: Comparison) -> bool:
    """A question about what is known in part, where OpenVINO gives a shape and no instance has an output."""
    return not one.is_known and one.is_refused_by_us_alone


REASONS: dict[str, Callable[[Comparison], bool]] = {
    "rank above the limit": is_rank_limit,
    "literal 0 with -1": is_zero_with_minus_one,
    "product above 2^53": is_large,
    "volume unchecked beside a copy": is_volume_of_copies,
    "empty interval": is_empty_interval,
    "-1 of unknown rank at least 1": is_minus_one_of_any_rank,
    "unsound interval": is_unsound_interval,
    "shape without an instance": is_without_instance,
}
"""By name, in the order in which they are tried."""


def find_reason(one: Comparison) -> str | None:
    """Returns the name of the first reason that explains a difference."""
    return next((name for name, explains in REASONS.items() if explains(one)), None)


def _multiply_highs(dims: Sequence[AnyDim]) -> int:
    return prod(
        max(1, abs(dim) if isinstance(dim, int) else max(bound or 0 for bound in find_bounds(dim))) for dim in dims
    )
