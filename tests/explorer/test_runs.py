"""Which neighbouring dims of the data become which of the output."""

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from tensor_reshape.explorer.runs import find_runs
from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.notation import parse_dim


def find(data: str, output: str, copied: tuple[int, ...] = ()) -> str:
    """Returns the runs as text: `0,1>0` for the first two dims of the data, which become the first of the output."""
    left, right = ([parse_dim(dim) for dim in text.split(",") if dim] for text in (data, output))
    return " ".join(f"{_list(run.data)}>{_list(run.output)}" for run in find_runs(left, right, copied))


def _list(indices: range) -> str:
    return ",".join(map(str, indices))


# data, output; runs
RUNS = {
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


def test_neighbours_with_equal_products_are_a_run():
    assert {row: find(*row) for row in RUNS} == RUNS
    # A copy is the same dim though nothing is known of it.
    assert find("?,?,?", "?,?", (0,)) == "0>0 1,2>1"


numbers = st.lists(st.integers(0, 6), min_size=1, max_size=6)
dims: st.SearchStrategy[AnyDim] = st.sampled_from(
    [*map(parse_dim, ["0", "1", "2", "6", "?", "N", "N/2", "2*N", "2..8"])]
)


@given(st.lists(dims, max_size=64), st.lists(dims, max_size=64), st.sets(st.integers(0, 63)))
def test_runs_cover_every_dim_of_both_sides_in_order(data: list[AnyDim], output: list[AnyDim], copied: set[int]):
    runs = find_runs(data, output, {index for index in copied if index < min(len(data), len(output))})
    assert [index for run in runs for index in run.data] == [*range(len(data))]
    assert [index for run in runs for index in run.output] == [*range(len(output))]
    assert all(run.data for run in runs) or not data
    assert all(run.output for run in runs) or not output


@given(numbers, st.data())
def test_dim_groups_have_equal_products(data: list[int], draw: st.DataObject):
    output = draw.draw(st.permutations(data))
    for run in find_runs(data, output, ()):
        assert prod(data[index] for index in run.data) == prod(output[index] for index in run.output)
