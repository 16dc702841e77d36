"""Names of dims: which are legal, how they stand in a text, and the products of them.

Laws:

- Every legal name has a text that is read back as that name: bare where it is a word or a formula, else in quotes.
- A text is read as what it says, or not at all: nothing is rounded, and no part of it is left out.
- What is no product, but a formula as exporters write them (`seq + past`, `floor(height/8)`), is one name as a whole:
  nothing is concluded from what it says, but that it is the same dim wherever it stands.
- To write a name takes a number of steps that does not grow with it: servers write the names of strangers.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

MAX_SYMBOL_CHARACTERS = 64
"""The longest name."""

_WORD = re.compile(r"[^\W\d]\w*(?:(?:\.|::)\w+)*")
_NUMBER = r"[0-9]{1,40}(?:\.[0-9]{1,40})?(?![\w.])"
_TOKEN = re.compile(
    rf"\s*(?:(?P<word>{_WORD.pattern})|(?P<number>{_NUMBER})|'(?P<quoted>(?:[^']|'')+)'|(?P<sign>\*\*|//|[-+*/%^(),]))"
)
# Minus stands before an operand as well, and a slash before the name of a node, as in /model/Reshape_output_0_dim_1.
# No two ways to read a text, or a hostile one would be tried in all of them: `//` is never two slashes.
_OPERAND = rf"\s*(?:-|/(?!/))?\s*(?:{_WORD.pattern}|{_NUMBER})\s*"
_FLAT_FORMULA = rf"{_OPERAND}(?:(?:\*\*|//|/(?!/)|[-+*%]){_OPERAND})*"
_SUM = re.compile(_FLAT_FORMULA)
_GROUP = re.compile(rf"(?:{_WORD.pattern})\s*\({_FLAT_FORMULA}(?:,{_FLAT_FORMULA})*\)|\({_FLAT_FORMULA}\)")
_POWER = r"(?:\s*\*\*\s*[1-9][0-9]?(?!\w))?"
_FLAT_FACTOR = rf"\s*(?:{_WORD.pattern}|[0-9]+(?![\w.])){_POWER}\s*"
_FLAT_PRODUCT = re.compile(rf"{_FLAT_FACTOR}(?:[*/]{_FLAT_FACTOR})*")
_GROUP_READ = " 0 "  # what stands for a call, or for what is in parentheses, once that is read
_MAX_NESTING = 16  # of parentheses, which are read by recursion: a name of an exporter's has fewer
_POWER_TOKENS = 2
_NO_NAMES = ("None", "unknown")  # people write them for a dim of which nothing is known


class Product(NamedTuple):
    """`coefficient * factors / (divisor * divisors)`, as `rules.dims.Expression`, of names alone."""

    coefficient: int = 1
    factors: tuple[str, ...] = ()
    divisor: int = 1
    divisors: tuple[str, ...] = ()

    def multiply(self, other: "Product") -> "Product":
        """Returns the product of both."""
        return Product(
            self.coefficient * other.coefficient,
            self.factors + other.factors,
            self.divisor * other.divisor,
            self.divisors + other.divisors,
        )

    def invert(self) -> "Product":
        """Returns 1 divided by it."""
        return Product(self.divisor, self.divisors, self.coefficient, self.factors)


class _Token(NamedTuple):
    """A piece of a text.

    Attributes:
        kind: a group of `_TOKEN`.
        text: the piece; of a quoted name what is in the quotes.
        start: where it begins in the text.
        end: where it ends.
    """

    kind: str
    text: str
    start: int
    end: int


def is_name(name: str) -> bool:
    """Whether a symbol may be called so."""
    return 0 < len(name) <= MAX_SYMBOL_CHARACTERS and name.isprintable()


def read_product(text: str) -> Product | None:
    """Reads names and numbers that are multiplied and divided, from left to right; None where the text is none.

    A formula that is no such product is a name, as is one in parentheses: `4*(seq + past)` has one factor.
    """
    tokens = _split(text)
    return None if not tokens else _read_product(text, tokens) or _read_formula(text, tokens)


def write_name(name: str) -> str:
    """Returns the text of a dim with this name."""
    return _write(name)[0]


def write_factor(name: str) -> str:
    """Returns the text of this name as a factor: in parentheses where a part of it would be read as the factor."""
    text, is_factor = _write(name)
    return text if is_factor else f"({text})"


def _write(name: str) -> tuple[str, bool]:
    """Returns the text of a name, and whether it is a factor as it stands."""
    if _is_word(name):
        return name, True
    if len(name) > MAX_SYMBOL_CHARACTERS:  # it is no name: a refusal shows it as it is
        return name, name.startswith("'")
    return _write_formula(name)


@lru_cache(1024)
def _write_formula(name: str) -> tuple[str, bool]:
    """Does the same with a name that is no word and not too long."""
    flat = _flatten(name)
    is_call = flat == _GROUP_READ and _WORD.match(name) is not None
    if flat is None or name != name.strip() or (not is_call and _FLAT_PRODUCT.fullmatch(flat)):
        quoted = name.replace("'", "''")
        return f"'{quoted}'", True
    return name, is_call


def _is_word(text: str) -> bool:
    return _WORD.fullmatch(text) is not None and text not in _NO_NAMES


def _flatten(text: str) -> str | None:
    """Returns a formula with its calls and parentheses read; None where the text is none that may be a name."""
    words = set(_WORD.findall(text))
    if not (is_name(text) and words and words.isdisjoint(_NO_NAMES)):
        return None
    for _ in range(_MAX_NESTING):  # from the inside out
        text = _GROUP.sub(_GROUP_READ, text)
    return text if _SUM.fullmatch(text) else None


def _split(text: str) -> list[_Token] | None:
    """Returns the tokens of a text; None where it has something else, or too many parentheses in each other."""
    tokens, place, depth, end = list[_Token](), 0, 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            return None
        kind, place = match.lastgroup, match.end()
        token = _Token(kind, match[kind].replace("''", "'"), match.start(kind), place)
        depth += _nest(token)
        if not 0 <= depth <= _MAX_NESTING or (kind == "word" and token.text in _NO_NAMES):
            return None
        tokens.append(token)
    return None if depth else tokens


def _nest(token: _Token) -> int:
    return 0 if token.kind != "sign" else {"(": 1, ")": -1}.get(token.text, 0)


def _read_product(text: str, tokens: Sequence[_Token]) -> Product | None:
    product, start, depth, sign = Product(), 0, 0, "*"
    for place, token in enumerate((*tokens, _Token("sign", "*", len(text), len(text)))):
        depth += _nest(token)
        if depth == 0 and token.kind == "sign" and token.text in {"*", "/"}:
            factor = _read_power(text, tokens[start:place])
            if factor is None:
                return None
            product = product.multiply(factor.invert() if sign == "/" else factor)
            start, sign = place + 1, token.text
    return product


def _read_power(text: str, tokens: Sequence[_Token]) -> Product | None:
    # The kind as well: a name in quotes may be `^`.
    if len(tokens) <= _POWER_TOKENS or tokens[-2].kind != "sign" or tokens[-2].text not in {"^", "**"}:
        return _read_factor(text, tokens)
    # Of one name alone: powers of powers would be longer than any text pays for.
    factor, power = _read_factor(text, tokens[:-2]), tokens[-1].text
    if factor is None or factor != Product(factors=factor.factors[:1]) or not re.fullmatch(r"[1-9][0-9]?", power):
        return None
    return Product(factors=factor.factors * int(power))


def _read_factor(text: str, tokens: Sequence[_Token]) -> Product | None:
    if len(tokens) == 1:
        kind, piece = tokens[0][:2]
        if kind == "number":
            return Product(int(piece)) if piece.isdecimal() else None
        return None if kind == "sign" else Product(factors=(piece,))
    if tokens and tokens[0].kind == "word" and _is_enclosed(tokens[1:]):
        return _read_formula(text, tokens)  # a call
    if not _is_enclosed(tokens):
        return None
    return _read_product(text, tokens[1:-1]) or _read_formula(text, tokens[1:-1])


def _is_enclosed(tokens: Sequence[_Token]) -> bool:
    """Whether they begin with a parenthesis that the last of them closes."""
    depth = 0
    for place, token in enumerate(tokens):
        depth += _nest(token)
        if depth == 0:
            return 0 < place == len(tokens) - 1
    return False


def _read_formula(text: str, tokens: Sequence[_Token]) -> Product | None:
    """Returns the name that a formula is as a whole."""
    if not tokens:
        return None
    name = text[tokens[0].start : tokens[-1].end]
    return None if _flatten(name) is None else Product(factors=(name,))
