"""The comparison of groups of dimensions with MLIR. `scripts/verify mlir` runs the compiler."""

from random import Random

import pytest

from tensor_reshape.rules.explanations import find_dim_groups
from verification.mlir import Groups, Reassociation, are_consistent, draw_reshape

SPLIT = Reassociation([([0], [0]), ([1], [1, 2])], 1)
WHOLE = Reassociation([([0, 1], [0, 1, 2])], 2)


@pytest.mark.parametrize("theirs", [SPLIT, WHOLE], ids=["one operation", "two operations"])
def test_equal_or_finer_groups_are_consistent(theirs: Reassociation):
    assert are_consistent((2, 6), (2, 3, 2), [([0], [0]), ([1], [1, 2])], theirs)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([([0, 1], [0, 1, 2])], SPLIT),
        ([([0], [0, 1]), ([1], [2])], WHOLE),
        ([([0], [0]), ([1], [1, 2])], Reassociation([([0], [0, 1]), ([1], [2])], 2)),
    ],
    ids=["coarser", "unequal products", "across groups"],
)
def test_wrong_groups_are_found(ours: Groups, theirs: Reassociation):
    assert not are_consistent((2, 6), (2, 3, 2), ours, theirs)


def test_dims_of_one_may_belong_to_either_neighbour():
    assert are_consistent((2, 3), (2, 1, 3), [([0], [0, 1]), ([1], [2])], Reassociation([([0], [0]), ([1], [1, 2])], 1))


def test_drawn_reshapes_have_groups_with_equal_products():
    random = Random(0)
    for _ in range(200):
        data, output = draw_reshape(random)
        groups = [(list(one.data), list(one.output)) for one in find_dim_groups(data, output, ())]
        assert are_consistent(data, output, groups, Reassociation(groups, 1))
