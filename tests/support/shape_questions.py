"""Questions that are known, for hypothesis: a fair share of them is admitted."""

from hypothesis import strategies as st

from tensor_reshape.rules.operations import OPERATIONS

MAX = 2**63 - 1

Dims = tuple[int, ...]

small_dims = st.lists(st.integers(0, 4), max_size=5).map(tuple)
huge_dims = st.lists(st.sampled_from([0, 1, 2, 3, 2**31, 2**62, MAX]), max_size=12).map(tuple)
any_dims = small_dims | huge_dims
operations = st.sampled_from(list(OPERATIONS.values()))


@st.composite
def questions(draw: st.DrawFn) -> tuple[Dims, Dims, bool]:
    """Data with a target made from it, so that a fair share is admitted: regrouped dims, then copies and a -1."""
    data = draw(any_dims)
    target = list(draw(st.permutations(data)))
    for _ in range(draw(st.integers(0, 2))):
        if len(target) > 1:
            at = draw(st.integers(0, len(target) - 2))
            target[at : at + 2] = [target[at] * target[at + 1]]
    for at in draw(st.sets(st.integers(0, 11), max_size=3)):
        if at < len(target) and at < len(data):
            target[at] = draw(st.sampled_from([0, data[at], target[at]]))
    if draw(st.booleans()) and target:
        target[draw(st.integers(0, len(target) - 1))] = -1
    return data, tuple(min(item, MAX) for item in target), draw(st.booleans())
