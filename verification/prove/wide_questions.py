"""Queries over the whole range of the protobuf definition: every field, every s64, and every text as a name.

In four of five queries, each field by itself is valid, so the rules process them. The others break a rule somewhere.
"""

from collections.abc import Sequence
from random import Random

from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.dims import AnyDim, Dim, Expression, Interval, Symbol
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, ONNX_RESHAPE, RESHAPE, STATIC_RESHAPE
from tensor_reshape.rules.questions import Question, ShapeRequest

_OPERATIONS = (STATIC_RESHAPE, DYNAMIC_RESHAPE, RESHAPE, RESHAPE, ONNX_RESHAPE)
_NAMES = ("N", "N", "M", "M", "K", "batch", "gr\u00f6\u00dfe", "\u540d" * 64, "N" * 64, "a b", "*", "4")
_BAD_NAMES = ("", "\n", "\u202e", "N" * 65, "\x00")
_RANKS = (0, 1, 1, 2, 2, 2, 3, 3, 4)
_RARE_RANKS = (5, 12, 13, 64, 65, 70)
_SMALL = (0, 1, 1, 2, 2, 3, 4, 6, 8, 12)
_MIN = -(2**63)
_RARE = 0.04


class Wide:
    """Chooses queries."""

    def __init__(self, random: Random) -> None:
        """Takes all decisions from `random`."""
        self._random = random
        self._is_lawful = True

    def choose_item(self, index: int) -> BatchItem:
        """Returns an item of a batch at this index."""
        random = self._random
        self._is_lawful = random.random() < 0.8
        data_from = self._choose_link(index) if random.random() < 0.25 else None
        data = self._choose_data() if data_from is None or random.random() < _RARE else None
        target = None if random.random() < 0.05 else self._choose_target(data)
        question = Question(
            operation=random.choice(_OPERATIONS),
            data=data,
            target=target,
            special_zero=None if random.random() < _RARE / 2 else random.random() < 0.6,
            data_type=random.choice(list(DataType)) if random.random() < 0.15 else None,
            expected=self._choose_expected(target) if random.random() < 0.15 else None,
        )
        return BatchItem(ShapeRequest(question, random.random() < 0.5), data_from)

    def _choose_link(self, index: int) -> int:
        random = self._random
        if self._is_lawful and index:
            return random.randrange(index)
        return random.choice((index, index + 1, -1, -(2**31), 2**31 - 1, 0))

    def _choose_data(self) -> list[AnyDim] | None:
        return None if self._random.random() < 0.1 else [self._choose_dim() for _ in range(self._choose_rank())]

    def _choose_rank(self) -> int:
        return self._random.choice(_RANKS if self._random.random() > _RARE else _RARE_RANKS)

    def _choose_target(self, data: Sequence[AnyDim] | None) -> list[AnyDim]:
        random, items = self._random, list[AnyDim]()
        for index in range(len(data) if data and random.random() < 0.3 else self._choose_rank()):
            kind = random.random()
            if kind < 0.3:
                items.append(0)
            elif kind < 0.5:
                items.append(-1 if -1 not in items or not self._is_lawful else 1)
            elif kind < 0.7 and data and index < len(data):
                items.append(data[index])
            else:
                items.append(self._choose_dim())
        return items

    def _choose_expected(self, target: Sequence[AnyDim] | None) -> list[AnyDim]:
        rank = self._choose_rank() if target is None or self._random.random() < 0.1 else len(target)
        return [None if self._random.random() < 0.4 else self._choose_dim() for _ in range(rank)]

    def _choose_dim(self) -> AnyDim:
        kind = self._random.random()
        if kind < 0.4:
            return self._choose_number(_MIN)
        if kind < 0.5:
            return None
        if kind < 0.62:
            return Dim(self._choose_bounds())
        if kind < 0.8:
            symbol = self._choose_symbol()
            return Dim(symbol.bounds, Expression(1, (symbol,)))
        return self._choose_expression()

    def _choose_number(self, low: int) -> int:
        random = self._random
        if not self._is_lawful and random.random() < 0.2:
            return random.choice((low, -2, -1, random.randint(low, MAX_DIM)))
        if random.random() < 0.75:
            return random.choice(_SMALL)
        power = 1 << random.randint(3, 63)
        return int(min(power + random.choice((-1, 0, 0, 1)), MAX_DIM))

    def _choose_bounds(self) -> Interval:
        random = self._random
        if random.random() < 0.3:
            return Interval(0, None)
        low = self._choose_number(_MIN)
        if random.random() < 0.4:
            return Interval(low, None)
        high = self._choose_number(_MIN)
        return Interval(low, high) if not self._is_lawful else Interval(min(low, high), max(low, high))

    def _choose_symbol(self) -> Symbol:
        bad = not self._is_lawful and self._random.random() < 0.1
        bounds = self._choose_bounds() if self._random.random() < 0.4 else Interval(0, None)
        return Symbol(self._random.choice(_BAD_NAMES if bad else _NAMES), bounds)

    def _choose_expression(self) -> Dim:
        random = self._random
        above = [self._choose_symbol() for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3)))]
        below = [self._choose_symbol() for _ in range(random.choice((0, 0, 0, 0, 1, 2)))]
        if not above and not below and self._is_lawful:
            above = [self._choose_symbol()]
        if above and random.random() < _RARE:
            above *= random.choice((8, 30, 64, 65))
        numbers = [self._choose_number(_MIN) or self._is_lawful for _ in range(2)]
        bounds = self._choose_bounds() if random.random() < 0.3 else Interval(0, None)
        return Dim(
            bounds,
            Expression(int(numbers[0]), tuple(above), int(numbers[1]) if random.random() < 0.5 else 1, tuple(below)),
        )
