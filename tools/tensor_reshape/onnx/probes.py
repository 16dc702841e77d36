"""Tries sizes of a model's inputs, so that a computation confirms each verdict about the model.

A probe computes the model for one choice of sizes. The search first finds sizes that every node accepts, which are the
base point. From there, it changes each dynamic dim separately, and then several dims together. The tried values include
those that a condition mentions, and their neighbours.

Invariants:

- Dims with the same name get the same size, and all sizes are within the declared bounds.
- Dims that can only change together, for example the lengths of a cache and of a mask, cause no finding.
- If a node such as Gemm rejects the sizes of a probe, this rejection is not a finding about a Reshape node.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations, islice, product
from math import lcm, prod
from typing import NamedTuple, TypeAlias

from tensor_reshape.onnx.dim_params import DimParams, Key, compute, list_words, read_formula
from tensor_reshape.onnx.interpreter import Decision, Dims, Interpreter, OutOfTimeError, Run
from tensor_reshape.onnx.models import ModelSource
from tensor_reshape.onnx.requirements import Requirement
from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.dims import AnyDim, Dim, Expression

Sizes: TypeAlias = Mapping[str, int]
"""The size of each dynamic dim, by its name."""

SECONDS = 5.0
"""The time in which probes are made. One probe takes half a second in a model of 5,000 nodes."""

_MAX_PROBES = 2000
_MAX_SOLUTIONS = 8  # maximum number of solutions of the conditions that are tried
_MAX_STEPS = 20_000  # maximum number of steps of the search for solutions
_MAX_SIZE = 4096  # larger sizes would only slow down the arithmetic, unless a condition contains a larger number
_MAX_NUMBER = 2**31
_SMALL, _MAX_NAMES, _MAX_VIOLATIONS = 5, 4, 3  # limits for sizes that are tried because they violate a condition
_FIRST = (8, 16, 32, 64, 224, 7, 14, 12, 10, 28, 56, 112, 128, 256, 512)
_COMMON = (*_FIRST, *(size for size in (*range(2, 100), *range(112, 1025, 16)) if size not in _FIRST), 1)
"""Sizes of dims other than the first, in the order in which the search for a base point tries them."""
_COMMON_MULTIPLE = 5040  # a common multiple of many small numbers
_MAX_SUMS = 6  # if a model has more dims than this, no dim is tried as the sum of two others


class RejectedSizes(NamedTuple):
    """Sizes that a Reshape node rejects, although no node before it fails.

    Attributes:
        key: the path of the node's graph, and the name of the node's output.
        sizes: the size of each dynamic dim, by its name.
        decision: the shapes of the node, and the error.
    """

    key: Key
    sizes: Sizes
    decision: Decision


@dataclass(slots=True)
class Probes:
    """The results of all probes of a model.

    Attributes:
        base: the base point, which is a choice of sizes that every node accepts. None if the search has found none.
        reason: the reason why no base point was found, or an empty text.
        accepted: the choices of sizes that every node accepts, each with the result for these sizes.
        rejections: choices of sizes that a Reshape node rejects, each with the first node that rejects them.
        best: the result for the base point. If there is no base point, the result for the sizes with the most known
            tensors.
        names: the names of the dynamic dims, and the formulas that contain these names.
        leading: the name of the dim that comes first in most inputs, which is usually the batch size.
        is_static: whether no input has a dynamic dim, so that there is only one choice of sizes.
        needs: a sentence for each node other than Reshape that rejects sizes, such as `Gemm /fc cannot run with [2,
            192], [64, 10] if batch=3`.
        ties: groups of dims that can only change together, for example the lengths of a cache and of a mask.
        tried: the number of probes, which is the number of tried choices of sizes.
    """

    base: Sizes | None = None
    reason: str = ""
    accepted: list[tuple[Sizes, Run]] = field(default_factory=list)
    rejections: list[RejectedSizes] = field(default_factory=list)
    needs: dict[Key, str] = field(default_factory=dict)
    ties: list[set[str]] = field(default_factory=list)
    best: Run | None = None
    names: frozenset[str] = frozenset()
    leading: set[str] = field(default_factory=set)
    is_static: bool = False
    tried: int = 0


class FreeDims:
    """The dynamic dims of the inputs of a model.

    Attributes:
        bounds: the declared bounds of each dim, by name.
        leading: the name of the dim that comes first in most inputs, which is usually the batch size.
        missing: the reason why the shapes of the inputs cannot be built from sizes, or an empty text.
    """

    def __init__(self, source: ModelSource, params: DimParams, names: Iterable[str]) -> None:
        """Reads the inputs of a model, except for inputs with a default value.

        `names` are further names, which may be formulas of dims.
        """
        defaults = {tensor.name for tensor in source.model.graph.initializer}
        self._dims: dict[str, tuple[AnyDim, ...]] = {}
        self.missing = ""
        for given in source.model.graph.input:
            if given.name in defaults or not given.type.HasField("tensor_type"):
                continue
            if not given.type.tensor_type.HasField("shape"):
                self.missing = f"the input {given.name} has no declared rank"
                continue
            self._dims[given.name] = params.read_shape(("", given.name), given.type.tensor_type.shape)
        symbols = {
            symbol.name: symbol.bounds
            for dims in self._dims.values()
            for dim in dims
            if isinstance(dim, Dim) and dim.expression is not None
            for symbol in dim.expression.symbols
        }
        self._formulas = {
            name: formula
            for name in {*symbols, *names}
            if (formula := read_formula(name)) is not None and list_words(formula) <= symbols.keys()
            # A declared name such as `h/7` is a free dim if the formula has no value for common sizes.
            if name not in symbols or compute(formula, dict.fromkeys(list_words(formula), _COMMON_MULTIPLE)) is not None
        }
        self.bounds = {name: bounds for name, bounds in symbols.items() if name not in self._formulas}
        first = Counter(str(dims[0]) for dims in self._dims.values() if dims)
        self.leading = {name for name, _ in first.most_common(1)} & set(self.bounds)

    def complete(self, sizes: Sizes) -> Sizes:
        """Returns the sizes together with the values of formulas such as `past + length`."""
        computed = {name: compute(formula, sizes) for name, formula in self._formulas.items()}
        return {**sizes, **{name: value for name, value in computed.items() if value is not None}}

    @property
    def names(self) -> frozenset[str]:
        """The names of the dims, and the formulas that contain these names."""
        return frozenset({*self.bounds, *self._formulas})

    def uses(self, name: str, other: str) -> bool:
        """Whether `name` is equal to `other`, or is a formula that contains `other`."""
        return name == other or (name in self._formulas and other in list_words(self._formulas[name]))

    def build(self, sizes: Sizes) -> dict[str, Dims] | None:
        """Returns the shapes of the inputs for these sizes, or None if a declared dim would not be a whole number."""
        known = self.complete(sizes)
        built = {name: tuple(evaluate_dim(dim, known) for dim in dims) for name, dims in self._dims.items()}
        return None if any(None in dims for dims in built.values()) else built


class _ProbeSearch:
    """Searches for probes and runs them, until the time is over."""

    def __init__(
        self, source: ModelSource, params: DimParams, requirements: Sequence[Requirement], seconds: float
    ) -> None:
        self._all_conditions = [one.condition for one in requirements]
        names = {name for condition in self._all_conditions for name in condition.symbols}
        self.free = FreeDims(source, params, names | params.formulas)
        self._interpreter = Interpreter(source)
        self._conditions = [
            one.condition for one in requirements if not one.graph and one.condition.symbols <= self.free.names
        ]
        self._numbers = _list_divisors(self._conditions)
        self._largest = max([_MAX_SIZE, *(2 * number for number in self._numbers)])
        self._deadline = time.thread_time() + seconds
        self._left = _MAX_STEPS
        self._runs: dict[tuple[tuple[str, int], ...], Run | None] = {}
        self.result = Probes()

    def run(self) -> Probes:
        """Runs the search, and returns the results of its probes."""
        result = self.result
        result.is_static, result.leading = not self.free.bounds, self.free.leading
        result.names = self.free.names
        if self.free.missing:
            result.reason = self.free.missing
            return result
        with suppress(OutOfTimeError):
            best = self._find_base()
            if best is None:
                return result
            result.base, result.best = best
            self._vary(result.base)
            self._violate(result.base)
            if not result.ties:
                self._add_other_rejections()
        if result.base is None and not result.reason:
            result.reason = "the time for probes was over before sizes were found that every node accepts"
        return result

    def _try(self, sizes: Sizes) -> Run | None:
        """Runs a probe and returns its result, or None if the sizes do not fit the declared dims."""
        key = tuple(sorted(sizes.items()))
        if key not in self._runs:
            built = self.free.build(sizes) if self._is_legal(sizes) else None
            if built is None:
                self._runs[key] = None
                return None
            if len(self._runs) >= _MAX_PROBES:
                raise OutOfTimeError
            run = self._runs[key] = self._interpreter.run(built, self._deadline)
            self.result.tried += 1
            if _accepts(run):
                self.result.accepted.append((self.free.complete(sizes), run))
        return self._runs[key]

    def _is_legal(self, sizes: Sizes) -> bool:
        return all(
            1 <= size <= max(self._largest, bounds.min) and bounds.holds(size)
            for name, bounds in self.free.bounds.items()
            for size in [sizes[name]]
        )

    def _find_base(self) -> tuple[Sizes, Run] | None:
        best: tuple[int, Sizes, Run] | None = None
        for sizes in self._list_candidates():
            run = self._try(sizes)
            if run is None:
                continue
            if _accepts(run):
                return sizes, run
            score = _count_known(run)
            if best is None or score > best[0]:
                best = score, sizes, run
            if not self.free.bounds:
                break
        if best is None:
            self.result.reason = "no sizes fit the declared dimensions of the inputs"
            return None
        _, sizes, run = best
        found = self._climb(sizes, best[0]) if self.free.bounds else None
        if found is None:
            self._explain_failure(sizes, run)
        return found

    def _climb(self, sizes: Sizes, score: int) -> tuple[Sizes, Run] | None:
        """Looks for a base point by changing one dim after the other, as long as this makes more tensors known."""
        is_better = True
        while is_better:
            is_better = False
            for name in self.free.bounds:
                for size in _COMMON:
                    changed = {**sizes, name: size}
                    run = self._try(changed)
                    if run is None:
                        continue
                    if _accepts(run):
                        return changed, run
                    new = _count_known(run)
                    if new > score:
                        sizes, score, is_better = changed, new, True
        return None

    def _explain_failure(self, sizes: Sizes, run: Run) -> None:
        self.result.best = run
        if run.failures:
            reason = next(iter(run.failures.values()))
        else:
            reason = f"the node {next(iter(run.rejections))[1]} rejects them"
        shown = f" for {format_sizes(sizes)}" if sizes else ""
        self.result.reason = f"no sizes were found that every node accepts:{shown} {reason}"

    def _list_candidates(self) -> Iterator[Sizes]:
        names = list(self.free.bounds)
        for lead in (2, 1):
            yield from islice(self._solve({}, names, lead), _MAX_SOLUTIONS)
        for size in _FIRST:
            yield self._spread(2, size)
        yield from self._list_sums(self._spread(2, _FIRST[0]))
        for lead in (2, 1):
            for size in _COMMON:
                yield self._spread(lead, size)
        for size in _COMMON:
            yield {name: self._fit(name, size) for name in names}

    def _solve(self, sizes: Sizes, names: Sequence[str], lead: int) -> Iterator[Sizes]:
        """Yields sizes that satisfy all conditions, except conditions with names that are not dims of inputs."""
        known = self.free.complete(sizes)
        for condition in self._conditions:
            if not _may_hold(condition, known):
                return
        if not names:
            yield sizes
            return
        name, *rest = names
        first = (lead,) if name in self.free.leading else ()
        is_bound = any(self.free.uses(symbol, name) for condition in self._conditions for symbol in condition.symbols)
        for size in dict.fromkeys((*first, *self._numbers, *_FIRST, *_COMMON) if is_bound else (*first, 8)):
            self._left -= 1
            if self._left < 0:
                return
            yield from self._solve({**sizes, name: self._fit(name, size)}, rest, lead)

    def _spread(self, lead: int, size: int) -> Sizes:
        return {name: self._fit(name, lead if name in self.free.leading else size) for name in self.free.bounds}

    def _list_sums(self, sizes: Sizes) -> Iterator[Sizes]:
        """Yields sizes in which one dim is the sum of two other dims, for example the length of a mask."""
        if len(sizes) > _MAX_SUMS:
            return
        for name in sizes:
            for pair in combinations([other for other in sizes if other != name], 2):
                yield {**sizes, name: sum(sizes[other] for other in pair)}

    def _fit(self, name: str, size: int) -> int:
        """Returns the size nearest to `size` that is within the declared bounds of a dim."""
        low, high = self.free.bounds[name]
        return max(size, low, 1) if high is None else min(max(size, low, 1), high)

    def _vary(self, base: Sizes) -> None:
        for changed in self._list_changes(base):
            run = self._try(changed)
            if run is None or _accepts(run):
                continue
            names = [name for name in changed if changed[name] != base[name]]
            is_expected = _rejects_first(run) and any(self._is_violated(one, changed) for one in self._conditions)
            partner = None if is_expected or len(names) > 1 else self._find_partner(base, changed, names[0])
            if partner is not None:
                self._tie({names[0], partner})
            elif _rejects_first(run):
                self._add_rejection(changed, run)
            elif not any(tie & {*names} for tie in self.result.ties):
                key, failure = next(iter(run.failures.items()))
                sizes = format_sizes({name: changed[name] for name in names})
                self.result.needs.setdefault(key, f"{failure} if {sizes}")

    def _violate(self, base: Sizes) -> None:
        """For each condition that no rejected probe has violated, tries small sizes that violate it."""
        for condition in self._conditions:
            if any(
                not condition.holds(one.sizes)
                for one in self.result.rejections
                if condition.symbols <= one.sizes.keys()
            ):
                continue
            names = [name for name in base if any(self.free.uses(symbol, name) for symbol in condition.symbols)]
            combinations_of_sizes = product(range(1, _SMALL + 1), repeat=min(len(names), _MAX_NAMES))
            found = ({**base, **dict(zip(names, sizes, strict=False))} for sizes in combinations_of_sizes)
            wrong = (sizes for sizes in found if self._is_violated(condition, sizes))
            for sizes in islice(wrong, _MAX_VIOLATIONS):
                run = self._try(sizes)
                if run is not None and _rejects_first(run):
                    self._add_rejection(sizes, run)
                    break

    def _is_violated(self, condition: Condition, sizes: Sizes) -> bool:
        known = self.free.complete(sizes)
        return self._is_legal(sizes) and condition.symbols <= known.keys() and not condition.holds(known)

    def _add_other_rejections(self) -> None:
        """Adds the rejections by Reshape nodes during the search for base points and partners."""
        added = [one.sizes for one in self.result.rejections]
        for key, run in self._runs.items():
            if run is not None and _rejects_first(run) and self.free.complete(dict(key)) not in added:
                self._add_rejection(dict(key), run)

    def _add_rejection(self, sizes: Sizes, run: Run) -> None:
        key, decision = next(iter(run.rejections.items()))
        self.result.rejections.append(RejectedSizes(key, self.free.complete(sizes), decision))

    def _tie(self, names: set[str]) -> None:
        """Adds a group of dims that can only change together. Merges it with groups that contain some of these dims."""
        for tie in [tie for tie in self.result.ties if tie & names]:
            self.result.ties.remove(tie)
            names |= tie
        self.result.ties.append(names)

    def _find_partner(self, base: Sizes, changed: Sizes, name: str) -> str | None:
        """Returns a dim that must change together with `name` so that every node accepts the sizes, or None."""
        step = changed[name] - base[name]
        for other in base:
            for size in (base[other] + step, base[other] - step, changed[name]) if other != name else ():
                run = self._try({**changed, other: size})
                if run is not None and _accepts(run):
                    return other
        return None

    def _list_changes(self, base: Sizes) -> Iterator[Sizes]:
        by_name = {name: self._list_values(name, size) for name, size in base.items()}
        for place in range(max(map(len, by_name.values()), default=0)):
            for name, values in by_name.items():
                if place < len(values):
                    yield {**base, name: values[place]}
            if place < 2:  # noqa: PLR2004 - dims change together by one and to the double
                yield {name: size + 1 if place == 0 else 2 * size for name, size in base.items()}

    def _list_values(self, name: str, size: int) -> list[int]:
        """Returns the sizes to try for a dim while the other dims stay the same."""
        singled = [value + change for value in self._list_singled(name, size) for change in (0, 1, -1)]
        usual = [1, 3, 5] if name in self.free.leading else [size + 1, size - 1, 2 * size, size + 2, 2 * size + 1]
        return [value for value in dict.fromkeys((*usual, *singled)) if value != size]

    def _list_singled(self, name: str, size: int) -> list[int]:
        """Returns values of a dim that conditions mention: a required value, the next required multiple, and bounds."""
        values, steps, ends = list[int](), list[int](), set[int]()
        for one in self._all_conditions:
            left, right = one.left, one.right
            if one.kind is ConditionKind.RANGE and _find_symbol(left) == name:
                ends |= {end for end in (one.min, one.max) if end is not None and end > 1}
            elif (
                one.kind is ConditionKind.EQUAL
                and right is not None
                and not right.symbols
                and _find_symbol(left) == name
            ):
                values.append(right.coefficient)
            elif one.kind is ConditionKind.DIVIDES and not left.symbols and _find_symbol(right) == name:
                steps.append(left.coefficient)
        return [*values[:1], *([size + lcm(*steps)] if steps else []), *sorted(ends)]


def probe(
    source: ModelSource, params: DimParams, requirements: Sequence[Requirement] = (), seconds: float = SECONDS
) -> Probes:
    """Tries sizes of the inputs of an expanded model, and returns the results."""
    return _ProbeSearch(source, params, requirements, seconds).run()


def format_sizes(sizes: Sizes) -> str:
    """Returns sizes as text, such as `batch=3 length=9`."""
    return " ".join(f"{name}={size}" for name, size in sizes.items())


def is_refuted(requirement: Requirement, keys: Sequence[Key], probes: Probes) -> bool:
    """Whether a node that demands the requirement accepts sizes that violate it."""
    condition = requirement.condition
    for sizes, run in probes.accepted:
        found = [run.decisions.get(keys[node]) for node in requirement.nodes]
        is_accepted = any(one is not None and not one.cause for one in found)
        if is_accepted and condition.symbols <= sizes.keys() and not condition.holds(sizes):
            return True
    return False


def _list_divisors(conditions: Iterable[Condition]) -> list[int]:
    """Returns the divisors up to _MAX_SIZE of the numbers in conditions, and the larger numbers themselves.

    Such numbers are likely sizes.
    """
    products = [product for one in conditions for product in (one.left, one.right) if product is not None]
    numbers = {number for product in products for number in (product.coefficient, product.divisor)}
    divisors = [size for size in range(2, _MAX_SIZE + 1) if any(number % size == 0 for number in numbers)]
    return [*divisors, *sorted(number for number in numbers if _MAX_SIZE < number <= _MAX_NUMBER)]


def _find_symbol(product: Expression | None) -> str | None:
    return None if product is None or product.symbol is None else product.symbol.name


def _may_hold(condition: Condition, sizes: Sizes) -> bool:
    """Whether a condition may be satisfied for these sizes and some sizes of the other dims."""
    if condition.symbols <= sizes.keys():
        return condition.holds(sizes)
    right = condition.right
    if condition.kind is not ConditionKind.EQUAL or right is None or right.symbols:
        return True
    known = prod(sizes[symbol.name] for symbol in condition.left.factors if symbol.name in sizes)
    return known > 0 and right.coefficient % (known * condition.left.coefficient) == 0


def _accepts(run: Run) -> bool:
    return not run.failures and not run.rejections


def _count_known(run: Run) -> int:
    return sum(tensor.is_known for tensor in run.tensors.values())


def _rejects_first(run: Run) -> bool:
    """Whether a Reshape node rejects the sizes, and no other node fails before it."""
    if not run.rejections or not run.failures:
        return bool(run.rejections)
    order = {name: place for place, name in enumerate(run.tensors)}
    last = len(order)  # an output without a name counts as the last
    return min(order.get(key, last) for key in run.rejections) <= min(order.get(key, last) for key in run.failures)


def evaluate_dim(dim: AnyDim, sizes: Sizes) -> int | None:
    """Returns the value of a dim for the sizes of the named dims, or None if it is unknown or not a whole number."""
    if dim is None or isinstance(dim, int):
        return dim
    expression = dim.expression
    is_known = expression is not None and all(symbol.name in sizes for symbol in expression.symbols)
    return expression.evaluate(sizes) if expression is not None and is_known else None
