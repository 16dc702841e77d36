"""What is decided before anything is sent: keywords, targets, and what numpy's arrays become."""

from typing import Any

import numpy as np
import pytest

from both_clients import CLIENTS, open_client
from tensor_reshape.client import Client

NOBODY = "127.0.0.1:1"  # so whatever was sent would end in another error


RESHAPES = ["static_reshape", "dynamic_reshape", "reshape"]


MISSPELT = {
    "expected_shpae": "expected_shape",
    "timout": "timeout",
    "transfr": "transfer",
    "Out": "out",
    "progres": "progress",
    "copies": "copy",
}


def call(kind: str, method: str, **fields: Any) -> None:
    with open_client(kind, NOBODY) as client:
        if method == "infer_shape":
            client.infer_shape([6], [6], **fields)
        else:
            getattr(client, method)(np.zeros(6, np.float32), [6], **fields)


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("method", RESHAPES)
@pytest.mark.parametrize(("wrong", "right"), MISSPELT.items())
def test_a_misspelt_keyword_is_a_type_error_that_names_the_right_one(kind: str, method: str, wrong: str, right: str):
    text = rf"^{method}\(\) got an unexpected keyword argument '{wrong}'\. Did you mean '{right}'\?$"
    with pytest.raises(TypeError, match=text):
        call(kind, method, **{wrong: None})


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("method", [*RESHAPES, "infer_shape"])
def test_a_keyword_like_no_other_is_a_type_error_that_names_none(kind: str, method: str):
    with pytest.raises(TypeError, match=rf"^{method}\(\) got an unexpected keyword argument 'xyzzy'$"):
        call(kind, method, xyzzy=1)


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("expect_shape", "expected_shape"),
        ("operatoin", "operation"),
        ("strides", "data_strides"),
        ("time_out", "timeout"),
    ],
)
def test_a_misspelt_keyword_of_a_question_is_a_type_error(kind: str, wrong: str, right: str):
    with pytest.raises(TypeError, match=rf"^infer_shape\(\) got .* '{wrong}'\. Did you mean '{right}'\?$"):
        call(kind, "infer_shape", **{wrong: None})


@pytest.mark.parametrize("kind", CLIENTS)
def test_what_only_a_query_of_a_batch_has_is_no_keyword_of_a_single_question(kind: str):
    with pytest.raises(TypeError, match="data_from"):
        call(kind, "infer_shape", data_from=0)


SIX = np.arange(6, dtype=np.float32)


def test_special_zero_has_no_default(client: Client):
    with pytest.raises(TypeError, match="special_zero"):
        client.static_reshape(SIX, [6])  # type: ignore[call-arg]


@pytest.mark.parametrize("value", [0, 1, "true"])
def test_special_zero_is_a_bool(client: Client, value: object):
    with pytest.raises(TypeError, match="special_zero"):
        client.static_reshape(SIX, [6], special_zero=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["static_reshape", "dynamic_reshape", "reshape"])
@pytest.mark.parametrize("target", [[2.7, 3], ["2", "3"], [2.0, 3.0]], ids=str)
def test_a_target_of_anything_but_integers_is_never_rounded(client: Client, method: str, target: list[object]):
    with pytest.raises((TypeError, ValueError)):
        getattr(client, method)(SIX, target, special_zero=False)


@pytest.mark.parametrize("method", ["static_reshape", "dynamic_reshape", "reshape"])
def test_every_operation_takes_an_array_whose_elements_lie_apart(client: Client, method: str):
    apart = np.arange(12, dtype=np.float32)[::2]
    np.testing.assert_array_equal(getattr(client, method)(apart, [2, 3], special_zero=False), apart.reshape(2, 3))


@pytest.mark.parametrize("item", [2**31, -(2**31) - 1])
def test_a_target_item_that_i32_cannot_hold_is_refused(client: Client, item: int):
    with pytest.raises(ValueError, match="cannot hold"):
        client.dynamic_reshape(SIX, [item], special_zero=False)
