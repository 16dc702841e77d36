"""Shapes and batches of them through the generated stub, as other languages have it."""

from remote_refusals import catch_status, read_trailing
from tensor_reshape.v1 import reshape_pb2, reshape_pb2_grpc, tensor_pb2
from tensor_reshape.wire.status import DETAILS_KEY, decode_refusal


def make_item(target: int, data_from: int | None = None) -> reshape_pb2.BatchInferShapeItem:
    six = tensor_pb2.TensorSpec(shape=tensor_pb2.Shape(dims=[tensor_pb2.Dim(value=6)]))
    question = reshape_pb2.InferShapeRequest(
        operation=reshape_pb2.OPERATION_RESHAPE,
        special_zero=False,
        data=six if data_from is None else None,
        shape=tensor_pb2.Shape(dims=[tensor_pb2.Dim(value=target)]),
        explain=True,
    )
    return reshape_pb2.BatchInferShapeItem(question=question, data_from=data_from)


def test_a_generated_stub_asks_many_questions(stub: reshape_pb2_grpc.ReshapeServiceStub):
    items = [make_item(-1), make_item(-1, data_from=0), make_item(7)]
    results = stub.BatchInferShape(reshape_pb2.BatchInferShapeRequest(items=items)).results
    assert [result.WhichOneof("result") for result in results] == ["answer", "answer", "refusal"]
    assert [dim.value for dim in results[1].answer.shape.dims] == [6]


def test_a_generated_stub_finds_the_refusal_of_an_item(stub: reshape_pb2_grpc.ReshapeServiceStub):
    (result,) = stub.BatchInferShape(reshape_pb2.BatchInferShapeRequest(items=[make_item(7)])).results
    refusal = result.refusal
    assert (refusal.reason, refusal.field, refusal.limit_exceeded) == ("VOLUME_MISMATCH", "shape", False)
    assert (refusal.metadata["rule"], "product is 6" in refusal.metadata["accepted"]) == ("4", True)


def test_a_generated_stub_finds_rule_and_accepted_in_the_error_info(stub: reshape_pb2_grpc.ReshapeServiceStub):
    status = catch_status(lambda: stub.InferShape(make_item(7).question))
    error = decode_refusal(status.code(), read_trailing(status).items())
    assert DETAILS_KEY in read_trailing(status)
    assert error is not None
    assert (error.metadata["rule"], error.metadata["accepted"]) == (
        "4",
        "items whose product is 6: 6, or -1, for shape[0]",
    )


def test_a_generated_stub_may_write_a_symbol_twice_with_other_bounds(stub: reshape_pb2_grpc.ReshapeServiceStub):
    bounded = tensor_pb2.Symbol(name="N", bounds=tensor_pb2.Interval(max=5))
    expression = tensor_pb2.Expression(factors=[tensor_pb2.Symbol(name="N"), bounded])
    request = make_item(-1).question
    request.data.shape.dims[0].CopyFrom(tensor_pb2.Dim(expression=expression))
    (dim,) = stub.InferShape(request).shape.dims
    assert [symbol.name for symbol in dim.expression.factors] == ["N", "N"]
