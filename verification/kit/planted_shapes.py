"""Wrong implementations of known shapes: the plain reading with one mistake each, that somebody made or might make."""

from collections.abc import Iterable, Sequence
from math import prod

from verification.kit.readings import MAX_DIM, Implementation, Question, RefusalError


class WrapsAt64Bits(Implementation):
    """Products wrap at 64 bits."""

    def multiply(self, dims: Iterable[int]) -> int:
        return (prod(dims) + 2**63) % 2**64 - 2**63


class WrapsAt32Bits(Implementation):
    """Products wrap at 32 bits."""

    def multiply(self, dims: Iterable[int]) -> int:
        return (prod(dims) + 2**31) % 2**32 - 2**31


class Saturates(Implementation):
    """Products end at 2^63 - 1."""

    def multiply(self, dims: Iterable[int]) -> int:
        return min(prod(dims), MAX_DIM)


class MultipliesAsDoubles(Implementation):
    """Products are rounded to doubles."""

    def multiply(self, dims: Iterable[int]) -> int:
        product = 1.0
        for dim in dims:
            product *= dim
        return int(product)


class DividesAsDoubles(Implementation):
    """The quotient is one of doubles, rounded."""

    def divide(self, have: int, want: int) -> int:
        if want == 0 or have % want or have // want > MAX_DIM:
            raise RefusalError
        return round(have / want)


class ForgetsTheRemainder(Implementation):
    """The quotient is rounded down, and rule 4 is thought to follow."""

    def divide(self, have: int, want: int) -> int:
        if want == 0 or have // want > MAX_DIM:
            raise RefusalError
        return have // want

    def compare(self, question: Question, output: Sequence[int]) -> None:
        if -1 not in question.shape:
            super().compare(question, output)


class RoundsUp(ForgetsTheRemainder):
    """The quotient is rounded up."""

    def divide(self, have: int, want: int) -> int:
        return super().divide(have + want - 1, want) if want else super().divide(have, want)


class ForgetsTheLargestDim(Implementation):
    """A dim may be of any size."""

    def divide(self, have: int, want: int) -> int:
        if want == 0 or have % want:
            raise RefusalError
        return have // want


class TakesOneDimMore(Implementation):
    """A dim may be 2^63."""

    def divide(self, have: int, want: int) -> int:
        if want and have == want * (MAX_DIM + 1):
            return MAX_DIM + 1
        return super().divide(have, want)


class RefusesTheLargestDim(Implementation):
    """The largest dim is one too large."""

    def divide(self, have: int, want: int) -> int:
        quotient = super().divide(have, want)
        if quotient == MAX_DIM:
            raise RefusalError
        return quotient


class InfersZeroFromZero(Implementation):
    """0 elements over 0 are 0."""

    def divide(self, have: int, want: int) -> int:
        return 0 if have == want == 0 else super().divide(have, want)


class InfersOneFromZero(Implementation):
    """0 elements over 0 are 1, as where any number would do."""

    def divide(self, have: int, want: int) -> int:
        return 1 if have == want == 0 else super().divide(have, want)


class RefusesEmptyData(Implementation):
    """There is nothing to infer from 0 elements."""

    def divide(self, have: int, want: int) -> int:
        if have == 0:
            raise RefusalError
        return super().divide(have, want)


class CancelsEverywhere(Implementation):
    """Copies leave both sides for the graph operations, too."""

    cancelling = ("static_reshape", "dynamic_reshape", "reshape")


class CancelsNowhere(Implementation):
    """Copies stay where they are, in Reshape-1 too."""

    cancelling = ()


class CancelsInTheDataAlone(Implementation):
    """Copies leave the data's side, and stay on the other."""

    def infer(self, question: Question, kinds: Sequence[str], output: Sequence[int], at: int) -> int:
        left_out = {
            index for index, kind in enumerate(kinds) if kind == "copy" and question.operation in self.cancelling
        }
        have = self.multiply(dim for index, dim in enumerate(question.data) if index not in left_out)
        return self.divide(have, self.multiply(dim for index, dim in enumerate(output) if index != at))


class CancelsTheMinusOnesIndex(Implementation):
    """The data dim at the index of the -1 is taken out as well."""

    def infer(self, question: Question, kinds: Sequence[str], output: Sequence[int], at: int) -> int:
        kinds = ["copy" if index == at else kind for index, kind in enumerate(kinds)]
        return super().infer(question, kinds, output, at)


class CopiesAlways(Implementation):
    """A 0 copies, whatever special_zero says."""

    def answer(self, question: Question) -> list[int]:
        self.admit(question)
        return super().answer(question._replace(special_zero=True))


class CopiesNever(Implementation):
    """A 0 is a dim of 0, whatever special_zero says."""

    def answer(self, question: Question) -> list[int]:
        self.admit(question)
        return super().answer(question._replace(special_zero=False))


class DefaultsToACopy(Implementation):
    """special_zero has a default: true."""

    def answer(self, question: Question) -> list[int]:
        return super().answer(question._replace(special_zero=question.special_zero is not False))


class CopiesInOrder(Implementation):
    """The first 0 copies the first dim, the second one the second."""

    def find_copied(self, question: Question, index: int) -> int:
        return question.data[sum(item == 0 for item in question.shape[:index])]


class CopiesFromTheBack(Implementation):
    """A 0 copies the dim that is as far from the end."""

    def find_copied(self, question: Question, index: int) -> int:
        return question.data[max(index - len(question.shape), -len(question.data))]


class CopiesOneBeyond(Implementation):
    """A copy beyond the rank is a dim of 1."""

    def read_item(self, question: Question, index: int, item: int, before: Sequence[str]) -> str:
        if item == 0 and question.special_zero and index >= len(question.data):
            return "copy"
        return super().read_item(question, index, item, before)

    def find_copied(self, question: Question, index: int) -> int:
        return question.data[index] if index < len(question.data) else 1


class KeepsZerosBeyond(Implementation):
    """A 0 beyond the rank is a dim of 0."""

    def read_item(self, question: Question, index: int, item: int, before: Sequence[str]) -> str:
        if item == 0 and index >= len(question.data):
            return "length"
        return super().read_item(question, index, item, before)


class CopiesNoZeros(Implementation):
    """A data dim of 0 is not copied, but refused."""

    def find_copied(self, question: Question, index: int) -> int:
        if question.data[index] == 0:
            raise RefusalError
        return question.data[index]


class TakesSecondMinusOnes(Implementation):
    """A second -1 is a dim of 1."""

    def answer(self, question: Question) -> list[int]:
        items = list(question.shape)
        if -1 in items:
            first = items.index(-1)
            items[first + 1 :] = [1 if item == -1 else item for item in items[first + 1 :]]
        return super().answer(question._replace(shape=items))


class TakesAnyNegative(Implementation):
    """Every negative item is a -1."""

    def answer(self, question: Question) -> list[int]:
        return super().answer(question._replace(shape=[max(item, -1) for item in question.shape]))


class TakesMinusTwoOfAVolume(Implementation):
    """Two negative items make a positive volume."""

    def read_item(self, question: Question, index: int, item: int, before: Sequence[str]) -> str:
        return "length" if item < -1 else super().read_item(question, index, item, before)


class RefusesOneRankLess(Implementation):
    """The largest rank is one too large."""

    graph_rank = 11


class TakesOneRankMore(Implementation):
    """A rank may be one larger."""

    graph_rank = 13


class HasOneRankForAll(Implementation):
    """Reshape-1 has the rank of the graph operations."""

    rank = 12


class ComparesNothing(Implementation):
    """What is copied and what is a number is thought to be right."""

    def compare(self, question: Question, output: Sequence[int]) -> None:
        if 0 not in question.shape or not question.special_zero:
            super().compare(question, output)


class ComparesMultiples(Implementation):
    """It is enough that the data's elements fill the output some times."""

    def compare(self, question: Question, output: Sequence[int]) -> None:
        have, want = self.multiply(question.data), self.multiply(output)
        if have != want and (not have or want % have):
            raise RefusalError


class HasEmptyScalars(Implementation):
    """A shape without dims has no elements."""

    def multiply(self, dims: Iterable[int]) -> int:
        factors = list(dims)
        return prod(factors) if factors else 0


class RefusesScalars(Implementation):
    """A target has at least one item."""

    def read(self, question: Question) -> list[str]:
        if not question.shape:
            raise RefusalError
        return super().read(question)


class RefusesHugeEmpties(Implementation):
    """An empty output is refused where its other dims make more than 2^63 - 1 elements."""

    def compare(self, question: Question, output: Sequence[int]) -> None:
        super().compare(question, output)
        if prod(dim for dim in output if dim) > MAX_DIM and 0 in output:
            raise RefusalError


class RefusesHugeVolumes(Implementation):
    """A volume above 2^63 - 1 is refused."""

    def multiply(self, dims: Iterable[int]) -> int:
        product = prod(dims)
        if product > MAX_DIM:
            raise RefusalError
        return product


class TakesAnyDim(Implementation):
    """The data's dims are not looked at."""

    def admit(self, question: Question) -> None:
        super().admit(question._replace(data=[min(max(dim, 0), MAX_DIM) for dim in question.data]))


KNOWN: tuple[type[Implementation], ...] = (
    WrapsAt64Bits,
    WrapsAt32Bits,
    Saturates,
    MultipliesAsDoubles,
    DividesAsDoubles,
    ForgetsTheRemainder,
    RoundsUp,
    ForgetsTheLargestDim,
    TakesOneDimMore,
    RefusesTheLargestDim,
    InfersZeroFromZero,
    InfersOneFromZero,
    RefusesEmptyData,
    CancelsEverywhere,
    CancelsNowhere,
    CancelsInTheDataAlone,
    CancelsTheMinusOnesIndex,
    CopiesAlways,
    CopiesNever,
    DefaultsToACopy,
    CopiesInOrder,
    CopiesFromTheBack,
    CopiesOneBeyond,
    KeepsZerosBeyond,
    CopiesNoZeros,
    TakesSecondMinusOnes,
    TakesAnyNegative,
    TakesMinusTwoOfAVolume,
    RefusesOneRankLess,
    TakesOneRankMore,
    HasOneRankForAll,
    ComparesNothing,
    ComparesMultiples,
    HasEmptyScalars,
    RefusesScalars,
    RefusesHugeEmpties,
    RefusesHugeVolumes,
    TakesAnyDim,
)
"""Those whose mistake shows where shapes are known."""
