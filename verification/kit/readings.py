"""A plain reading of the rules for known shapes, written apart from the product; a mistake replaces a part of it.

What it refuses, it refuses without a reason: only the outputs and the fact of a refusal are compared.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple, NoReturn

MAX_DIM = 2**63 - 1


class Question(NamedTuple):
    """A question whose shapes are known."""

    operation: str
    data: Sequence[int]
    shape: Sequence[int]
    special_zero: bool | None


class RefusalError(Exception):
    """A question is refused."""


def refuse() -> NoReturn:
    raise RefusalError


def read_item(question: Question, index: int, item: int, before: Sequence[str]) -> str:
    """Returns what an item is."""
    if not -1 <= item <= MAX_DIM or (item == -1 and "infer" in before):
        refuse()
    if item == -1:
        return "infer"
    if item or not question.special_zero:
        return "length"
    return "copy" if index < len(question.data) else refuse()


def divide(have: int, want: int) -> int:
    return refuse() if want == 0 or have % want or have // want > MAX_DIM else have // want


@dataclass(frozen=True, slots=True)
class Implementation:
    """The rules.

    Attributes:
        graph_rank: the largest rank of the graph operations.
        rank: the largest rank of Reshape-1.
        cancelling: the operations whose copies leave both sides.
        change: what is done to a question before it is read.
        takes_dim: whether a dim of the data is one.
        read_item: returns what an item is: a length, a copy, or what is to be inferred.
        find_copied: returns the dim that a 0 at an index copies.
        leave_out: returns the indexes that leave the data and the output where the copies at some indexes cancel, and
            the -1 is at another.
        multiply: returns a product.
        divide: returns a quotient.
        check_output: refuses an output that is none.
    """

    graph_rank: int = 12
    rank: int = 64
    cancelling: Collection[str] = ("reshape",)
    change: Callable[[Question], Question] = lambda question: question
    takes_dim: Callable[[int], bool] = lambda dim: 0 <= dim <= MAX_DIM
    read_item: Callable[[Question, int, int, Sequence[str]], str] = read_item
    find_copied: Callable[[Question, int], int] = lambda question, index: question.data[index]
    leave_out: Callable[[set[int], int], tuple[set[int], set[int]]] = lambda copied, _: (copied, copied)
    multiply: Callable[[Iterable[int]], int] = prod
    divide: Callable[[int, int], int] = divide
    check_output: Callable[[Question, Sequence[int], int, int], object] = lambda _question, _output, have, want: (
        have == want or refuse()
    )

    def answer(self, question: Question) -> list[int]:
        """Returns the output's dims.

        Raises:
            RefusalError: there is none.
        """
        question = self.change(question)
        most = self.rank if question.operation == "reshape" else self.graph_rank
        if question.special_zero is None or max(len(question.data), len(question.shape)) > most:
            refuse()
        if not all(map(self.takes_dim, question.data)):
            refuse()
        kinds = list[str]()
        for index, item in enumerate(question.shape):
            kinds.append(self.read_item(question, index, item, kinds))
        output = [
            self.find_copied(question, index) if kind == "copy" else item
            for index, (kind, item) in enumerate(zip(kinds, question.shape, strict=True))
        ]
        if "infer" in kinds:
            at = kinds.index("infer")
            copied = {index for index, kind in enumerate(kinds) if kind == "copy"}
            cancels = question.operation in self.cancelling
            no_data, no_output = self.leave_out(copied, at) if cancels else (set[int](), set[int]())
            have = self.multiply(dim for index, dim in enumerate(question.data) if index not in no_data)
            want = self.multiply(dim for index, dim in enumerate(output) if index not in {at, *no_output})
            output[at] = self.divide(have, want)
        self.check_output(question, output, self.multiply(question.data), self.multiply(output))
        return output
