"""Wrong implementations of known shapes: the plain reading with one mistake each, that somebody made or might make."""

from collections.abc import Callable, Iterable, Sequence
from math import prod

from verification.kit.readings import MAX_DIM, Implementation, Question, divide, read_item, refuse


def _wrap(bits: int) -> Callable[[Iterable[int]], int]:
    return lambda dims: (prod(dims) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def _check_unless_inferred(question: Question, _: Sequence[int], have: int, want: int) -> None:
    if -1 not in question.shape and have != want:
        refuse()


def _check_unless_copied(question: Question, _: Sequence[int], have: int, want: int) -> None:
    if have != want and not (0 in question.shape and question.special_zero):
        refuse()


def _check_multiples(_question: Question, _output: Sequence[int], have: int, want: int) -> None:
    if have != want and (not have or want % have):
        refuse()


def _check_huge_empties(_: Question, output: Sequence[int], have: int, want: int) -> None:
    if have != want or (0 in output and prod(dim for dim in output if dim) > MAX_DIM):
        refuse()


def _read_beyond_as(kind: str) -> Callable[[Question, int, int, Sequence[str]], str]:
    """Returns a reader of items for which a 0 beyond the rank is something."""

    def read(question: Question, index: int, item: int, before: Sequence[str]) -> str:
        is_beyond = item == 0 and question.special_zero and index >= len(question.data)
        return kind if is_beyond else read_item(question, index, item, before)

    return read


def _take_second_minus_ones(question: Question) -> Question:
    items = [1 if item == -1 and -1 in question.shape[:at] else item for at, item in enumerate(question.shape)]
    return question._replace(shape=items)


SHAPE_MISTAKES = {
    "products wrap at 64 bits": Implementation(multiply=_wrap(64)),
    "products wrap at 32 bits": Implementation(multiply=_wrap(32)),
    "products end at 2^63 - 1": Implementation(multiply=lambda dims: min(prod(dims), MAX_DIM)),
    "products are rounded to doubles": Implementation(multiply=lambda dims: int(prod(map(float, dims)))),
    "a shape without dims has no elements": Implementation(
        multiply=lambda dims: prod(factors) if (factors := list(dims)) else 0
    ),
    "a volume above 2^63 - 1 is refused": Implementation(
        multiply=lambda dims: product if (product := prod(dims)) <= MAX_DIM else refuse()
    ),
    "the quotient is one of doubles": Implementation(
        divide=lambda have, want: divide(have, want) and round(have / want)
    ),
    "the quotient is rounded down": Implementation(
        divide=lambda have, want: divide(have - have % (want or 1), want), check_output=_check_unless_inferred
    ),
    "the quotient is rounded up": Implementation(
        divide=lambda have, want: divide(have + -have % (want or 1), want), check_output=_check_unless_inferred
    ),
    "a dim may be of any size": Implementation(
        divide=lambda have, want: refuse() if want == 0 or have % want else have // want
    ),
    "a dim may be 2^63": Implementation(
        divide=lambda have, want: 2**63 if want and have == want * 2**63 else divide(have, want)
    ),
    "the largest dim is one too large": Implementation(
        divide=lambda have, want: refuse() if have == want * MAX_DIM else divide(have, want)
    ),
    "0 elements over 0 are 0": Implementation(divide=lambda have, want: 0 if have == want == 0 else divide(have, want)),
    "0 elements over 0 are 1": Implementation(divide=lambda have, want: 1 if have == want == 0 else divide(have, want)),
    "nothing is inferred from 0 elements": Implementation(
        divide=lambda have, want: refuse() if have == 0 else divide(have, want)
    ),
    "copies leave both sides for the graph operations, too": Implementation(
        cancelling=("static_reshape", "dynamic_reshape", "reshape")
    ),
    "copies stay where they are, in Reshape-1 too": Implementation(cancelling=()),
    "copies leave the data's side alone": Implementation(leave_out=lambda copied, _: (copied, set())),
    "the data dim at the index of the -1 is taken out": Implementation(
        leave_out=lambda copied, at: ({*copied, at}, copied)
    ),
    "a 0 copies, whatever special_zero says": Implementation(
        change=lambda question: question._replace(special_zero=question.special_zero is not None or None)
    ),
    "a 0 is a dim of 0, whatever special_zero says": Implementation(
        change=lambda question: question._replace(special_zero=None if question.special_zero is None else False)
    ),
    "special_zero has a default: true": Implementation(
        change=lambda question: question._replace(special_zero=question.special_zero is not False)
    ),
    "the first 0 copies the first dim, the second one the second": Implementation(
        find_copied=lambda question, index: question.data[sum(item == 0 for item in question.shape[:index])]
    ),
    "a 0 copies the dim that is as far from the end": Implementation(
        find_copied=lambda question, index: question.data[max(index - len(question.shape), -len(question.data))]
    ),
    "a copy beyond the rank is a dim of 1": Implementation(
        read_item=_read_beyond_as("copy"),
        find_copied=lambda question, index: question.data[index] if index < len(question.data) else 1,
    ),
    "a 0 beyond the rank is a dim of 0": Implementation(read_item=_read_beyond_as("length")),
    "a data dim of 0 is not copied": Implementation(
        find_copied=lambda question, index: question.data[index] or refuse()
    ),
    "a second -1 is a dim of 1": Implementation(change=_take_second_minus_ones),
    "every negative item is a -1": Implementation(
        change=lambda question: question._replace(shape=[max(item, -1) for item in question.shape])
    ),
    "two negative items make a positive volume": Implementation(
        read_item=lambda question, index, item, before: (
            "length" if item < -1 else read_item(question, index, item, before)
        )
    ),
    "the largest rank is one too large": Implementation(graph_rank=11),
    "a rank may be one larger": Implementation(graph_rank=13),
    "Reshape-1 has the rank of the graph operations": Implementation(rank=12),
    "nothing is compared where a 0 copies": Implementation(check_output=_check_unless_copied),
    "the data's elements may fill the output some times": Implementation(check_output=_check_multiples),
    "a target has at least one item": Implementation(
        change=lambda question: question if question.shape else question._replace(special_zero=None)
    ),
    "an empty output of huge dims is refused": Implementation(check_output=_check_huge_empties),
    "the data's dims are not looked at": Implementation(takes_dim=lambda _: True),
}
"""By what is wrong."""
