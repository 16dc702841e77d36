"""Target items that copy a dim. If an item is 0 in some run, the dim is not 0 in that run."""

from itertools import product
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from tensor_reshape.onnx.zero_items import list_copying_items
from tensor_reshape.rules.dims import AnyDim, Dim
from tensor_reshape.rules.notation import parse_shape

# the target, the data; the items that copy
RESULTS: dict[tuple[str, str], tuple[int, ...]] = {
    ("N, -1", "N, M"): (),
    ("N, -1", "4*N, M"): (),
    ("M, -1", "N, M"): (0,),
    ("M, N", "N, M"): (),
    ("N*M, -1", "N, M"): (0,),
    ("N*M, 4", "N, M, 4"): (),
    ("K, 4", "N, M"): (0,),
    ("N:1.., -1", "4, M"): (),
    ("2, 3", "N"): (),
    ("-1, M", "N"): (),  # fails if M is 0, because there is no dim 1
    ("M, ?", "N, M"): (0,),
    ("M, 0", "N, M"): (0,),  # with M = 0, [N, 0]
    ("M, -1", "..."): (0,),
    ("-1, 4", "..."): (),
    ("A*B*C*D*E*F*G*H*I, 4", "N, M"): (0,),
}


def test_list_copying_items_returns_items_that_may_be_zero():
    found = {
        row: list_copying_items(parse_shape(row[0], "shape") or (), parse_shape(row[1], "data_shape"))
        for row in RESULTS
    }
    assert found == RESULTS


NAMES = ("N", "M", "K")
DIMS = st.sampled_from(["0", "2", "3", "N", "M", "K", "N*M", "2*K"])


@given(st.lists(DIMS, max_size=3), st.lists(st.one_of(DIMS, st.just("-1")), max_size=3))
def test_target_items_not_listed_as_copying_are_always_sizes(data: list[str], target: list[str]):
    dims, items = (parse_shape(", ".join(texts), "shape") or () for texts in (data, target))
    copying = list_copying_items(items, dims)
    for values in product((0, 1, 2), repeat=3):
        sizes = dict(zip(NAMES, values, strict=True))
        output = reshape([evaluate(dim, sizes) for dim in dims], [evaluate(item, sizes) for item in items])
        for place, item in enumerate(items if output is not None else ()):
            if isinstance(item, Dim) and place not in copying:
                assert output is not None
                assert output[place] == evaluate(item, sizes)


def evaluate(dim: AnyDim, sizes: dict[str, int]) -> int:
    if not isinstance(dim, Dim) or dim.expression is None:
        assert isinstance(dim, int)
        return dim
    return prod([dim.expression.coefficient, *(sizes[factor.name] for factor in dim.expression.factors)])


def reshape(data: list[int], target: list[int]) -> list[int] | None:
    """Returns the output as ONNX defines it; None if the node fails."""
    if any(item == 0 and place >= len(data) for place, item in enumerate(target)) or target.count(-1) > 1:
        return None
    output = [data[place] if item == 0 else item for place, item in enumerate(target)]
    volume, rest = prod(data), prod([size for size in output if size != -1])
    if -1 in output:
        if rest == 0 or volume % rest:
            return None
        output[output.index(-1)] = volume // rest
    return output if prod(output) == volume else None
