"""Groups of neighbouring input and output dims."""

from itertools import accumulate
from math import prod
from operator import mul

from hypothesis import given
from hypothesis import strategies as st

from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.explanations import find_dim_groups
from tensor_reshape.rules.notation import parse_dim


def find(data: str, output: str, copied: tuple[int, ...] = ()) -> str:
    """Returns the groups as text: `0,1>0` if the first two data dims become the first output dim."""
    left, right = ([parse_dim(dim) for dim in text.split(",") if dim] for text in (data, output))
    return " ".join(f"{_list(group.data)}>{_list(group.output)}" for group in find_dim_groups(left, right, copied))


def _list(indices: range) -> str:
    return ",".join(map(str, indices))


# data, output; groups
GROUPS = {
    ("2,3,4", "6,4"): "0,1>0 2>1",
    ("2,3,4", "2,12"): "0>0 1,2>1",
    ("24", "2,3,4"): "0>0,1,2",
    ("4,6", "6,4"): "0,1>0,1",
    ("N,S,768", "N,S,12,64"): "0>0 1>1 2>2,3",
    ("N,S,768", "N*S,768"): "0,1>0 2>1",
    ("N,4", "N/2,8"): "0,1>0,1",
    ("N/2,8,3", "4*N,3"): "0,1>0 2>1",
    ("2..8,4,3", "8..32,3"): "0,1>0 2>1",
    ("?,4", "?,4"): "0>0 1>1",
    ("5,?,4", "5,?,2,2"): "0>0 1>1 2>2,3",
    ("0,3", "5,0"): "0,1>0,1",
    ("2,1,3", "2,3"): "0>0 1,2>1",
    ("1,1,1,6", "1,1,1,6"): "0>0 1>1 2>2 3>3",
    ("2,1,1,1,6", "2,1,1,1,2,3"): "0>0 1>1 2>2 3>3 4>4,5",
    ("6", "6,1"): "0>0,1",
    ("6,1", "6"): "0,1>0",
    ("", "1,1"): ">0,1",
    ("1", ""): "0>",
    ("", ""): ">",
}


def test_adjacent_dims_with_equal_products_form_a_group():
    assert {row: find(*row) for row in GROUPS} == GROUPS
    # A copy equals the data dim even if it is unknown.
    assert find("?,?,?", "?,?", (0,)) == "0>0 1,2>1"


numbers = st.lists(st.integers(0, 6), min_size=1, max_size=6)
dims: st.SearchStrategy[AnyDim] = st.sampled_from(
    [*map(parse_dim, ["0", "1", "2", "6", "?", "N", "N/2", "2*N", "2..8"])]
)


@given(st.lists(dims, max_size=64), st.lists(dims, max_size=64), st.sets(st.integers(0, 63)))
def test_dim_groups_cover_every_input_and_output_dim_in_order(
    data: list[AnyDim], output: list[AnyDim], copied: set[int]
):
    groups = find_dim_groups(data, output, {index for index in copied if index < min(len(data), len(output))})
    assert [index for group in groups for index in group.data] == [*range(len(data))]
    assert [index for group in groups for index in group.output] == [*range(len(output))]
    assert all(group.data for group in groups) or not data
    assert all(group.output for group in groups) or not output


@given(numbers, st.data())
def test_grouped_input_and_output_dims_have_equal_products(data: list[int], draw: st.DataObject):
    output = draw.draw(st.permutations(data))
    for group in find_dim_groups(data, output, ()):
        assert prod(data[index] for index in group.data) == prod(output[index] for index in group.output)


@given(st.lists(st.integers(2, 6), min_size=1, max_size=8), st.data())
def test_dims_are_split_into_as_many_groups_as_possible(data: list[int], draw: st.DataObject):
    output = list(data)
    for _ in range(draw.draw(st.integers(0, 4))):  # joins neighbours, then maybe moves the dims
        if len(output) > 1:
            at = draw.draw(st.integers(0, len(output) - 2))
            output[at : at + 2] = [output[at] * output[at + 1]]
    output = draw.draw(st.just(output) | st.permutations(output))
    ends = {*accumulate(data, mul)} & {*accumulate(output, mul)}  # without dims of 1, each product belongs to one end
    assert len(find_dim_groups(data, output, ())) == len(ends)
