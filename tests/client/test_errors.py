"""The exceptions of the SDK for failed calls."""

import pickle

from grpc import StatusCode

from tensor_reshape.client import (
    CallTimeoutError,
    InternalServerError,
    ResponseError,
    ServiceError,
    TensorReshapeError,
    UnavailableError,
)


def test_sdk_errors_inherit_from_python_and_sdk_base_classes():
    assert issubclass(UnavailableError, ConnectionError)
    assert issubclass(CallTimeoutError, TimeoutError)
    assert issubclass(InternalServerError, ServiceError)
    assert issubclass(ResponseError, TensorReshapeError)


def test_sdk_error_survives_pickling():
    error = CallTimeoutError("late", StatusCode.DEADLINE_EXCEEDED)
    error.seconds, error.fault = 2.5, "not connected"
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), twin.code, twin.message) == (CallTimeoutError, error.code, "late")
    assert (twin.seconds, twin.fault) == (2.5, "not connected")
