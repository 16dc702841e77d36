"""This module decides which names of dims are valid, writes names, and parses products of names.

Invariants:

- Every valid name can be written as text, and parsing that text returns the same name. A name is written without quotes
  if it is a word, or if it is a formula that is not a product. All other names are written in quotes.
- A text is rejected unless all of it can be parsed.
- A formula that is not a product, such as `seq + past` or `floor(height/8)`, counts as a single name. The rules do not
  calculate with the content of such a name. They only compare sums, so `2*b + 2` is twice `b + 1`.
- Writing a name takes a limited number of steps, because a server also writes names from untrusted clients.
"""

import re
from collections.abc import Hashable, Sequence
from functools import lru_cache
from math import gcd
from typing import NamedTuple

from tensor_reshape.rules.products import Product

MAX_SYMBOL_CHARACTERS = 64
"""The number of characters of the longest name."""

_WORD = re.compile(r"[^\W\d]\w*(?:(?:\.|::)\w+)*")
_NUMBER = r"[0-9]{1,40}(?:\.[0-9]{1,40})?(?![\w.])"
_TOKEN = re.compile(
    rf"\s*(?:(?P<word>{_WORD.pattern})|(?P<number>{_NUMBER})|'(?P<quoted>(?:[^']|'')+)'|(?P<sign>\*\*|//|[-+*/%^(),]))"
)
# An operand of a formula may begin with a minus sign. A name may begin with a slash, as in names from ONNX exporters:
# /model/Reshape_output_0_dim_1. Two slashes are always read as one operator, so that a text matches in one way only. If
# a text matched in several ways, untrusted text could cause exponential backtracking.
_OPERAND = rf"\s*(?:-|/(?!/))?\s*(?:{_WORD.pattern}|{_NUMBER})\s*"
_FLAT_FORMULA = rf"{_OPERAND}(?:(?:\*\*|//|/(?!/)|[-+*%]){_OPERAND})*"
_SUM = re.compile(_FLAT_FORMULA)
_GROUP = re.compile(rf"(?:{_WORD.pattern})\s*\({_FLAT_FORMULA}(?:,{_FLAT_FORMULA})*\)|\({_FLAT_FORMULA}\)")
_POWER = r"(?:\s*\*\*\s*[1-9][0-9]?(?!\w))?"
_FLAT_FACTOR = rf"\s*(?:{_WORD.pattern}|[0-9]+(?![\w.])){_POWER}\s*"
_FLAT_PRODUCT = re.compile(rf"{_FLAT_FACTOR}(?:[*/]{_FLAT_FACTOR})*")
# Only sums of words and whole numbers are compared with each other. A word may have a whole number as a factor.
_WHOLE = r"[0-9]{1,40}(?![\w.])"
_TERM = rf"\s*(?:{_WHOLE}\s*\*\s*{_WORD.pattern}|{_WHOLE}|{_WORD.pattern})\s*"
_LINEAR = re.compile(rf"\s*-?{_TERM}(?:[-+]{_TERM})+")
_SIGNED = re.compile(rf"([-+]?)\s*(?:({_WHOLE})(?:\s*\*\s*({_WORD.pattern}))?|({_WORD.pattern}))")
_GROUP_READ = " 0 "  # this text replaces a function call or a pair of parentheses that has been matched
_MAX_NESTING = 16  # the nesting of parentheses is limited, because the parser is recursive
_POWER_TOKENS = 2
_NO_NAMES = ("None", "unknown")  # other tools write these texts for an unknown dim


class Multiple(NamedTuple):
    """The value of a name, as a multiple of a base that other names may share.

    Attributes:
        factor: the number by which the base is multiplied, at least 1.
        base: the base, which is the name itself unless the name is a sum.
        least: a lower bound of the name's value. It holds because no word in the name is negative.
    """

    factor: int
    base: Hashable
    least: int = 0


class _Token(NamedTuple):
    """A token of a text.

    Attributes:
        kind: the name of the group that matched in the regular expression `_TOKEN`.
        text: the token. For a quoted name, the text is the content of the quotes.
        start: the position of the first character of the token.
        end: the position after the last character of the token.
    """

    kind: str
    text: str
    start: int
    end: int


def is_name(name: str) -> bool:
    """Whether a text is valid as the name of a symbol."""
    return 0 < len(name) <= MAX_SYMBOL_CHARACTERS and name.isprintable()


def read_product(text: str) -> Product[str] | None:
    """Reads a product of names and numbers from left to right. The result is None if the text is not a product.

    A formula that is not a product of names and numbers counts as a single name. In `4*(seq + past)`, the formula in
    parentheses is one factor.
    """
    tokens = _split(text)
    return None if not tokens else _read_product(text, tokens) or _read_formula(text, tokens)


@lru_cache(1024)
def read_multiple(name: str) -> Multiple:
    """Returns a valid name as a multiple of a base. For example, `2*b + 2` is twice the base `b + 1`."""
    terms = dict[str, int]()
    for sign, number, factor, word in _SIGNED.findall(name) if _LINEAR.fullmatch(name) else ():
        terms[factor or word] = terms.get(factor or word, 0) + int(f"{sign}{number or 1}")
    terms = {word: number for word, number in terms.items() if number}
    if not terms:
        return Multiple(1, name)
    common, least = gcd(*terms.values()), min(terms.values())
    base: Hashable = frozenset((word, number // common) for word, number in terms.items())
    if len(terms) == 1 and least > 0:
        (base,) = terms  # `b + b` has the base `b`
    return Multiple(common, base, terms.get("", 0) if least > 0 else 0)


def write_name(name: str) -> str:
    """Returns the text of a dim whose name is `name`."""
    return _write(name)[0]


def write_factor(name: str) -> str:
    """Returns the text of a name as a factor of a product, in parentheses if the text contains operators."""
    text, is_factor = _write(name)
    return text if is_factor else f"({text})"


def _write(name: str) -> tuple[str, bool]:
    """Returns the text of a name, and whether the text can be a factor without parentheses."""
    if _WORD.fullmatch(name) and name not in _NO_NAMES:
        return name, True
    # a longer name is not valid, and an error message shows it without quotes
    if len(name) > MAX_SYMBOL_CHARACTERS:
        return name, name.startswith("'")
    return _write_formula(name)


@lru_cache(1024)
def _write_formula(name: str) -> tuple[str, bool]:
    """Returns the result of `_write` for a name of permitted length that is not a single word."""
    flat = _flatten(name)
    is_call = flat == _GROUP_READ and _WORD.match(name) is not None
    if flat is None or name != name.strip() or (not is_call and _FLAT_PRODUCT.fullmatch(flat)):
        quoted = name.replace("'", "''")
        return f"'{quoted}'", True
    return name, is_call


def _flatten(text: str) -> str | None:
    """Returns a formula with its calls and parentheses replaced by a number; None if the text cannot be a name."""
    words = set(_WORD.findall(text))
    if not (is_name(text) and words and words.isdisjoint(_NO_NAMES)):
        return None
    for _ in range(_MAX_NESTING):  # each pass replaces the innermost parentheses
        text = _GROUP.sub(_GROUP_READ, text)
    return text if _SUM.fullmatch(text) else None


def _split(text: str) -> list[_Token] | None:
    """Returns the tokens of a text; None if the text has invalid tokens or too deeply nested parentheses."""
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


def _read_product(text: str, tokens: Sequence[_Token]) -> Product[str] | None:
    product: Product[str] = Product(1, ())
    start, depth, sign = 0, 0, "*"
    for place, token in enumerate((*tokens, _Token("sign", "*", len(text), len(text)))):
        depth += _nest(token)
        if depth == 0 and token.kind == "sign" and token.text in {"*", "/"}:
            factor = _read_power(text, tokens[start:place])
            if factor is None:
                return None
            product = product.multiply(factor.invert() if sign == "/" else factor)
            start, sign = place + 1, token.text
    return product


def _read_power(text: str, tokens: Sequence[_Token]) -> Product[str] | None:
    # The code checks the kind of the token and not only its text, because a name in quotes may also be `^`.
    if len(tokens) <= _POWER_TOKENS or tokens[-2].kind != "sign" or tokens[-2].text not in {"^", "**"}:
        return _read_factor(text, tokens)
    # An exponent may follow only a single name. If powers of powers were allowed, a short text could produce a huge
    # number of factors.
    factor, power = _read_factor(text, tokens[:-2]), tokens[-1].text
    if factor is None or factor != Product(1, factor.factors[:1]) or not re.fullmatch(r"[1-9][0-9]?", power):
        return None
    return Product(1, factor.factors * int(power))


def _read_factor(text: str, tokens: Sequence[_Token]) -> Product[str] | None:
    if len(tokens) == 1:
        kind, piece = tokens[0][:2]
        if kind == "number":
            return Product(int(piece), ()) if piece.isdecimal() else None
        return None if kind == "sign" else Product(1, (piece,))
    if tokens and tokens[0].kind == "word" and _is_enclosed(tokens[1:]):
        return _read_formula(text, tokens)  # a function call such as `floor(height)` is also a formula
    if not _is_enclosed(tokens):
        return None
    return _read_product(text, tokens[1:-1]) or _read_formula(text, tokens[1:-1])


def _is_enclosed(tokens: Sequence[_Token]) -> bool:
    """Whether the first token is an opening parenthesis that the last token closes."""
    depth = 0
    for place, token in enumerate(tokens):
        depth += _nest(token)
        if depth == 0:
            return 0 < place == len(tokens) - 1
    return False


def _read_formula(text: str, tokens: Sequence[_Token]) -> Product[str] | None:
    """Returns a product whose only factor is the formula that the tokens form; None if they form no formula."""
    if not tokens:
        return None
    name = text[tokens[0].start : tokens[-1].end]
    return None if _flatten(name) is None else Product(1, (name,))
