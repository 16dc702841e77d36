"""Applies rule 2 of `tensor_reshape.rules` while it reads the items of a requested shape once, from left to right.

An item above 0 is an output dim. If `special_zero` is false, a 0 is also an output dim. A partially known item is
called a *length*, and it is an output dim even if its value is 0. An unknown item may be a length, a copy or the -1.

Only this module decides the meaning of a 0 or a -1. Solvers and explanations use the `Target` that `read_target`
returns. The solvers do not read `special_zero`, and rule 1 only checks whether it is set. Reshape-1 and the graph
operations cancel different copies. Only this module decides which ones, and stores them in `Target.cancelled`.
"""

from collections.abc import Collection, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, overload

from tensor_reshape.rules.dims import AnyDim, Dim
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.questions import AnyQuestion, Kind, KnownQuestion
from tensor_reshape.rules.rejections import reject_item

# Every query uses these members of the enum `Kind`. The members have global names, because looking up a member of an
# enum takes several times as long.
_LITERAL, _COPIED, _INFERRED, _LENGTH, _UNKNOWN = Kind

AnyItem = TypeVar("AnyItem", bound=AnyDim)
Item_co = TypeVar("Item_co", bound=AnyDim, covariant=True)


class Target(NamedTuple, Generic[Item_co]):
    """The items of a requested shape, after they have been read.

    Attributes:
        kinds: the kind of each item. If the target is rejected, the list ends before the invalid item.
        dims: the output dims, as far as the items determine them. A copy is replaced by its data dim, or by None if the
            rank of the data is unknown. Every item that is not a copy is unchanged, including the -1.
        copied: the indices of the copies, in ascending order.
        inferred: the index of the -1, or None if no item is -1.
        cancelled: the indices of the dims that rule 3 removes from both sides of its equation; see `_find_cancelled`.
        product: the product of the literal items.
        may_copy: the indices of the unknown items that would copy a data dim if they were 0.
        is_plain: whether every item is a number above 0, a copy, or the -1.
        copies_cancel: the value of `Operation.copies_cancel`.
        rejection: the error of a target that is wrong for all data, or None. The error is not raised while the target
            is read, because contradictory symbols in the data or in earlier items are reported first.
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
        """Returns the target in which the unknown item at `index` is the -1."""
        return self._replace(
            inferred=index,
            cancelled=_find_cancelled(self.copied, index, copies_cancel=self.copies_cancel),
            may_copy=[other for other in self.may_copy if other != index],
        )

    def suppose_copied(self, indices: Collection[int]) -> "Target[Item_co]":
        """Returns the target in which the unknown items at `indices` are copies."""
        copied = [*self.copied, *indices]
        return self._replace(
            copied=copied,
            cancelled=_find_cancelled(copied, self.inferred, copies_cancel=self.copies_cancel),
            may_copy=[other for other in self.may_copy if other not in indices],
        )


def _find_cancelled(copied: Sequence[int], inferred: int | None, *, copies_cancel: bool) -> Sequence[int]:
    """Returns the indices of the dims that rule 3 removes from both sides.

    If an item is -1, Reshape-1 removes the copied dims. Reshape-1 computes the -1 after removing the copies, so a
    copied dim of 0 does not make the divisor 0. For example, data (4, 0, 2) and target [-1, 0] give (8, 0). The graph
    operations divide the whole volume by the product of all other items, so they reject this query.

    See the lemma copies-leave in `verification/lemmas.py`.
    """
    return copied if copies_cancel and inferred is not None else ()


def balance(target: Target[AnyItem], data: Sequence[AnyItem]) -> tuple[Sequence[AnyItem], Sequence[AnyItem]]:
    """Returns the dims on both sides of the equation, which are the data dims and the output dims without the -1.

    Explanations show these dims. The solvers multiply the same dims in another form, without creating these lists.
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
        question: the query, whose special_zero is not None.
        items: the items of the query's target.
    """
    kinds, dims = [_LITERAL] * len(items), list(items)
    copied: list[int] = []
    inferred = rejection = None
    product, is_plain = 1, True
    for index, item in enumerate(items):
        # Most items of a requested shape are numbers above 0. The list `kinds` already contains the right kind for such
        # items, so they need no function call.
        if isinstance(item, int) and 0 < item <= MAX_DIM:
            product *= item
            continue
        # The error is stored instead of raised, for the reason that `Target.rejection` explains. Items after the
        # invalid item are not read.
        try:
            kind = kinds[index] = _find_kind(question, item, index, inferred)
        except InvalidRequestError as error:
            rejection, is_plain = error, False
            del kinds[index:]
            break
        # A literal item is a 0 here, because the code above has handled numbers above 0.
        if kind is _COPIED:
            copied.append(index)
            dims[index] = None if question.data is None else question.data[index]
        elif kind is _INFERRED:
            inferred = index
        else:
            is_plain, product = False, 0 if kind is _LITERAL else product
    copies_cancel = question.operation.copies_cancel
    cancelled = _find_cancelled(copied, inferred, copies_cancel=copies_cancel) if copied else ()
    may_copy: Sequence[int] = ()
    if question.special_zero and not is_plain:
        may_copy = [index for index, kind in enumerate(kinds) if kind is _UNKNOWN]
    return Target(kinds, dims, copied, inferred, cancelled, product, may_copy, is_plain, copies_cancel, rejection)


def _find_kind(question: AnyQuestion, item: AnyDim, index: int, inferred: int | None) -> Kind:
    """Returns the kind of an item that is not a number above 0, or raises its error."""
    if item is None:
        return _UNKNOWN
    if isinstance(item, Dim):
        return _LENGTH
    if item == -1:
        if inferred is not None:
            text = f"only one item may be -1, and shape[{inferred}] is -1 as well"
            raise reject_item(Reason.MULTIPLE_MINUS_ONE, text, question, index, first=inferred)
        return _INFERRED
    if item != 0:
        text = "an item of the requested shape must be from -1 to 2^63 - 1"
        raise reject_item(Reason.INVALID_TARGET_VALUE, text, question, index)
    if not question.special_zero:
        return _LITERAL
    # If the rank of the data is unknown, the data shape may have a dim at the same index as this item. A data shape
    # without a dim at this index is rejected, so it does not affect the result.
    if question.data is not None and index >= len(question.data):
        rank = len(question.data)
        text = f"special_zero copies input dimension {index}, but the input has rank {rank}"
        raise reject_item(Reason.COPY_INDEX_OUT_OF_RANGE, text, question, index, rank=rank)
    return _COPIED
