"""Rule 2 of `tensor_reshape.rules`: the items of a target shape, read once and from left to right.

A number above 0 is a dim, and so is a 0 where `special_zero` is false. An item of which something is known that is no
number is a *length*: a dim as well, and never an instruction. One of which nothing is known may be anything.

Nothing else decides what a 0 or a -1 means, or looks at `special_zero` but to see that it is there (rule 1): solvers,
explanations and views go by what is read here. What Reshape-1 does otherwise than the graph operations is
`Target.cancelled`, and stands here for the same reason.
"""

from collections.abc import Collection, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, overload

from tensor_reshape.rules.dims import AnyDim, Dim
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.questions import AnyQuestion, Kind, KnownQuestion
from tensor_reshape.rules.refusals import refuse_copy, refuse_second_minus_one, refuse_value

# As globals: the members of an enum take several times as long to look up, and this is on the path of every call.
_LITERAL, _COPIED, _INFERRED, _LENGTH, _UNKNOWN = Kind

AnyItem = TypeVar("AnyItem", bound=AnyDim)
Item_co = TypeVar("Item_co", bound=AnyDim, covariant=True)


class Target(NamedTuple, Generic[Item_co]):
    """A target whose items have been read.

    Attributes:
        kinds: what each item is; of a target that is refused, of the items before the one to blame.
        dims: the output as far as the items alone tell: a copied dim is that of the data (None where the rank of the
            data is unknown), every other item stands as it is, the -1 too.
        copied: the indices of the copies, in order.
        inferred: the index of the -1; None: there is none.
        cancelled: the indices whose dims leave both sides of the equation of rule 3; see `_find_cancelled`.
        product: of the literals; 0 where one of them is.
        may_copy: the indices of the unknown items that would copy if they were 0.
        is_plain: whether every item is a number above 0, a copy, or the -1.
        copies_cancel: as in `Operation`.
        refusal: why the target is refused whatever the data is; None: it is not. It is held, not raised: symbols that
            contradict each other in the data, or in earlier items, are to be blamed first.
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
    refusal: InvalidRequestError | None

    def suppose_inferred(self, index: int) -> "Target[Item_co]":
        """Returns the target where this unknown item is the -1."""
        return self._replace(
            inferred=index,
            cancelled=_find_cancelled(self.copied, index, copies_cancel=self.copies_cancel),
            may_copy=[other for other in self.may_copy if other != index],
        )

    def suppose_copied(self, indices: Collection[int]) -> "Target[Item_co]":
        """Returns the target where these unknown items are copies."""
        copied = [*self.copied, *indices]
        return self._replace(
            copied=copied,
            cancelled=_find_cancelled(copied, self.inferred, copies_cancel=self.copies_cancel),
            may_copy=[other for other in self.may_copy if other not in indices],
        )


def _find_cancelled(copied: Sequence[int], inferred: int | None, *, copies_cancel: bool) -> Sequence[int]:
    """Returns the indices whose dims leave both sides of the equation of rule 3: in Reshape-1 beside a -1, the copies.

    Reshape-1 resolves the -1 from what the copies leave, so a copied 0 is no product of 0 there: (4, 0, 2) with [-1, 0]
    gives (8, 0). The graph operations divide the whole volume, and refuse that.

    Lemma: copies-leave.
    """
    return copied if copies_cancel and inferred is not None else ()


def balance(target: Target[AnyItem], data: Sequence[AnyItem]) -> tuple[Sequence[AnyItem], Sequence[AnyItem]]:
    """Returns the dims whose products are equal, but for the -1: those of the data, and those of the output.

    Explanations show these. The solvers multiply the same sides without listing them, each in its own terms.
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
    """Reads the items of a question's target.

    Args:
        question: what is asked; its special_zero is there.
        items: of its target.
    """
    kinds, dims = [_LITERAL] * len(items), list(items)
    copied: list[int] = []
    inferred = refusal = None
    product, is_plain = 1, True
    for index, item in enumerate(items):
        # Most items are numbers above 0: they have their kind from the beginning, and cost no call.
        if isinstance(item, int) and 0 < item <= MAX_DIM:
            product *= item
            continue
        # What is refused here is not raised: see `Target.refusal`. The items behind it are nobody's business any more.
        try:
            kind = kinds[index] = _find_kind(question, item, index, inferred)
        except InvalidRequestError as error:
            refusal, is_plain = error, False
            del kinds[index:]
            break
        # A 0 without special_zero is the one literal that comes this far.
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
    return Target(kinds, dims, copied, inferred, cancelled, product, may_copy, is_plain, copies_cancel, refusal)


def _find_copyable(question: AnyQuestion, kinds: Sequence[Kind]) -> Sequence[int]:
    """Returns the indices of the unknown items that copy where they are 0."""
    return [index for index, kind in enumerate(kinds) if kind is _UNKNOWN] if question.special_zero else ()


def _find_kind(question: AnyQuestion, item: AnyDim, index: int, inferred: int | None) -> Kind:
    """Returns what an item is that is no number above 0, or raises its refusal."""
    if item is None:
        return _UNKNOWN
    if isinstance(item, Dim):
        return _LENGTH
    if item == -1:
        if inferred is not None:
            raise refuse_second_minus_one(question, inferred, index)
        return _INFERRED
    if item != 0:
        raise refuse_value(question, index)
    if not question.special_zero:
        return _LITERAL
    # Data whose rank is unknown may have the dim; its instances that do not are refused, and no part of the answer.
    if question.data is not None and index >= len(question.data):
        raise refuse_copy(question, index)
    return _COPIED
