"""What the SDK raises when there is no answer."""

import pickle

import pytest
from grpc import StatusCode

from tensor_reshape.client import (
    CallTimeoutError,
    InternalServerError,
    ResponseError,
    ServiceError,
    TensorReshapeError,
    UnavailableError,
)


@pytest.mark.parametrize(
    ("kind", "parent"),
    [
        (UnavailableError, ConnectionError),
        (CallTimeoutError, TimeoutError),
        (InternalServerError, ServiceError),
        (ResponseError, TensorReshapeError),
    ],
)
def test_an_error_is_caught_by_its_parent(kind: type[Exception], parent: type[Exception]):
    assert issubclass(kind, parent)


def test_an_error_survives_pickling():
    error = UnavailableError("no", StatusCode.UNAVAILABLE)
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), twin.code, twin.message) == (UnavailableError, error.code, "no")
