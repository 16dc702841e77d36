"""A second implementation of the operations, which answers the queries of the conformance suite.

It follows the pages about the rules and the README of the suite, as the program of a user would. It imports nothing of
the product. Its answers about partial shapes may be wider than those of the suite.
`planted_mistakes` changes the text of this file.
"""

import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product as combine
from math import ceil, floor, gcd, prod
from typing import Any, NamedTuple, TypeAlias

Json: TypeAlias = dict[str, Any]
Bounds: TypeAlias = tuple[int, int | None]

MAX = 2**63 - 1
ANY: Bounds = (0, None)
_MAX_COMBINATIONS = 600
_MAX_ROUNDS = 100

_GRAPH = ("OPERATION_STATIC_RESHAPE", "OPERATION_DYNAMIC_RESHAPE")
_TYPES = {
    8: "BOOLEAN I8 U8 F8E4M3 F8E5M2 F8E8M0",
    16: "I16 U16 F16 BF16",
    32: "I32 U32 F32",
    64: "I64 U64 F64",
    1: "U1",
    2: "U2",
    3: "U3",
    4: "U4 I4 NF4 F4E2M1",
    6: "U6",
}
_BITS = {short: bits for bits, names in _TYPES.items() for short in names.split()}
_NOT_IN_ONNX = ("U1", "U3", "U6", "NF4")


class Product(NamedTuple):
    """A number times powers of names. The powers of divisors are negative."""

    number: Fraction
    powers: Mapping[str, int]


class Item(NamedTuple):
    """An item of the requested shape: its size, or None if it is inferred, and whether it is copied."""

    size: Product | None
    is_copied: bool = False


class Equation(NamedTuple):
    """Two products are equal, unless a third one is 0."""

    left: Product
    right: Product
    unless: Product


def number(value: int) -> Product:
    return Product(Fraction(value), {})


def name(text: str) -> Product:
    return Product(Fraction(1), {text: 1})


def multiply(products: Iterable[Product]) -> Product:
    value, powers = Fraction(1), Counter[str]()
    for one in products:
        value *= one.number
        for text, power in one.powers.items():
            powers[text] += power
    return Product(value, {text: power for text, power in powers.items() if power and value})


def invert(one: Product) -> Product:
    return Product(1 / one.number, {text: -power for text, power in one.powers.items()})


class System:
    """The unknown numbers of a query: their bounds, and the equations between them."""

    def __init__(self) -> None:
        self.bounds: dict[str, Bounds] = {}
        self.declared: dict[str, Bounds] = {}
        self.hidden: set[str] = set()
        self.equations: list[Equation] = []
        self.ranges: list[tuple[Product, Bounds]] = []
        self.is_complete = True
        self.names = 0

    def declare(self, text: str, bounds: Bounds, *, is_hidden: bool = False) -> Product:
        self.bounds.setdefault(text, ANY)
        self.narrow(text, *bounds)
        self.declared[text] = self.bounds[text]
        if is_hidden:
            self.hidden.add(text)
        return name(text)

    def narrow(self, text: str, low: int, high: int | None) -> None:
        old_low, old_high = self.bounds[text]
        low = max(low, old_low)
        high = old_high if high is None else high if old_high is None else min(high, old_high)
        if low > MAX or (high is not None and high < low):
            raise ValueError(f"no number is possible for {text}")
        self.bounds[text] = (low, high)

    def find_bounds(self, one: Product) -> Bounds:
        if one.number == 0 or any(self.bounds[text] == (0, 0) for text, power in one.powers.items() if power > 0):
            return (0, 0)
        low, high = one.number, one.number
        is_open = False
        for text, power in one.powers.items():
            least, most = self.bounds[text]
            if power > 0:
                low *= least**power
                is_open, high = is_open or most is None, high * (most or 1) ** power
            else:
                low = Fraction(0) if most is None else low / max(most, 1) ** -power
                high /= max(least, 1) ** -power
        return ceil(low), None if is_open else floor(high)

    def equate(self, left: Product, right: Product) -> None:
        """Adds an equation, without the factors that both sides have."""
        if left.number == 0 or right.number == 0:
            self.equations.append(Equation(left, right, number(1)))
            return
        common = {
            text: min(power, right.powers[text])
            for text, power in left.powers.items()
            if power > 0 and right.powers.get(text, 0) > 0
        }
        ratio = multiply([left, invert(right)])
        above = Product(Fraction(ratio.number.numerator), {text: one for text, one in ratio.powers.items() if one > 0})
        below = {text: -one for text, one in ratio.powers.items() if one < 0}
        self.equations.append(
            Equation(above, Product(Fraction(ratio.number.denominator), below), Product(Fraction(1), common))
        )

    def solve(self) -> None:
        for _ in range(2):
            self._propagate_all()
            self._enumerate()
        for one, (low, high) in self.ranges:
            least, most = self.find_bounds(one)
            if (high is not None and least > high) or (most is not None and most < low):
                raise ValueError("a product cannot be in its range")

    def _propagate_all(self) -> None:
        for _ in range(_MAX_ROUNDS):
            before = dict(self.bounds)
            for equation in self.equations:
                self._propagate(equation)
            if before == self.bounds:
                break

    def _propagate(self, equation: Equation) -> None:
        left, right, unless = equation
        if self.find_bounds(unless)[0] < 1:
            if not left.powers and not right.powers and left.number != right.number:
                zeros = [text for text in unless.powers if self.bounds[text][0] == 0]
                if len(zeros) == 1:
                    self.narrow(zeros[0], 0, 0)
            return
        for side, other in ((left, right), (right, left)):
            low, high = self.find_bounds(other)
            least, most = self.find_bounds(side)
            if (most is not None and most < low) or (high is not None and least > high):
                raise ValueError("the numbers of elements differ")
            for text, power in side.powers.items():
                if low >= 1:
                    self.narrow(text, 1, None)
                rest = {other_text: one for other_text, one in side.powers.items() if other_text != text}
                self._narrow_factor(text, power, Product(side.number, rest), (low, high))
            if list(side.powers.values()) == [1] and side.number and other.number:
                (text,) = side.powers
                self._round(text, int(other.number) // gcd(int(side.number), int(other.number)))

    def _narrow_factor(self, text: str, power: int, rest: Product, bounds: Bounds) -> None:
        (low, high), (least, most) = bounds, self.find_bounds(rest)
        if most:
            self.narrow(text, _find_root(-(-low // most), power, is_up=True), None)
        if high is not None and least >= 1:
            self.narrow(text, 0, _find_root(high // least, power, is_up=False))

    def _round(self, text: str, step: int) -> None:
        """Rounds the bounds of a name to multiples of a number."""
        low, high = self.bounds[text]
        self.narrow(text, -(-low // step) * step, None if high is None else high // step * step)

    def _enumerate(self) -> None:
        """Tries all numbers of all names but one, for which the first equation is solved."""
        equations = [one for one in self.equations if one.left.powers or one.right.powers]
        if not equations:
            return
        left, right, unless = equations[0]
        widths = {
            text: MAX if self.bounds[text][1] is None else (self.bounds[text][1] or 0) - self.bounds[text][0] + 1
            for text in sorted({text for one in equations for part in one for text in part.powers})
        }
        solvable = [
            text for text in widths if {**left.powers, **right.powers}.get(text) == 1 and text not in unless.powers
        ]
        if not solvable:
            return
        last = max(solvable, key=lambda text: widths[text])
        others = [text for text in widths if text != last]
        if prod(widths[text] for text in others) > _MAX_COMBINATIONS:
            return
        found: list[dict[str, Bounds]] = []
        for values in combine(*(range(self.bounds[text][0], (self.bounds[text][1] or 0) + 1) for text in others)):
            known = dict(zip(others, values, strict=True))
            solved = self._solve_for(last, equations, known)
            if solved is not None:
                found.append({**{text: (value, value) for text, value in known.items()}, last: solved})
        if not found:
            raise ValueError("no numbers are accepted")
        for text in widths:
            highs = [one[text][1] for one in found]
            known_highs = [high for high in highs if high is not None]
            high = max(known_highs) if len(known_highs) == len(highs) else None
            self.narrow(text, min(one[text][0] for one in found), high)

    def _solve_for(self, last: str, equations: Sequence[Equation], known: Mapping[str, int]) -> Bounds | None:
        left, right, unless = equations[0]
        side, other = (left, right) if last in left.powers else (right, left)
        factor = _evaluate(side, {**known, last: 1})
        value, bounds = _evaluate(other, known), self.bounds[last]
        if factor == 0 or _evaluate(unless, known) == 0:
            return bounds if value == 0 or _evaluate(unless, known) == 0 else None
        if value % factor:
            return None
        found = value // factor
        if found < bounds[0] or (bounds[1] is not None and found > bounds[1]) or found > MAX:
            return None
        values = {**known, last: found}
        holds = all(
            _evaluate(one.left, values) == _evaluate(one.right, values) or not _evaluate(one.unless, values)
            for one in equations
        )
        return (found, found) if holds else None


def _evaluate(one: Product, values: Mapping[str, int]) -> int:
    result = int(one.number)
    for text, power in one.powers.items():
        result *= values[text] ** power
    return result


def _find_root(value: int, power: int, *, is_up: bool) -> int:
    if power == 1 or value <= 1:
        return value
    root = 1 << -(-value.bit_length() // power)
    while root**power > value:
        root = ((power - 1) * root + value // root ** (power - 1)) // power
    return root + 1 if is_up and root**power < value else root


def answer(query: Json) -> Json:
    """Returns the answer to a query of the suite."""
    try:
        return _answer(query["question"])
    except ValueError as error:
        return {"rejection": {"message": str(error)}}


def _answer(question: Json) -> Json:
    data, operation = question["data"], question["operation"]
    _check_type(operation, data.get("dataType"))
    if "specialZero" not in question:
        raise ValueError("special_zero is missing")
    shape = {"dims": data["dims"]} if "data" in data else data.get("shape")
    target, expected = question.get("shape"), question.get("expectedShape")
    largest = 12 if operation in _GRAPH else 64
    if len((shape or {}).get("dims", [])) > largest or len((target or {}).get("items", [])) > largest:
        raise ValueError("the rank is too large")
    if target is None and expected is not None:
        unknown = range(len(expected.get("dims", [])))
        target = {"items": [-1 for _ in unknown], "partial": [{"index": index} for index in unknown]}
    found = [
        _infer(question, shape, target, expected, copied) for copied in _list_alternatives(question, shape, target)
    ]
    accepted = [one for one in found if not isinstance(one, ValueError)]
    if not accepted:
        raise found[0]  # type: ignore[misc] # nothing but errors was found
    if "data" in data:
        if target is None or target.get("partial") or "shape" not in question:
            raise ValueError("the requested shape is not known")
        dims = accepted[0]["answer"].get("shape", {}).get("dims", [])
        return {"output": {"dataType": data["dataType"], "dims": dims, "data": _execute(data)}}
    return accepted[0] if len(accepted) == 1 else _unite([one["answer"]["shape"] for one in accepted])


def _check_type(operation: str, data_type: str | None) -> None:
    if data_type is None:
        return
    short = data_type.removeprefix("DATA_TYPE_")
    if operation in _GRAPH:
        is_supported = short in {"F32", "F16", "BF16"}
    else:
        is_supported = short in _BITS and not (operation == "OPERATION_ONNX_RESHAPE" and short in _NOT_IN_ONNX)
    if not is_supported:
        raise ValueError(f"{operation} does not support {short}")


def _list_alternatives(question: Json, shape: Json | None, target: Json | None) -> list[frozenset[int]]:
    """Returns the sets of unknown items that copy, if it matters: only Reshape-1 removes copies from the division."""
    items, partial = (target or {}).get("items", []), (target or {}).get("partial", [])
    described = {entry["index"] for entry in partial}
    is_inferred = any(item == -1 and index not in described for index, item in enumerate(items))
    if question["operation"] != "OPERATION_RESHAPE" or not question["specialZero"] or not is_inferred:
        return [frozenset()]
    rank = len(items) if shape is None else len(shape.get("dims", []))
    unknown = [entry["index"] for entry in partial if len(entry) == 1 and entry["index"] < rank][:3]
    sets = combine(*([frozenset(), frozenset({index})] for index in unknown))
    return [frozenset().union(*parts) for parts in sets]


def _infer(
    question: Json, shape: Json | None, target: Json | None, expected: Json | None, copied: frozenset[int]
) -> Json | ValueError:
    try:
        system = System()
        data = None if shape is None else _read_dims(system, shape, "data")
        wanted = None if expected is None else _read_expected(system, expected)
        if target is None:
            return {"answer": {}}
        items = _read_items(system, target, data, copied, copies=question["specialZero"])
        outputs = _resolve(system, data, items, removes_copies=question["operation"] == "OPERATION_RESHAPE")
        if wanted is not None:
            _expect(system, [one for one, _ in outputs], wanted)
        system.solve()
    except ValueError as error:
        return error
    dims = [_describe(system, *one) for one in outputs]
    found = list(_list_conditions(system))
    conditions = [one for one in found if _fits(one)]
    complete = system.is_complete and data is not None and conditions == found
    return {"answer": {"shape": _write_shape(dims), "conditions": conditions, "conditionsComplete": complete}}


def _fits(condition: Json) -> bool:
    """Whether the numbers of a condition fit into 64 bits."""
    products = [condition[key] for key in ("left", "right", "unlessZero") if key in condition]
    return all(one["coefficient"] <= MAX and one["divisor"] <= MAX for one in products)


def _read_bounds(entry: Json) -> Bounds:
    low, high = entry.get("min", 0), entry.get("max")
    if low < 0 or low > MAX or (high is not None and (high > MAX or high < low)):
        raise ValueError("the bounds are not valid")
    return low, high


def _read_entries(shape: Json, key: str) -> dict[int, Json]:
    entries = {entry["index"]: entry for entry in shape.get("partial", [])}
    numbers, indexes = shape.get(key, []), [entry["index"] for entry in shape.get("partial", [])]
    if indexes != sorted(set(indexes)):
        raise ValueError("the entries do not ascend")
    if any(index >= len(numbers) or numbers[index] != -1 for index in entries):
        raise ValueError("an entry does not belong to a -1")
    return entries


def _read_entry(system: System, entry: Json, position: str) -> Product:
    """Returns the size that an entry of `partial` describes."""
    if "symbol" in entry:
        return _read_symbol(system, entry["symbol"])
    if "expression" in entry:
        return _read_expression(system, entry["expression"])
    return system.declare(position, _read_bounds(entry.get("interval", {})))


def _read_symbol(system: System, symbol: Json) -> Product:
    text, (low, high) = symbol["name"], _read_bounds(symbol.get("bounds", {}))
    system.names += 1
    if not 1 <= len(text) <= 64 or not text.isprintable() or system.names > 256:
        raise ValueError("a name is too long, or not printable, or there are too many names")
    words = text.split(" + ")
    if all(re.fullmatch("[A-Za-z0-9_]+", word) for word in words):  # no word of a sum is below 0
        low = max(low, sum(int(word) for word in words if word.isdecimal()) if len(words) > 1 else 0)
    return system.declare(text, (low, high))


def _read_expression(system: System, expression: Json) -> Product:
    coefficient, divisor = expression.get("coefficient", 1), expression.get("divisor", 1)
    if not 1 <= coefficient <= MAX or not 1 <= divisor <= MAX:
        raise ValueError("a factor is not from 1 to 2^63 - 1")
    if not 1 <= len(expression.get("factors", [])) + len(expression.get("divisors", [])) <= 64:
        raise ValueError("an expression does not have 1 to 64 names")
    above = [_read_symbol(system, symbol) for symbol in expression.get("factors", [])]
    below = [_read_symbol(system, symbol) for symbol in expression.get("divisors", [])]
    for one in below:
        for text in one.powers:
            system.narrow(text, 1, None)
    found = multiply([Product(Fraction(coefficient, divisor), {}), *above, *map(invert, below)])
    if not found.powers and found.number.denominator > 1:
        raise ValueError("a dim is not a whole number")
    if "bounds" in expression:
        system.ranges.append((found, _read_bounds(expression["bounds"])))
    return found


def _read_dims(system: System, shape: Json, side: str) -> list[Product]:
    entries, dims = _read_entries(shape, "dims"), []
    for index, dim in enumerate(shape.get("dims", [])):
        if not -1 <= dim <= MAX:
            raise ValueError(f"dim {index} is not from 0 to 2^63 - 1")
        dims.append(number(dim) if dim != -1 else _read_entry(system, entries.get(index, {}), f"{side}[{index}]"))
    return dims


def _read_expected(system: System, expected: Json) -> list[Product]:
    dims = _read_dims(system, expected, "expected")
    for text in system.bounds:
        if text.startswith("expected["):
            system.hidden.add(text)
    return dims


def _read_items(
    system: System, target: Json, data: list[Product] | None, copied: frozenset[int], *, copies: bool
) -> list[Item]:
    entries, items = _read_entries(target, "items"), list[Item]()
    for index, item in enumerate(target.get("items", [])):
        entry, position = entries.get(index), f"shape[{index}]"
        if entry is not None and len(entry) == 1 and index not in copied:
            system.is_complete = False
            items.append(Item(system.declare(position, ANY, is_hidden=True)))
        elif entry is not None and len(entry) > 1:
            items.append(Item(_read_entry(system, entry, position)))
        elif item == -1 and entry is None:
            if any(one.size is None for one in items):
                raise ValueError("a second item is -1")
            items.append(Item(None))
        elif item < -1 or item > MAX:
            raise ValueError(f"item {index} is not from -1 to 2^63 - 1")
        elif index in copied or (copies and item == 0):
            if data is not None and index >= len(data):
                raise ValueError(f"item {index} copies a dim that does not exist")
            size = system.declare(f"data[{index}]", ANY, is_hidden=True) if data is None else data[index]
            items.append(Item(size, is_copied=True))
        else:
            items.append(Item(number(item)))
    return items


def _resolve(
    system: System, data: list[Product] | None, items: Sequence[Item], *, removes_copies: bool
) -> list[tuple[Product, Product]]:
    """Adds the equation between the numbers of elements. Returns each output dim, and the product to show for it."""
    sizes = [item.size for item in items]
    if None not in sizes:
        known = [size for size in sizes if size is not None]
        if data is not None:
            system.equate(multiply(data), multiply(known))
        return [(size, size) for size in known]
    removed = {index for index, item in enumerate(items) if removes_copies and item.is_copied}
    below = multiply(size for index, size in enumerate(sizes) if size is not None and index not in removed)
    if below.number == 0:
        raise ValueError("a -1 is next to a 0")
    for text, power in below.powers.items():
        if power > 0:
            system.narrow(text, 1, None)
    inferred = system.declare(f"shape[{sizes.index(None)}]", ANY, is_hidden=True)
    shown = inferred
    if data is not None:
        above = multiply(dim for index, dim in enumerate(data) if index not in removed)
        system.equate(above, multiply([below, inferred]))
        shown = multiply([above, invert(below)])
    return [(inferred, shown) if size is None else (size, size) for size in sizes]


def _expect(system: System, outputs: Sequence[Product], wanted: Sequence[Product]) -> None:
    if len(outputs) != len(wanted):
        raise ValueError("the rank is not the expected one")
    for output, dim in zip(outputs, wanted, strict=True):
        if list(output.powers.values()) == [1] and output.number == 1:
            (text,) = output.powers
            system.narrow(text, *system.find_bounds(dim))
            if text in system.hidden:
                system.declared[text] = system.bounds[text]
        elif output.powers:
            system.ranges.append((output, system.find_bounds(dim)))
        if not dim.powers or any(text.startswith("expected[") for text in dim.powers):
            low, high = system.find_bounds(dim)
            least, most = system.find_bounds(output)
            if (high is not None and least > high) or (most is not None and most < low):
                raise ValueError("an output dim is not the expected one")
        else:
            system.equate(output, dim)


def _describe(system: System, output: Product, shown: Product) -> tuple[int, Json | None]:
    """Returns an output dim and its entry of `partial`."""
    low, high = system.find_bounds(output)
    if low == high:
        return low, None
    bounds = _write_bounds((low, high))
    if not shown.powers or any(text in system.hidden or text.endswith("]") for text in shown.powers):
        return -1, {"interval": bounds} if bounds else None
    if shown.number == 1 and list(shown.powers.values()) == [1]:
        return -1, {"symbol": {"name": next(iter(shown.powers)), "bounds": bounds}}
    return -1, {"expression": {**_write_product(shown), "bounds": bounds}}


def _write_bounds(bounds: Bounds) -> Json:
    low, high = bounds
    return {**({"min": low} if low else {}), **({} if high is None else {"max": high})}


def _write_product(one: Product) -> Json:
    above = [{"name": text} for text, power in sorted(one.powers.items()) for _ in range(power)]
    below = [{"name": text} for text, power in sorted(one.powers.items()) for _ in range(-power)]
    written = {"coefficient": one.number.numerator, "factors": above, "divisor": one.number.denominator}
    return {**written, "divisors": below}


def _write_shape(dims: Sequence[tuple[int, Json | None]]) -> Json:
    partial = [{"index": index, **entry} for index, (_, entry) in enumerate(dims) if entry is not None]
    return {"dims": [dim for dim, _ in dims], "partial": partial}


def _list_conditions(system: System) -> Iterator[Json]:
    for text, declared in system.declared.items():
        low, high = system.bounds[text]
        if (low, high) != declared and text not in system.hidden:
            limits = {**({"min": low} if low > declared[0] else {}), **({} if high is None else {"max": high})}
            yield {"kind": "KIND_RANGE", "left": _write_product(name(text)), **limits}
    for left, right, unless in system.equations:
        hidden = [text for text in {**left.powers, **right.powers} if text in system.hidden]
        if not hidden:
            if left != right:
                may_be_zero = {} if system.find_bounds(unless)[0] else {"unlessZero": _write_product(unless)}
                sides = {"left": _write_product(left), "right": _write_product(right)}
                yield {"kind": "KIND_EQUAL", **sides, **may_be_zero}
        elif len(hidden) == 1 and right.powers.get(hidden[0]) == 1:
            divisor = Product(right.number, {text: one for text, one in right.powers.items() if text != hidden[0]})
            if divisor.powers or divisor.number > 1:
                yield {"kind": "KIND_DIVIDES", "left": _write_product(divisor), "right": _write_product(left)}
            limits = _write_bounds(system.declared[hidden[0]])
            if limits and left.powers:
                quotient = multiply([left, invert(divisor)])
                yield {"kind": "KIND_RANGE", "left": _write_product(quotient), **limits}


def _unite(shapes: Sequence[Json]) -> Json:
    """Returns the shape that contains several shapes of equal rank."""
    dims: list[tuple[int, Json | None]] = []
    for index in range(len(shapes[0]["dims"])):
        bounds = [_get_bounds(shape, index) for shape in shapes]
        highs = [high for _, high in bounds if high is not None]
        low, high = min(low for low, _ in bounds), max(highs) if len(highs) == len(bounds) else None
        interval = _write_bounds((low, high))
        dims.append((low, None) if low == high else (-1, {"interval": interval} if interval else None))
    return {"answer": {"shape": _write_shape(dims), "conditions": [], "conditionsComplete": False}}


def _get_bounds(shape: Json, index: int) -> Bounds:
    dim = shape["dims"][index]
    if dim >= 0:
        return dim, dim
    (entry,) = [one for one in shape["partial"] if one["index"] == index] or [{}]
    kind = entry.get("symbol") or entry.get("expression") or {"bounds": entry.get("interval", {})}
    return kind["bounds"].get("min", 0), kind["bounds"].get("max")


def _execute(data: Json) -> str:
    """Returns the bytes of the output in base64: the elements in row-major order."""
    raw, dims, strides = b64decode(data["data"]), data["dims"], data.get("strides")
    bits = _BITS[data["dataType"].removeprefix("DATA_TYPE_")]
    if bits < 8:
        if strides:
            raise ValueError("elements below one byte have no strides")
        if len(raw) != -(-prod(dims) * bits // 8):
            raise ValueError("the number of bytes is wrong")
        return b64encode(raw).decode()
    size = bits // 8
    if not strides:
        strides = [prod(dims[index + 1 :]) for index in range(len(dims))]
    if len(strides) != len(dims) or any(stride < 0 for stride in strides):
        raise ValueError("the strides are not valid")
    places = [0]
    for dim, stride in zip(dims, strides, strict=True):
        places = [place + index * stride for place in places for index in range(dim)]
    span = 1 + sum((dim - 1) * stride for dim, stride in zip(dims, strides, strict=True)) if places else 0
    if len(raw) != span * size:
        raise ValueError("the number of bytes is wrong")
    repeats = prod(dim for dim, stride in zip(dims, strides, strict=True) if stride == 0)
    if len(set(places)) * repeats != len(places):
        raise ValueError("elements overlap")
    return b64encode(b"".join(raw[place * size : (place + 1) * size] for place in places)).decode()
