"""A plain reading of the rules for known shapes, written apart from the product.

What it refuses, it refuses without a reason: only the outputs and the fact of a refusal are compared.
"""

from collections.abc import Collection, Iterable, Sequence
from math import prod
from typing import NamedTuple

MAX_DIM = 2**63 - 1


class Question(NamedTuple):
    """A question whose shapes are known."""

    operation: str
    data: Sequence[int]
    shape: Sequence[int]
    special_zero: bool | None


class RefusalError(Exception):
    """A question is refused."""


class Implementation:
    """The plain reading of the rules; a mistake is a method, or a number, of a class of its own.

    Attributes:
        graph_rank: the largest rank of the graph operations.
        rank: the largest rank of Reshape-1.
        cancelling: the operations whose copies leave both sides.
    """

    graph_rank, rank = 12, 64
    cancelling: Collection[str] = ("reshape",)

    def answer(self, question: Question) -> list[int]:
        """Returns the output's dims."""
        self.admit(question)
        kinds = self.read(question)
        output = [
            self.find_copied(question, index) if kind == "copy" else item
            for index, (kind, item) in enumerate(zip(kinds, question.shape, strict=True))
        ]
        if "infer" in kinds:
            at = kinds.index("infer")
            output[at] = self.infer(question, kinds, output, at)
        self.compare(question, output)
        return output

    def admit(self, question: Question) -> None:
        """Checks rule 1."""
        most = self.rank if question.operation == "reshape" else self.graph_rank
        if question.special_zero is None or max(len(question.data), len(question.shape)) > most:
            raise RefusalError
        if any(not 0 <= dim <= MAX_DIM for dim in question.data):
            raise RefusalError

    def read(self, question: Question) -> list[str]:
        """Reads the target: rule 2."""
        kinds = list[str]()
        for index, item in enumerate(question.shape):
            kinds.append(self.read_item(question, index, item, kinds))
        return kinds

    def read_item(self, question: Question, index: int, item: int, before: Sequence[str]) -> str:
        """Returns what an item is."""
        if not -1 <= item <= MAX_DIM or (item == -1 and "infer" in before):
            raise RefusalError
        if item == -1:
            return "infer"
        if item or not question.special_zero:
            return "length"
        if index >= len(question.data):
            raise RefusalError
        return "copy"

    def find_copied(self, question: Question, index: int) -> int:
        """Returns the dim that a 0 copies."""
        return question.data[index]

    def infer(self, question: Question, kinds: Sequence[str], output: Sequence[int], at: int) -> int:
        """Returns what the -1 is: rule 3."""
        left_out = {
            index for index, kind in enumerate(kinds) if kind == "copy" and question.operation in self.cancelling
        }
        have = self.multiply(dim for index, dim in enumerate(question.data) if index not in left_out)
        want = self.multiply(dim for index, dim in enumerate(output) if index not in {at, *left_out})
        return self.divide(have, want)

    def multiply(self, dims: Iterable[int]) -> int:
        """Returns a product."""
        return prod(dims)

    def divide(self, have: int, want: int) -> int:
        """Returns the quotient."""
        if want == 0 or have % want or have // want > MAX_DIM:
            raise RefusalError
        return have // want

    def compare(self, question: Question, output: Sequence[int]) -> None:
        """Checks rule 4."""
        if self.multiply(question.data) != self.multiply(output):
            raise RefusalError
