"""Every executed layout case, through a server, sent with the strides of the case by a generated stub."""

import grpc

from server_processes import ServerProcess
from tensor_reshape.v1 import reshape_pb2, reshape_pb2_grpc, tensor_pb2
from tests.oracles.conformance_cases import load_recorded


def test_output_is_the_row_major_reading_of_the_source(server: ServerProcess):
    cases = load_recorded("lay")
    assert len(cases) == 162
    with grpc.insecure_channel(server.address) as channel:
        stub = reshape_pb2_grpc.ReshapeServiceStub(channel)
        for case in cases:
            # Each place of the buffer holds its own index, as in the executions.
            data = tensor_pb2.Tensor(
                data_type=tensor_pb2.DATA_TYPE_F32,
                dims=case["data"],
                strides=case["strides"],
                data=bytes.fromhex(case["bytes"]),
            )
            request = reshape_pb2.StaticReshapeRequest(
                shape=case["shape"], special_zero=case["special_zero"], data=data
            )
            output = stub.StaticReshape(request, timeout=60).output
            assert list(output.dims) == case["recorded"]["shape"], case["id"]
            assert (list(output.strides), output.data.hex()) == ([], case["recorded"]["bytes"]), case["id"]
