"""Asks torch: `tensor.reshape(shape)`, eagerly, without data, and in a program that is exported.

- An eager tensor of which only the shape matters repeats one byte, so that one of 2^62 elements can be made.
- Whether the output is a view is what `tensor.view(shape)` says.
- A program is exported with an example that torch itself accepts: symbols are sizes of its inputs, all of them
  `Dim.AUTO`, and what it makes and reshapes has the shapes that are asked for. Where small examples are all refused,
  there is nothing to export. Where the program refuses another example, as general as its own, that torch reshapes, it
  is for fewer sizes than are asked for, and is no answer.
- Of the output of a program, a dim that is a product of sizes is one; of any other torch itself says the bounds.
"""

import itertools
import logging
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch._dynamo.exc import UserError
from torch.export import Dim, ExportedProgram, export
from torch.utils._sympy.functions import FloorDiv

from conformance.adapters.array_libraries import (
    Monomial,
    Symbols,
    check_is_offered,
    check_type,
    find_span,
    list_types,
    read_for_export,
    read_known,
    read_line,
    refuse_data,
)
from conformance.adapters.programs import Refused, Unsupported, run
from conformance.adapters.questions import Dim as AskedDim
from conformance.adapters.questions import Json, Question, Unknown, write_dims

Tensor: TypeAlias = Any  # what is asked of it, is asked of torch as it is, without its types

DTYPES = list_types(partial(getattr, torch)) | {
    "bf16": torch.bfloat16,
    "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
}
_REFUSALS = (RuntimeError, TypeError, ValueError, OverflowError)
_MAX_ELEMENTS = 2**24
_EXAMPLES = 3000
_TRIED = 64
"""How many examples a program is run with, about."""
_LEAST_GENERAL = 2
_SMALL = (0, 1, *range(2, 13), 14, 15, 16, 18, 20, 24, 32, 40, 48, 60, 64)
"""Sizes of examples."""


def answer_eager(question: Question) -> Json:
    """Returns what becomes of a tensor."""
    return _answer_known(question, "cpu")


def answer_meta(question: Question) -> Json:
    """Returns what becomes of a tensor without data."""
    if question.payload is not None:
        raise Unsupported("It has no data.")
    return _answer_known(question, "meta")


def _answer_known(question: Question, device: str) -> Json:
    check_is_offered(question)
    dims, shape = read_known(question.data), read_known(question.shape)
    check_type(question, DTYPES)
    tensor = _make_tensor(question, dims, device)
    output = _reshape(tensor, shape)
    answered: Json = {"shape": list(output.shape)}
    if question.strides is not None and question.payload is None:
        answered["view"] = _find_view(tensor, shape)
    if question.payload is not None:
        answered["bytes"] = bytes(output.contiguous().reshape(-1).view(torch.uint8).tolist()).hex()
    return answered


def _make_tensor(question: Question, dims: tuple[int, ...], device: str) -> Tensor:
    try:
        if question.payload is not None:
            return _make_filled(question, dims)
        if question.strides is not None:
            return _make_strided(dims, question.strides, device)
        if device == "meta":
            return torch.empty(dims, dtype=torch.uint8, device=device)
        return torch.as_strided(torch.zeros(1, dtype=torch.uint8), dims, [0] * len(dims))
    except _REFUSALS as error:
        raise refuse_data(dims, read_line(error)) from error


def _make_filled(question: Question, dims: tuple[int, ...]) -> Tensor:
    dtype = DTYPES[question.data_type or "u8"]
    flat = torch.tensor(list(question.payload or b""), dtype=torch.uint8).view(dtype)
    if question.strides is None:
        if flat.numel() != torch.Size(dims).numel():
            raise Unsupported("A tensor has the bytes of its shape.")
        return flat.view(dims)
    if flat.numel() > find_span(dims, question.strides):
        raise Unsupported("The memory of a tensor may be longer than it is.")
    return _stride(flat, dims, question.strides)


def _make_strided(dims: tuple[int, ...], strides: tuple[int, ...], device: str) -> Tensor:
    span = find_span(dims, strides)
    if device == "cpu" and span > _MAX_ELEMENTS:
        raise Unsupported("It cannot make an array of that size.")
    return _stride(torch.empty(span, dtype=torch.uint8, device=device), dims, strides)


def _stride(flat: Tensor, dims: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
    try:
        return torch.as_strided(flat, dims, strides)
    except _REFUSALS as error:
        raise Refused(read_line(error)) from error


def _reshape(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    try:
        return tensor.reshape(shape)
    except _REFUSALS as error:
        raise Refused(read_line(error)) from error


def _find_view(tensor: Tensor, shape: tuple[int, ...]) -> Json:
    try:
        view = tensor.view(shape)
    except _REFUSALS:
        return {"possibility": "impossible", "strides": None}
    return {"possibility": "possible", "strides": list(view.stride())}


class Reshape(torch.nn.Module):  # type: ignore[misc] # torch is not installed where this is checked
    """A program that makes a tensor whose shape follows from the sizes of its inputs, and reshapes it."""

    def __init__(self, symbols: Sequence[str], data: Sequence[int | Monomial], shape: Sequence[int | Monomial]) -> None:
        """Says what it does; the first of its inputs is any, and each other one has the size of a symbol."""
        super().__init__()
        self.symbols, self.data, self.shape = symbols, data, shape

    def forward(self, vectors: Sequence[Tensor]) -> Tensor:
        """Returns the output."""
        sizes = {symbol: vector.shape[0] for symbol, vector in zip(self.symbols, vectors[1:], strict=True)}
        tensor = torch.empty(_compute(self.data, sizes), dtype=torch.uint8, device="meta")
        return tensor.reshape(_compute(self.shape, sizes))


def answer_export(question: Question) -> Json:
    """Returns what is known of the output of a program."""
    symbols, data, shape = read_for_export(question)
    if not symbols.bounds:
        _answer_known(question, "meta")
    examples = _find_examples(symbols, data, shape)
    sizes = [None, *([Dim.AUTO(min=low, max=high)] for low, high in symbols.bounds.values())]
    program = _export(Reshape(list(symbols.bounds), data, shape), examples[0], sizes)
    _check_is_general(program, examples)
    return {"shape": write_dims(_read_output(program, symbols))}


def _export(reshape: Reshape, example: dict[str, int], sizes: Sequence[Any]) -> ExportedProgram:
    try:
        return export(reshape, (_make_vectors(example),), dynamic_shapes={"vectors": sizes})
    except (*_REFUSALS, UserError) as error:
        raise Refused(read_line(error)) from error


def _check_is_general(program: ExportedProgram, examples: Sequence[dict[str, int]]) -> None:
    """Raises Unsupported where the conditions of a program, which come from its own example, refuse another one."""
    module = program.module()
    for sizes in examples[:: 1 + len(examples) // _TRIED]:
        try:
            module(_make_vectors(sizes))
        except (*_REFUSALS, AssertionError) as error:
            raise Unsupported("The program that it exports is for fewer sizes than are asked for.") from error


def _make_vectors(sizes: dict[str, int]) -> list[Tensor]:
    return [torch.empty(1), *(torch.empty(size, dtype=torch.uint8, device="meta") for size in sizes.values())]


def _find_examples(
    symbols: Symbols, data: Sequence[int | Monomial], shape: Sequence[int | Monomial]
) -> list[dict[str, int]]:
    """Returns sizes of all symbols such that torch reshapes, the most general ones of those that are tried."""
    accepted = list[tuple[int, dict[str, int]]]()
    for sizes in _generate_sizes(symbols):
        dims, items = _compute(data, sizes), _compute(shape, sizes)
        try:
            output = torch.empty(dims, dtype=torch.uint8, device="meta").reshape(items).shape
        except _REFUSALS:
            continue
        accepted.append((_count_coincidences(sizes, [*data, *shape], output), sizes))
    if not accepted:
        raise Unsupported("It refuses each of the examples that are tried, and exports nothing without one.")
    least = min(count for count, _ in accepted)
    return [sizes for count, sizes in accepted if count == least]


def _generate_sizes(symbols: Symbols) -> Iterator[dict[str, int]]:
    ranges = [
        sorted(size for size in {*_SMALL, low, low + 1, high or 2} if low <= size <= (size if high is None else high))
        for low, high in symbols.bounds.values()
    ]
    for sizes in itertools.islice(itertools.product(*ranges), _EXAMPLES):
        yield dict(zip(symbols.bounds, sizes, strict=True))


def _count_coincidences(sizes: dict[str, int], dims: Sequence[int | Monomial], output: Sequence[int]) -> int:
    """Counts what a program is specialized by: sizes of 0 and 1, and numbers that are the same by chance."""
    literals = {dim for dim in dims if isinstance(dim, int)}
    known = [*sizes.values()]
    inferred = [dim for dim in output if dim not in literals]
    small = sum(dim < _LEAST_GENERAL for dim in (*known, *inferred))
    return 100 * small + len(known) - len({*known} - literals) + len(output) - len({*output})


def _compute(dims: Sequence[int | Monomial], sizes: dict[str, int]) -> list[int]:
    return [dim if isinstance(dim, int) else dim.evaluate(sizes) for dim in dims]


def _read_output(program: ExportedProgram, symbols: Symbols) -> list[AskedDim]:
    nodes = list(program.graph.nodes)
    inputs = [node.meta["val"].shape[0] for node in nodes if node.op == "placeholder"]
    known: dict[Any, str] = {}
    for symbol, size in zip(symbols.bounds, inputs[1:], strict=True):
        if isinstance(size, torch.SymInt):
            known.setdefault(size.node.expr, symbol)
    return [_read_dim(dim, known, symbols) for dim in nodes[-1].args[0][0].meta["val"].shape]


def _read_dim(dim: int | torch.SymInt, known: dict[Any, str], symbols: Symbols) -> AskedDim:
    if isinstance(dim, int):
        return dim
    expression, divisor = dim.node.expr, 1
    if isinstance(expression, FloorDiv) and expression.args[1].is_Integer:
        expression, divisor = expression.args[0], int(expression.args[1])
    monomial = _read_monomial(expression, known)
    if monomial:
        return symbols.write(monomial, divisor)
    bounds = dim.node.shape_env.bound_sympy(dim.node.expr)
    low, high = max(0, int(bounds.lower)), int(bounds.upper) if bounds.upper.is_Integer else None
    return low if low == high else Unknown(low, high)


def _read_monomial(expression: Any, known: dict[Any, str]) -> Monomial | None:
    if expression in known:
        return Monomial(1, {known[expression]: 1})
    factor, product = expression.as_coeff_Mul()
    powers = product.as_powers_dict()
    if not factor.is_Integer or not all(
        base in known and power.is_Integer and power > 0 for base, power in powers.items()
    ):
        return None
    return Monomial(int(factor), {known[base]: int(power) for base, power in powers.items()})


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # of what export says of each refusal, the answer has the first line
    warnings.simplefilter("ignore")
    run({"torch": answer_eager, "torch-meta": answer_meta, "torch-export": answer_export})
