"""The exceptions of the SDK for failed calls."""

import pickle
from copy import copy
from xml.etree.ElementTree import fromstring

import numpy as np
import pytest
from grpc import StatusCode

from both_clients import open_client
from server_processes import ServerProcess
from tensor_reshape.client import (
    CallTimeoutError,
    Client,
    InvalidRequestError,
    LimitError,
    Reason,
    ShapeQuery,
    infer_locally,
)
from tensor_reshape.client.errors import keep_question
from tensor_reshape.rules.operations import STATIC_RESHAPE
from tensor_reshape.rules.questions import Question

TITLE = "{http://www.w3.org/2000/svg}title"
ROWS_OF_FIVE = ShapeQuery(data_shape=[2, 3, 4], shape=[5, -1], special_zero=False)


def test_sdk_error_survives_pickling():
    error = CallTimeoutError("late", StatusCode.DEADLINE_EXCEEDED)
    error.seconds, error.fault = 2.5, "not connected"
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), twin.code, twin.message) == (CallTimeoutError, error.code, "late")
    assert (twin.seconds, twin.fault) == (2.5, "not connected")


def test_rejection_of_each_call_draws_its_query(kind: str, server: ServerProcess):
    with open_client(kind, server.address) as client:
        rejections = [*client.infer_shapes([ROWS_OF_FIVE]), *infer_locally([ROWS_OF_FIVE])]
        with pytest.raises(InvalidRequestError) as caught:
            client.infer_shape([2, 3, 4], [5, -1])
        rejections.append(caught.value)
        with pytest.raises(InvalidRequestError) as caught:
            client.static_reshape(np.zeros((2, 3, 4), np.float32), [5, -1])
        rejections.append(caught.value)
    drawings = {str(error._repr_svg_()) for error in rejections if isinstance(error, InvalidRequestError)}
    assert len(rejections) == 4
    (drawing,) = drawings
    assert fromstring(drawing).findtext(TITLE) == "static_reshape of [2, 3, 4] to [5, -1]: rejected, NOT_DIVISIBLE"
    assert "accepted: other items whose product divides 24" in drawing


def test_rejection_of_a_number_above_s64_is_drawn():
    with Client("127.0.0.1:1") as client, pytest.raises(InvalidRequestError) as caught:
        client.infer_shape([2**63], [1], special_zero=False)
    assert "DIM_OUT_OF_RANGE" in str(caught.value.to_svg())


def test_rejection_of_a_linked_query_draws_the_earlier_output_as_its_input():
    queries = [
        ShapeQuery(data_shape=[2, 3, 4], shape=[-1], special_zero=False),
        ShapeQuery(data_from=0, shape=[5, -1], special_zero=False),
    ]
    rejected = infer_locally(queries)[1]
    assert isinstance(rejected, InvalidRequestError)
    assert fromstring(rejected.to_svg() or "").findtext(TITLE, "").startswith("static_reshape of [24] to [5, -1]: ")


def test_rejection_that_is_about_no_shape_is_not_drawn():
    unread = ShapeQuery(data_shape=["3..x"], shape=[6], special_zero=False)
    queries = [
        unread,
        ShapeQuery(data_from=0, shape=[6], special_zero=False),
        ShapeQuery(data_from=7, shape=[6], special_zero=False),
        ShapeQuery(data_from=-1, shape=[6], special_zero=False),
    ]
    results = infer_locally(queries)
    assert [result._repr_svg_() for result in results] == [None] * 4

    question = Question(STATIC_RESHAPE, (6,), (6,), special_zero=False)
    for error in (
        LimitError("full", reason=Reason.SERVER_BUSY),
        InvalidRequestError("new", reason="A_REASON_OF_A_NEWER_SERVER"),
    ):
        assert keep_question(error, question)._repr_svg_() is None


def test_rejection_of_a_long_requested_shape_does_not_keep_it():
    with Client("127.0.0.1:1") as client, pytest.raises(InvalidRequestError) as caught:
        client.static_reshape(np.zeros(6, np.float32), [1] * 10000, special_zero=False)
    assert (caught.value.to_svg(), len(pickle.dumps(caught.value)) < 1000) == (None, True)


def test_pickled_or_copied_rejection_keeps_its_drawing():
    (rejected,) = infer_locally([ROWS_OF_FIVE])
    assert isinstance(rejected, InvalidRequestError)
    for twin in (copy(rejected), pickle.loads(pickle.dumps(rejected))):
        assert (str(twin), twin.metadata, twin.to_svg()) == (str(rejected), rejected.metadata, rejected.to_svg())
