"""The notation of dims: parsing, errors, and round trips."""

from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Interval, Symbol, format_dim, make_expression, name_dim
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.names import is_name
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.shape_parser import parse_shape

N = Symbol("N")

TEXTS: dict[str, AnyDim] = {
    "4": 4,
    "-1": -1,
    " 7 ": 7,
    "?": None,
    "2..8": Dim(Interval(2, 8)),
    "2..": Dim(Interval(2, None)),
    "N": name_dim("N"),
    "N:1..8": name_dim("N", 1, 8),
    "N:1..": name_dim("N", 1),
    "4*N": Dim(ANY, make_expression(4, [N])),
    "4*N:4..8": Dim(Interval(4, 8), make_expression(4, [N])),
    "seq + past : 2..8": name_dim("seq + past", 2, 8),
    "'2..8'": name_dim("2..8"),
    "'a:1..8':1..8": name_dim("a:1..8", 1, 8),
}
# `test_names` has text that is not a product either.
NO_DIMS = ["", "..", "..4", "1..2..3", "N:", "N M", "None", "unknown", "N/0", "2*3", "N:1..8:1..8", "onnx::1..8"]
LONG = ["9" * 100_000, "N*" * 100_000 + "N", "(" * 100_000, "1.." + "9" * 5000]


def read_or_reject(text: str) -> str:
    """Returns the parsed text, or its error, in short form."""
    try:
        dim = parse_dim(text)
    except InvalidRequestError as error:
        return error.reason if len(error.message) < 1000 else error.message
    return "a dim" if dim is None or isinstance(dim, int | Dim) else repr(dim)


def test_parse_dim_accepts_every_documented_notation():
    assert {text: parse_dim(text) for text in TEXTS} == TEXTS


def test_invalid_dim_text_has_a_short_error():
    assert {text[:12]: read_or_reject(text) for text in (*NO_DIMS, *LONG)} == {
        text[:12]: "DIM_SYNTAX_INVALID" for text in (*NO_DIMS, *LONG)
    }


@examples(300)
@given(st.text(max_size=12) | st.text("N2*/^().:?- ", max_size=12))
def test_parse_dim_parses_or_rejects_any_text(text: str):
    assert read_or_reject(text) in {"a dim", "DIM_SYNTAX_INVALID"}


names = st.sampled_from(["N", "M", "batch", "a + b", "f(N)", "4*C", "1..2", "?"]) | st.text(max_size=8).filter(is_name)
symbols = st.lists(names.map(Symbol), max_size=4)
numbers = st.integers(1, 2**63 - 1)
terms = st.builds(make_expression, numbers, symbols.filter(bool), numbers, symbols).map(lambda one: Dim(ANY, one))
intervals = st.builds(
    lambda low, more: Interval(low, None if more is None else low + more), numbers, st.none() | numbers
)


@examples(300)
@given(st.integers(-(10**39), 10**39) | st.none() | intervals.map(Dim) | terms)
def test_formatted_dim_is_parsed_to_the_same_dim(dim: AnyDim):
    assert parse_dim(format_dim(dim)) == dim


@examples(200)
@given(st.lists(terms | st.none() | st.integers(-1, 9), max_size=4))
def test_formatted_shape_is_parsed_to_the_same_shape(dims: list[AnyDim]):
    assert parse_shape(",".join(map(format_dim, dims)), "data") == tuple(dims)


def test_quoted_dim_name_may_contain_operators():
    for text in ("2/('^')", "N/('^'*N)", "2*('**')"):
        dim = parse_dim(text)
        assert parse_dim(format_dim(dim)) == dim
