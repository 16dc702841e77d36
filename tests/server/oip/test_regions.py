"""Where a tensor lies, by its parameters."""

import pytest

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import Limits
from tensor_reshape.server.oip.messages import find_class
from tensor_reshape.server.oip.regions import Place, find_place

LIMITS = Limits(max_output_bytes=100)
PARAMETER = find_class("InferParameter")


def find(**parameters: object) -> Place | None:
    told = {
        f"shared_memory_{name}": PARAMETER(**{f"{'string' if isinstance(value, str) else 'int64'}_param": value})
        for name, value in parameters.items()
    }
    return find_place(told, "inputs[0]", LIMITS)


def test_without_a_region_a_tensor_is_in_the_message():
    assert find(byte_size=24) is None


def test_an_offset_may_be_left_out():
    assert find(region="mine", byte_size=24) == Place("mine", 0, 24)
    assert find(region="mine", byte_size=24, offset=8) == Place("mine", 8, 24)


@pytest.mark.parametrize(
    "parameters",
    [
        {"region": 5, "byte_size": 24},
        {"region": "mine", "byte_size": "24"},
        {"region": "mine", "byte_size": -1},
        {"region": "mine", "byte_size": 24, "offset": -1},
    ],
)
def test_a_parameter_of_another_kind_is_refused(parameters: dict[str, object]):
    with pytest.raises(InvalidRequestError) as caught:
        find(**parameters)
    assert caught.value.reason is Reason.PARAMETER_INVALID


def test_a_region_without_a_size_is_refused():
    parameters = find_class("ModelInferRequest")(
        parameters={"shared_memory_region": PARAMETER(string_param="mine")}
    ).parameters  # type: ignore[attr-defined] # of the pool
    with pytest.raises(InvalidRequestError, match="shared_memory_byte_size"):
        find_place(parameters, "inputs[0]", LIMITS)


def test_more_than_the_largest_output_is_refused():
    with pytest.raises(LimitError) as caught:
        find(region="mine", byte_size=101)
    assert caught.value.reason is Reason.TENSOR_TOO_LARGE
