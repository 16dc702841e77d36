"""The exceptions of the SDK for failed calls."""

import pickle

from grpc import StatusCode

from tensor_reshape.client import (
    CallTimeoutError,
)


def test_sdk_error_survives_pickling():
    error = CallTimeoutError("late", StatusCode.DEADLINE_EXCEEDED)
    error.seconds, error.fault = 2.5, "not connected"
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), twin.code, twin.message) == (CallTimeoutError, error.code, "late")
    assert (twin.seconds, twin.fault) == (2.5, "not connected")
