"""Rule 2 of `tensor_reshape.rules`: the items of a requested shape, read once from left to right.

A number above 0 is a dim, and so is a 0 if `special_zero` is false. A partially known item is a *length*: a dim, even
if it is 0. An unknown item may be anything.

Only this module decides what a 0 or a -1 means. Solvers, explanations and views use what it has read, and check
`special_zero` only for presence (rule 1). The difference between Reshape-1 and the graph operations is
`Target.cancelled`, which is here for the same reason.
"""

from collections.abc import Collection, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, overload

from tensor_reshape.rules.dims import AnyDim, Dim
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.questions import AnyQuestion, Kind, KnownQuestion
from tensor_reshape.rules.rejections import reject_copy, reject_second_minus_one, reject_value

# Global names, because looking up a member of an enum takes several times as long, and every call gets here.
_LITERAL, _COPIED, _INFERRED, _LENGTH, _UNKNOWN = Kind

AnyItem = TypeVar("AnyItem", bound=AnyDim)
Item_co = TypeVar("Item_co", bound=AnyDim, covariant=True)


class Target(NamedTuple, Generic[Item_co]):
    """The items of a requested shape after reading.

    Attributes:
        kinds: the kind of each item. If the target is rejected, only of the items before the wrong one.
        dims: the output as far as it follows from the items alone. A copied dim is that of the data, or None if its
            rank is unknown. Every other item is unchanged, including the -1.
        copied: the indices of the copies, in order.
        inferred: the index of the -1; None: there is none.
        cancelled: the indices whose dims are removed from both sides of the equation of rule 3; see `_find_cancelled`.
        product: the product of the literals.
        may_copy: the indices of the unknown items that would copy if they were 0.
        is_plain: whether every item is a number above 0, a copy, or the -1.
        copies_cancel: see `Operation`.
        rejection: the error of the target for all data, or None. It is not raised here, because contradictory symbols
            in the data or in earlier items are reported first.
    """

    kinds: Sequence[Kind]
    dims: Sequence[Item_co]
    copied: Sequence[int]
    inferred: int | None
    cancelled: Sequence[int]
    product: int
    may_copy: Sequence[int]
    is_plain: bool
    copies_cancel: bool
    rejection: InvalidRequestError | None

    def suppose_inferred(self, index: int) -> "Target[Item_co]":
        """Returns the target with this unknown item as the -1."""
        return self._replace(
            inferred=index,
            cancelled=_find_cancelled(self.copied, index, copies_cancel=self.copies_cancel),
            may_copy=[other for other in self.may_copy if other != index],
        )

    def suppose_copied(self, indices: Collection[int]) -> "Target[Item_co]":
        """Returns the target with these unknown items as copies."""
        copied = [*self.copied, *indices]
        return self._replace(
            copied=copied,
            cancelled=_find_cancelled(copied, self.inferred, copies_cancel=self.copies_cancel),
            may_copy=[other for other in self.may_copy if other not in indices],
        )


def _find_cancelled(copied: Sequence[int], inferred: int | None, *, copies_cancel: bool) -> Sequence[int]:
    """Returns the indices whose dims are removed from both sides of rule 3: the copies of Reshape-1 with a -1.

    Reshape-1 computes the -1 after removing the copies, so a copied 0 does not make a product 0: (4, 0, 2) with [-1, 0]
    becomes (8, 0). The graph operations divide the whole volume, and reject that.

    Lemma: copies-leave.
    """
    return copied if copies_cancel and inferred is not None else ()


def balance(target: Target[AnyItem], data: Sequence[AnyItem]) -> tuple[Sequence[AnyItem], Sequence[AnyItem]]:
    """Returns the dims with equal products, not counting the -1: those of the data and those of the output.

    Explanations show them. The solvers multiply the same sides in their own form, without creating these lists.
    """
    if target.inferred is None:
        return data, target.dims
    cancelled = target.cancelled
    right = [dim for index, dim in enumerate(target.dims) if index != target.inferred and index not in cancelled]
    return [dim for index, dim in enumerate(data) if index not in cancelled] if cancelled else data, right


@overload
def read_target(question: KnownQuestion, items: Sequence[int]) -> Target[int]: ...
@overload
def read_target(question: AnyQuestion, items: Sequence[AnyDim]) -> Target[AnyDim]: ...
def read_target(question: AnyQuestion, items: Sequence[Any]) -> Target[Any]:
    """Reads the items of a query's target.

    Args:
        question: the query, which has special_zero.
        items: the items of its target.
    """
    kinds, dims = [_LITERAL] * len(items), list(items)
    copied: list[int] = []
    inferred = rejection = None
    product, is_plain = 1, True
    for index, item in enumerate(items):
        # Most items are numbers above 0. They have their kind from the beginning and need no function call.
        if isinstance(item, int) and 0 < item <= MAX_DIM:
            product *= item
            continue
        # The error is kept and not raised: see `Target.rejection`. Later items do not matter then.
        try:
            kind = kinds[index] = _find_kind(question, item, index, inferred)
        except InvalidRequestError as error:
            rejection, is_plain = error, False
            del kinds[index:]
            break
        # A 0 without special_zero is the only literal that gets here.
        if kind is _COPIED:
            copied.append(index)
            dims[index] = None if question.data is None else question.data[index]
        elif kind is _INFERRED:
            inferred = index
        else:
            is_plain, product = False, 0 if kind is _LITERAL else product
    copies_cancel = question.operation.copies_cancel
    cancelled = _find_cancelled(copied, inferred, copies_cancel=copies_cancel) if copied else ()
    may_copy = () if is_plain else _find_copyable(question, kinds)
    return Target(kinds, dims, copied, inferred, cancelled, product, may_copy, is_plain, copies_cancel, rejection)


def _find_copyable(question: AnyQuestion, kinds: Sequence[Kind]) -> Sequence[int]:
    """Returns the indices of the unknown items that would copy if they were 0."""
    return [index for index, kind in enumerate(kinds) if kind is _UNKNOWN] if question.special_zero else ()


def _find_kind(question: AnyQuestion, item: AnyDim, index: int, inferred: int | None) -> Kind:
    """Returns the kind of an item that is not a number above 0, or raises its error."""
    if item is None:
        return _UNKNOWN
    if isinstance(item, Dim):
        return _LENGTH
    if item == -1:
        if inferred is not None:
            raise reject_second_minus_one(question, inferred, index)
        return _INFERRED
    if item != 0:
        raise reject_value(question, index)
    if not question.special_zero:
        return _LITERAL
    # Data of unknown rank may have this dim. Instances without it are rejected and do not matter for the result.
    if question.data is not None and index >= len(question.data):
        raise reject_copy(question, index)
    return _COPIED
