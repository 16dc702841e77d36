"""Asks JAX: `jax.numpy.reshape(array, shape)`, eagerly, by `eval_shape`, and in a function that is exported.

- Symbols of an exported function are at least 1, as JAX documents. What it answers is an expression of them, whose
  bounds are read with those that the question gives.
- Each symbol is also the size of an argument, as JAX demands.
- That something cannot be told is no rejection of the question: JAX asks for more constraints then.
"""

import math
import resource
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from jax import export
from jaxlib.mlir.ir import MLIRError

from conformance.adapters.array_libraries import (
    Monomial,
    Symbols,
    check_is_offered,
    check_type,
    list_types,
    read_for_export,
    read_known,
    read_line,
    reject_data,
)
from conformance.adapters.programs import Rejected, Unsupported, run
from conformance.adapters.questions import Dim, Json, Question, Unknown, write_answer

Array: TypeAlias = Any  # of numpy, of JAX, or only the shape of one

DTYPES = list_types(str) | {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
_MAX_ELEMENTS = 2**20
_REJECTIONS = (TypeError, ValueError, OverflowError, ZeroDivisionError, RuntimeError, MLIRError)


def answer_eager(question: Question) -> Json:
    """Returns what becomes of an array."""
    dims, shape = _read(question)
    array = _make_array(question, dims)
    try:
        output = jax.numpy.reshape(array, shape)
    except _REJECTIONS as error:
        raise Rejected(_read_error(error)) from error
    return write_answer(output.shape, None if question.payload is None else np.asarray(output).tobytes())


def answer_eval_shape(question: Question) -> Json:
    """Returns the shape of an array that is never made."""
    dims, shape = _read(question)
    if question.payload is not None:
        raise Unsupported("It has no data.")
    try:
        array = jax.ShapeDtypeStruct(dims, np.uint8)
        output = jax.eval_shape(lambda data: jax.numpy.reshape(data, shape), array)
    except _REJECTIONS as error:
        raise Rejected(_read_error(error)) from error
    return write_answer(output.shape)


def _read(question: Question) -> tuple[tuple[int, ...], tuple[int, ...]]:
    check_is_offered(question)
    if question.strides is not None:
        raise Unsupported("Its arrays have no strides.")
    check_type(question, DTYPES)
    return read_known(question.data), read_known(question.shape)


def _make_array(question: Question, dims: tuple[int, ...]) -> Array:
    if question.payload is None and math.prod(dims) > _MAX_ELEMENTS:
        raise Unsupported("It cannot make an array of that size.")
    try:
        if question.payload is None:
            return jax.numpy.zeros(dims, np.uint8)
        flat = np.frombuffer(question.payload, jax.numpy.dtype(DTYPES[question.data_type or "u8"]))
        if flat.size != math.prod(dims):
            raise Unsupported("An array has the bytes of its shape.")
        return jax.numpy.asarray(flat.reshape(dims))
    except _REJECTIONS as error:
        raise reject_data(dims, _read_error(error)) from error


def answer_export(question: Question) -> Json:
    """Returns what is known of the output of a function."""
    symbols, data, shape = read_for_export(question)
    try:
        variables = _make_variables(symbols)
        array = jax.ShapeDtypeStruct(_compute(data, variables), np.uint8)
        items = _compute(shape, variables)
        vectors = [jax.ShapeDtypeStruct((variable,), np.uint8) for variable in variables.values()]
        exported = export.export(jax.jit(lambda data, *_: jax.numpy.reshape(data, items)))(array, *vectors)
    except jax.errors.InconclusiveDimensionOperation as error:
        raise Unsupported("It cannot tell, and asks for constraints of the symbols.") from error
    except _REJECTIONS as error:
        raise Rejected(_read_error(error)) from error
    return write_answer(_read_dim(dim, symbols) for dim in exported.out_avals[0].shape)


def _make_variables(symbols: Symbols) -> dict[str, Any]:
    if not symbols.bounds:
        return {}
    constraints = [
        f"{symbol} {sign} {bound}"
        for symbol, (low, high) in symbols.bounds.items()
        for sign, bound in ((">=", low), ("<=", high))
        if bound  # 0 is no bound from below, and a dim that is 0 is no symbol
    ]
    return dict(
        zip(symbols.bounds, export.symbolic_shape(", ".join(symbols.bounds), constraints=constraints), strict=True)
    )


def _compute(dims: Sequence[int | Monomial], variables: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(dim if isinstance(dim, int) else dim.evaluate(variables) for dim in dims)


def _read_dim(dim: Any, symbols: Symbols) -> Dim:
    if isinstance(dim, int):
        return dim
    factor, powers = 1, dict[str, int]()
    for part in str(dim).split("*"):
        name, _, power = part.partition("^")
        if name.isdigit():
            factor *= int(name)
        elif name in symbols.bounds:
            powers[name] = int(power or 1)
        else:
            return Unknown()  # a sum or a quotient, of which bounds are not told
    return symbols.write(Monomial(factor, powers))


def _read_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {read_line(error)}"


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # what aborts would write gigabytes
    jax.config.update("jax_enable_x64", val=True)
    run({"jax": answer_eager, "jax-eval-shape": answer_eval_shape, "jax-export": answer_export})
