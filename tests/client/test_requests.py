"""What is decided before anything is sent: keywords, targets, and what numpy's arrays become."""

from typing import Any

import numpy as np
import pytest

from both_clients import CLIENTS, open_client
from tensor_reshape.client import Client, InvalidRequestError, Reason, ReshapeError, ShapeQuery
from tensor_reshape.client.requests import (
    Arguments,
    Plan,
    Target,
    build_health_check,
    build_infer_shape,
    build_infer_shapes,
    check_keywords,
    plan_reshape,
)
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, OPERATIONS, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.arrays import Array
from tensor_reshape.wire.batches import decode_batch_request
from tensor_reshape.wire.inference import decode_infer_request
from tensor_reshape.wire.methods import OPERATION_METHODS
from tensor_reshape.wire.reshapes import decode_reshape_request, encode_reshape_response
from tensor_reshape.wire.tensors import TensorView

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


SIX = np.arange(6, dtype=np.float32)


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


def test_special_zero_has_no_default(client: Client):
    with pytest.raises(TypeError, match="special_zero"):
        client.static_reshape(SIX, [6])  # type: ignore[call-overload]


@pytest.mark.parametrize("value", [0, 1, "true"])
def test_special_zero_is_a_bool(client: Client, value: object):
    with pytest.raises(TypeError, match="special_zero"):
        client.static_reshape(SIX, [6], special_zero=value)  # type: ignore[call-overload]


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


def plan(operation: Operation = STATIC_RESHAPE, array: Array = SIX, shape: Target = (3, 2)) -> Plan:
    return plan_reshape(Arguments(operation, array, shape, special_zero=False, expected_shape=None))


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.name)
def test_a_plan_becomes_the_request_of_its_operation(operation: Operation):
    call = plan(operation).build_inline()
    read = decode_reshape_request(operation, call.request)
    assert call.method == OPERATION_METHODS[operation].path
    assert (list(read.question.target), read.data.dims, bytes(read.data.payload)) == ([3, 2], (6,), SIX.tobytes())


def test_a_plan_knows_the_shape_before_anything_is_sent():
    assert plan(shape=(2, -1)).dims == (2, 3)


def test_what_the_rules_refuse_is_refused_before_anything_is_sent():
    with pytest.raises(InvalidRequestError) as caught:
        plan(shape=(4, -1))
    assert caught.value.reason is Reason.NOT_DIVISIBLE


@pytest.mark.parametrize(
    ("operation", "data_type"), [(DYNAMIC_RESHAPE, DataType.I32), (RESHAPE, DataType.I64)], ids=str
)
def test_a_plain_target_is_sent_as_the_widest_integer_that_the_operation_takes(
    operation: Operation, data_type: DataType
):
    view = plan(operation).shape
    assert view is not None
    assert view.data_type is data_type


def test_an_array_as_a_target_keeps_its_type():
    view = plan(RESHAPE, shape=np.array([3, 2], np.uint8)).shape
    assert view is not None
    assert view.data_type is DataType.U8


def test_a_target_that_is_an_attribute_is_no_tensor():
    assert plan().shape is None


def test_a_masked_array_has_elements_that_no_tensor_has():
    with pytest.raises(TypeError, match="masked"):
        plan(array=np.ma.masked_array(SIX, mask=[True] * 6))


def test_two_arrays_of_one_shape_are_sent_with_their_own_elements():
    one, other = plan().build_inline().request, plan(array=SIX + 1).build_inline().request
    assert (len(one), one[:-24]) == (len(other), other[:-24])
    assert one[-24:] != other[-24:]


def test_two_layouts_of_one_shape_are_two_requests():
    square = np.arange(4, dtype=np.float32).reshape(2, 2)
    requests = [plan(array=array, shape=(4,)).build_inline() for array in (square, square.T)]
    assert [decode_reshape_request(STATIC_RESHAPE, call.request).data.strides for call in requests] == [None, (1, 2)]


def test_a_call_reads_its_own_response():
    response = encode_reshape_response(TensorView(DataType.F32, (3, 2), None, memoryview(SIX.tobytes())))
    output = plan().build_inline().decode(response)
    np.testing.assert_array_equal(output, SIX.reshape(3, 2), strict=True)
    assert not output.flags.writeable


def test_a_view_asks_the_server_the_same_question_without_data():
    question = decode_infer_request(plan().build_infer().request).question
    assert (question.operation, question.data, question.target) == (STATIC_RESHAPE, [6], [3, 2])


def test_a_question_is_sent_as_it_is_asked():
    call = build_infer_shape(["N", 4], [-1], special_zero=True, more={"operation": "reshape", "explain": True})
    request = decode_infer_request(call.request)
    assert (request.question.operation, request.explain, request.question.special_zero) == (RESHAPE, True, True)


def test_a_query_that_cannot_be_sent_is_refused_in_its_place():
    good, bad = (ShapeQuery(data_shape=[6], shape=[text], special_zero=False) for text in ("6", "1.5"))
    call = build_infer_shapes([good, bad, good])
    assert [len(item) > 0 for item in decode_batch_request(call.request)] == [True, False, True]
    answer = reshape_pb2.BatchInferShapeResult(answer=reshape_pb2.InferShapeResponse())
    response = reshape_pb2.BatchInferShapeResponse(results=[answer] * 3).SerializeToString()
    first, second, third = call.decode(response)
    assert isinstance(second, ReshapeError)
    assert (second.reason, isinstance(first, ReshapeError), isinstance(third, ReshapeError)) == (
        Reason.DIM_UNREADABLE,
        False,
        False,
    )


def test_a_link_that_no_message_can_hold_is_refused_in_its_place():
    (answer,) = build_infer_shapes([ShapeQuery(data_from=2**40, shape=[6], special_zero=False)]).decode(
        reshape_pb2.BatchInferShapeResponse(
            results=[reshape_pb2.BatchInferShapeResult(answer=reshape_pb2.InferShapeResponse())]
        ).SerializeToString()
    )
    assert isinstance(answer, ReshapeError)
    assert (answer.reason, answer.field) == (Reason.LINK_INVALID, "data_from")


def test_the_health_of_a_service_is_asked_by_its_name():
    assert build_health_check("a service").request == b"\x0a\x09a service"


def test_keywords_that_the_options_have_are_returned():
    given = {"operation": "reshape"}
    assert check_keywords("infer_shape", given, (), ShapeQuery) is given  # type: ignore[arg-type] # has the same names
