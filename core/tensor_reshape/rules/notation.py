"""This module defines the text notation of dims. The module `rules.shape_parser` parses whole shapes.

dim       "?" | number | bounds | product | product ":" bounds bounds    number ".." [number] product   factors with "*"
and "/" between them, from left to right; it contains a name factor    number | name | call | "(" product ")" | "("
formula ")"; after a name "^" power or "**" power name      word | "'" any text, with each quote in it doubled "'" call
word "(" formulas with commas between them ")": a name, kept as it is word      letters, digits and underscores, not
beginning with a digit; "." and "::" between two of them formula   words, numbers, calls and parentheses, with + - * /
// % ** between them: a name, kept as it is

`4*C` and `N^2/(2*M)` are products of dims, so the rules can calculate with them. `seq + past`, `floor(height/8)` and
`Max(1, N)` are treated as names, like `input.1_dynamic_axes_2` and `onnx::Reshape_12_dim_0`. A formula that is the
whole dim needs no parentheses. A formula in a product needs parentheses: `4*(seq + past)`.

Invariants: for any names, parsing the text that `rules.dims` writes for a dim returns the same dim. Text that is not a
dim is rejected.
"""

import re

from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Interval, Symbol, make_expression
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.names import read_product

_INTERVAL = re.compile(r"(\d+)\.\.(\d*)")
_BOUNDED = re.compile(r"(.*):\s*((?:\d+)\.\.(?:\d*))", re.DOTALL)
_MAX_CHARACTERS = 4096


def parse_dim(text: str) -> AnyDim:
    """Parses one dim.

    Raises:
        InvalidRequestError: DIM_SYNTAX_INVALID.
    """
    plain = text.strip()
    if len(plain) > _MAX_CHARACTERS:
        raise _reject(text)
    if plain == "?":
        return None
    if re.fullmatch(r"-?[0-9]{1,40}", plain):
        return int(plain)
    if _INTERVAL.fullmatch(plain):
        return Dim(_read_bounds(plain))
    bounded = _BOUNDED.fullmatch(plain)
    return _read_named(bounded[1], _read_bounds(bounded[2]), text) if bounded else _read_named(plain, ANY, text)


def _read_bounds(plain: str) -> Interval:
    low, _, high = plain.partition("..")
    return Interval(int(low), int(high) if high else None)


def _read_named(plain: str, bounds: Interval, text: str) -> Dim:
    product = read_product(plain)
    if product is None or not (product.factors or product.divisors) or not product.divisor:
        raise _reject(text)
    expression = make_expression(*product.map_factors(Symbol))
    if expression.symbol is not None:
        expression = make_expression(1, [Symbol(expression.symbol.name, bounds)])
    return Dim(bounds, expression)


def _reject(text: str) -> InvalidRequestError:
    message = (
        f"{text!r} is not a valid dim: write a number, lo..hi, lo.., ?, a name, name:lo..hi, or a product such "
        "as 4*C or N/2; put any other name in quotes: 'my dim'"
    )
    return InvalidRequestError.of(Reason.DIM_SYNTAX_INVALID, message, value=text)
