"""Every executed layout case, through a server, sent with the strides of the case by a generated stub."""

import math

import grpc
import numpy as np
import pytest

from server_processes import ServerProcess
from tensor_reshape.rules.layouts import compute_span
from tensor_reshape.v1 import reshape_pb2, reshape_pb2_grpc, tensor_pb2
from tests.oracles.conformance_cases import Case, load_cases

CASES = load_cases("layout_cases.jsonl")


@pytest.fixture(scope="module")
def stub(server: ServerProcess):
    with grpc.insecure_channel(server.address) as channel:
        yield reshape_pb2_grpc.ReshapeServiceStub(channel)


def test_no_case_is_left_out():
    assert len(CASES) == 162


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_output_is_the_row_major_reading_of_the_source(stub: reshape_pb2_grpc.ReshapeServiceStub, case: Case):
    # Each place of the buffer holds its own index, as in the executions.
    span = compute_span(case["data_shape"], case["data_strides"])
    data = tensor_pb2.Tensor(
        data_type=tensor_pb2.DATA_TYPE_F32,
        dims=case["data_shape"],
        strides=case["data_strides"],
        data=np.arange(span, dtype="<f4").tobytes(),
    )
    request = reshape_pb2.StaticReshapeRequest(shape=case["target"], special_zero=case["special_zero"], data=data)

    output = stub.StaticReshape(request, timeout=60).output

    assert list(output.dims) == case["expect"]["shape"]
    assert list(output.strides) == []
    assert np.frombuffer(output.data, "<f4").tolist() == case["expect"]["logical_values_row_major"]
    assert math.prod(output.dims) == len(output.data) // 4
