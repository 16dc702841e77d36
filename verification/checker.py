"""Checks an answer of InferShape with instances of its question, which are enumerated from the specification.

The checker reads only the messages of the API and shares no code with the product, so it can check any server. An
instance gives a number to each name, and to each unknown dim under its position. If there are too many instances, some
of them are tried. These can show that an answer is wrong, but not that an end of it is too far.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, product
from math import isqrt, prod
from random import Random
from typing import NamedTuple, TypeAlias

from tensor_reshape.v1 import reshape_pb2, tensor_pb2

BUDGET = 600  # the number of instances that are tried
MAX_DIM = 2**63 - 1
_GRAPH_RANK = 12  # the largest rank of the two graph operations
_BIG = 1_000_003  # a prime above each volume: an output with this dim is empty, and can have any number there
_CAP, _WIDEST, _LARGEST_VOLUME = 4, 50, 1_000_000  # the tried values of an open dim and a bounded one, and the volumes

Dims: TypeAlias = tuple[int, ...]
Bounds: TypeAlias = tuple[int, int]
Item: TypeAlias = tuple[bool, int]
"""Whether an item of the target is a dim whatever its value, and the value."""
_Dim: TypeAlias = int | tensor_pb2.PartialDim
_UNKNOWN = tensor_pb2.PartialDim()


class Instance(NamedTuple):
    """A concrete question, its output (empty if it is rejected), and the values of its names and positions."""

    data: Dims
    items: Dims
    output: Dims
    values: dict[str, int]


class Found(NamedTuple):
    """The instances that were tried, and whether they reach each end that the contract promises to be reached."""

    accepted: list[Instance]
    rejected: list[Instance]
    complete: bool


def reshape(operation: int, special_zero: bool, data: Sequence[int], items: Sequence[Item]) -> Dims | None:
    """Returns the output of a concrete question, or None if the rules reject it."""
    output, literals = [value for _, value in items], [value for is_dim, value in items if not is_dim]
    copied = {index for index, item in enumerate(items) if special_zero and item == (False, 0)}
    if min(literals, default=0) < -1 or literals.count(-1) > 1 or max(copied, default=-1) >= len(data):
        return None
    is_graph = operation in {reshape_pb2.OPERATION_STATIC_RESHAPE, reshape_pb2.OPERATION_DYNAMIC_RESHAPE}
    if is_graph and max(len(data), len(items)) > _GRAPH_RANK:
        return None
    for index in copied:
        output[index] = data[index]
    if -1 in literals:
        inferred, left_out = items.index((False, -1)), copied if operation == reshape_pb2.OPERATION_RESHAPE else set()
        above = prod([dim for index, dim in enumerate(data) if index not in left_out])
        below = prod([dim for index, dim in enumerate(output) if index not in {inferred, *left_out}])
        if below == 0 or above % below:
            return None
        output[inferred] = above // below
    return tuple(output) if prod(output) == prod(data) and max(output, default=0) <= MAX_DIM else None


def check(response: reshape_pb2.InferShapeResponse | None, found: Found) -> tuple[str, str]:
    """Returns the kind of fault of an answer, and a text about it; both are empty if no instance shows a fault."""
    if response is None:
        return ("unsound", f"rejected, but the rules accept {found.accepted[0]}") if found.accepted else ("", "")
    dims = [_Term.read(dim) for dim in _list_dims(response.shape)] if response.HasField("shape") else None
    conditions = [_Condition.read(condition) for condition in response.conditions]
    products = chain(dims or (), *(condition.products for condition in conditions))
    names, is_complete = {name for product in products for name in product.symbols}, response.conditions_complete
    missing = (names - case.values.keys() for case in found.accepted)
    # If the rank of the data is unknown, a condition may be about a dim that an instance does not have.
    rejected = [case for case in found.rejected if is_complete and names <= case.values.keys()]
    faults = [
        ("unsound", (f"the question does not have {one}" for one in missing if one)),
        ("unsound", (_contradict(dims, conditions, case) for case in found.accepted)),
        ("incomplete conditions", (_satisfy(conditions, case) for case in rejected)),
        ("loose", _list_loose(dims, found.accepted) if found.complete and dims is not None else ()),
    ]
    return next(((kind, text) for kind, texts in faults for text in texts if text), ("", ""))


def _contradict(dims: Sequence["_Term"] | None, conditions: Iterable["_Condition"], case: Instance) -> str:
    """Returns why an accepted instance is not within an answer; empty if it is."""
    problem = "" if dims is None else _compare(dims, case.output, case.values)
    problem = problem or next((one.text for one in conditions if not one.holds(case.values)), "")
    return f"{problem} is wrong for {case}" if problem else ""


def _compare(dims: Sequence["_Term"], output: Dims, values: Mapping[str, int]) -> str:
    """Returns the first dim that cannot have its value in an output; empty if there is none."""
    if len(dims) != len(output):
        return f"the rank {len(dims)}"
    wrong = [index for index, dim in enumerate(dims) if not dim.equals(output[index], values)]
    return f"dim {wrong[0]}" if wrong else ""


def _satisfy(conditions: Iterable["_Condition"], case: Instance) -> str:
    is_satisfied = all(condition.holds(case.values) for condition in conditions)
    return f"the conditions do not exclude {case}" if is_satisfied else ""


def _list_loose(dims: Sequence["_Term"], accepted: Sequence[Instance]) -> Iterator[str]:
    if not accepted:
        yield "no instance is accepted"
        return
    for index, (dim, ends) in enumerate(zip(dims, find_ends(accepted), strict=True)):
        if dim.bounds != ends:
            yield f"dim {index} is {dim.bounds}; the instances have {ends}"


def find_ends(accepted: Iterable[Instance]) -> list[Bounds]:
    """Returns the tightest bounds of each output dim; the upper one is MAX_DIM if the dim can be any number."""
    columns = zip(*(case.output for case in accepted), strict=True)
    return [(min(column), MAX_DIM if max(column) >= _BIG else max(column)) for column in columns]


def find_instances(request: reshape_pb2.InferShapeRequest, random: Random | None = None, budget: int = BUDGET) -> Found:
    """Tries the instances of a question. If there are more than the budget, `random` chooses some."""
    random, has_data, has_target = random or Random(0), request.data.HasField("shape"), request.HasField("shape")
    target = _list_items(request.shape) if has_target else [_UNKNOWN] * len(request.expected_shape.dims)
    shapes = [_list_dims(request.data.shape)] if has_data else [[_UNKNOWN] * rank for rank in range(_CAP)]
    found, complete = Found([], [], complete=False), has_data and has_target
    for data in shapes:
        form = _Form(request, data, target)
        complete = form.try_all(found, random, budget // len(shapes)) and complete
    return found._replace(complete=complete)


class _Term(NamedTuple):
    """A dim as a quotient of products: `coefficient * factors / (divisor * divisors)`."""

    coefficient: int
    factors: tuple[str, ...] = ()
    divisor: int = 1
    divisors: tuple[str, ...] = ()
    bounds: Bounds = (0, MAX_DIM)
    symbols: Mapping[str, Bounds] = {}

    @classmethod
    def read(cls, dim: _Dim, position: str = "") -> "_Term":
        """Reads a dim. If it has no name, its position is its name. A number is a coefficient."""
        if isinstance(dim, int):
            return cls(dim, bounds=(dim, dim))
        kind = dim.WhichOneof("kind")
        if kind == "expression":
            return cls.read_product(dim.expression)
        bounds = _read_bounds(dim.symbol.bounds if kind == "symbol" else dim.interval)
        symbols = {dim.symbol.name: bounds} if kind == "symbol" else {}
        return cls(1, (dim.symbol.name or position,), bounds=bounds, symbols=symbols)

    @classmethod
    def read_product(cls, message: tensor_pb2.Expression) -> "_Term":
        coefficient = message.coefficient if message.HasField("coefficient") else 1
        divisor = message.divisor if message.HasField("divisor") else 1
        above, below = (tuple([symbol.name for symbol in own]) for own in (message.factors, message.divisors))
        pairs = [(one.name, _read_bounds(one.bounds)) for one in (*message.factors, *message.divisors)]
        symbols = _meet([*pairs, *((name, (1, MAX_DIM)) for name in below)])
        return cls(coefficient, above, divisor, below, _read_bounds(message.bounds), symbols)

    @property
    def is_plain(self) -> bool:
        """Whether the dim is a single name."""
        return (self.coefficient, len(self.factors), self.divisor, self.divisors) == (1, 1, 1, ())

    def list_bounds(self) -> list[tuple[str, Bounds]]:
        """Returns the bounds of each name, or of the position."""
        return [*self.symbols.items()] or [(name, self.bounds) for name in self.factors]

    def multiply(self, values: Mapping[str, int]) -> tuple[int, int]:
        above, below = self.coefficient, self.divisor
        for name in self.factors:
            above *= values[name]
        for name in self.divisors:
            below *= values[name]
        return above, below

    def find(self, values: Mapping[str, int]) -> int | None:
        """Returns the value; None if there is none within the bounds."""
        above, below = self.multiply(values)
        exists = below != 0 and above % below == 0 and self.bounds[0] <= above // below <= self.bounds[1]
        return above // below if exists else None

    def equals(self, value: int, values: Mapping[str, int]) -> bool:
        """Whether this is the value of a dim, which has the empty text as its position."""
        is_bounded = all(low <= values[name] <= high for name, (low, high) in self.symbols.items())
        return is_bounded and self.find({**values, "": value}) == value


class _Condition(NamedTuple):
    kind: int
    left: _Term
    right: _Term
    unless_zero: _Term
    bounds: Bounds
    text: str

    @classmethod
    def read(cls, message: reshape_pb2.Condition) -> "_Condition":
        """Reads a condition. A product that is absent is 1."""
        left, right, unless_zero = map(_Term.read_product, (message.left, message.right, message.unless_zero))
        bounds = message.min, message.max if message.HasField("max") else MAX_DIM
        return cls(message.kind, left, right, unless_zero, bounds, message.text)

    @property
    def products(self) -> tuple[_Term, ...]:
        return self.left, self.right, self.unless_zero

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether an instance satisfies the condition."""
        (left, below), (right, _) = self.left.multiply(values), self.right.multiply(values)
        if self.unless_zero.multiply(values)[0] == 0:
            return True
        if self.kind == reshape_pb2.Condition.KIND_RANGE:
            return self.bounds[0] * below <= left <= self.bounds[1] * below
        if self.kind == reshape_pb2.Condition.KIND_EQUAL:
            return left == right
        return right == 0 if left == 0 else right % left == 0


def _read_bounds(interval: tensor_pb2.Interval) -> Bounds:
    return interval.min, interval.max if interval.HasField("max") else MAX_DIM


def _meet(pairs: Iterable[tuple[str, Bounds]]) -> dict[str, Bounds]:
    """Returns the intersection of all bounds of each name."""
    met = dict[str, Bounds]()
    for name, (low, high) in pairs:
        own = met.get(name, (low, high))
        met[name] = max(own[0], low), min(own[1], high)
    return met


class _Form:
    """A question whose ranks are known."""

    def __init__(self, request: reshape_pb2.InferShapeRequest, data: Sequence[_Dim], target: Sequence[_Dim]) -> None:
        expected = _list_dims(request.expected_shape)
        self._request, self._has_expected = request, request.HasField("expected_shape")
        symbols = {name for dim in chain(data, target, expected) for name in _Term.read(dim).symbols}
        self._data = [_Term.read(dim, _name_position(f"data[{at}]", symbols)) for at, dim in enumerate(data)]
        self._items = [_read_item(dim, _name_position(f"shape[{at}]", symbols)) for at, dim in enumerate(target)]
        self._expected = list(map(_Term.read, expected))
        items = [term for _, term in self._items]
        terms = [*self._data, *items, *self._expected]
        self._bounds = _meet(chain.from_iterable(map(_Term.list_bounds, terms)))
        self._names = list[list[str]]()  # those of the data, the others of the items, and the rest
        for side in (self._data, items, self._expected):
            names = dict.fromkeys(name for term in side for name, _ in term.list_bounds())
            self._names.append([name for name in names if name and name not in {*chain.from_iterable(self._names)}])
        self._points = {-1, 0, 1, 2, 3, _BIG}
        for low, high in (*self._bounds.values(), *(term.bounds for term in terms)):
            self._points |= {low, low + 1, low if high == MAX_DIM else high}
        # The contract promises tight bounds only for such questions.
        self._is_exact = not any(term.symbols for term in self._expected) and sum(map(_is_unknown, target)) < _CAP
        self._is_exact = self._is_exact and not any(map(_is_expression, chain(data, target)))

    def try_all(self, found: Found, random: Random, budget: int) -> bool:
        """Adds instances; returns whether no other instance can move an end of the output."""
        names, wanted, free = self._names
        rows, complete = _choose([_list_values(*self._bounds[name]) for name in names], budget, random)
        widths = [self._bounds[name][1] - self._bounds[name][0] for name in names]
        complete = complete and self._is_exact and max(widths, default=0) < _WIDEST
        for row in rows:
            values = dict(zip(names, row, strict=True))
            data = _find_all(self._data, values)
            if data is None:
                continue
            volume = prod([max(dim, 1) for dim in data])
            domains = [self._list_points(name, _list_divisors(volume)) for name in wanted]
            chosen, is_whole = _choose(domains, max(budget // len(rows), 1), random)
            complete = complete and is_whole and volume <= _LARGEST_VOLUME
            for items in chosen:
                self._try(found, data, values | dict(zip(wanted, items, strict=True)), free)
        return complete

    def _try(self, found: Found, data: Dims, values: dict[str, int], free: Sequence[str]) -> None:
        """Adds the instances with these values, for some values of the other names of the expected shape."""
        items = _find_all([term for _, term in self._items], values)
        if items is None:
            return
        kinds = [(is_dim, value) for (is_dim, _), value in zip(self._items, items, strict=True)]
        output = reshape(self._request.operation, self._request.special_zero, data, kinds)
        near = {prod(data), *data, *(output or ())}
        choices = product(*[self._list_points(name, near) for name in free])
        own = [Instance(data, items, output or (), values | dict(zip(free, one, strict=True))) for one in choices]
        # If only the expected shape has a name, a value that the rules accept makes the instance an accepted one.
        accepted = [
            one
            for one in own
            if output is not None and not (self._has_expected and _compare(self._expected, output, one.values))
        ]
        found.accepted.extend(accepted)
        found.rejected.extend(() if accepted else own)

    def _list_points(self, name: str, near: Iterable[int]) -> list[int]:
        low, high = self._bounds[name]
        return [point for point in sorted(self._points.union(near)) if low <= point <= high]


def _find_all(terms: Iterable[_Term], values: Mapping[str, int]) -> Dims | None:
    found = [term.find(values) for term in terms]
    return None if None in found else tuple([value for value in found if value is not None])


def _read_item(dim: _Dim, position: str) -> tuple[bool, _Term]:
    term, is_literal = _Term.read(dim, position), isinstance(dim, int)
    return not is_literal and not _is_unknown(dim), term._replace(bounds=(-1, MAX_DIM)) if _is_unknown(dim) else term


def _list_dims(shape: tensor_pb2.Shape) -> list[_Dim]:
    entries = {entry.index: entry for entry in shape.partial}
    return [entries.get(at, _UNKNOWN) if dim == -1 else dim for at, dim in enumerate(shape.dims)]


def _list_items(shape: reshape_pb2.TargetShape) -> list[_Dim]:
    entries = {entry.index: entry for entry in shape.partial}
    return [entries.get(at, item) for at, item in enumerate(shape.items)]


def _is_unknown(dim: _Dim) -> bool:
    return not isinstance(dim, int) and dim.WhichOneof("kind") is None


def _is_expression(dim: _Dim) -> bool:
    return not isinstance(dim, int) and dim.HasField("expression")


def _name_position(position: str, symbols: Container[str]) -> str:
    return position if position not in symbols else _name_position(f"{position}'", symbols)


def _list_values(low: int, high: int) -> range:
    return range(low, 1 + (max(_CAP, low + 2) if high == MAX_DIM else min(high, low + _WIDEST)))


@lru_cache(1 << 16)
def _list_divisors(number: int) -> frozenset[int]:
    lows = [low for low in range(1, isqrt(min(number, _LARGEST_VOLUME)) + 1) if number % low == 0]
    return frozenset([*lows, *(number // low for low in lows)])


def _choose(domains: Sequence[Sequence[int]], count: int, random: Random) -> tuple[list[Dims], bool]:
    """Returns one value of each domain in all ways, or in some; and whether these are all."""
    if prod(map(len, domains)) <= count:
        return list(product(*domains)), True
    return [tuple(map(random.choice, domains)) for _ in range(count)], False
