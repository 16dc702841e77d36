"""Keywords that no method has, which a `TypedDict` would let pass."""

from typing import Any

import numpy as np
import pytest

from both_clients import CLIENTS, open_client

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
