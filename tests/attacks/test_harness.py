"""What the attacks of this folder stand on: a call by hand is a call, and a polite client sees what there is to see."""

from http2 import HEALTH_CHECK, SERVICE_PATH, Connection
from polite_clients import run_polite_clients
from server_processes import ServerProcess, run_server
from tensor_reshape.v1 import reshape_pb2, tensor_pb2


def _build_request() -> bytes:
    data = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=(2, 3), data=bytes(24))
    return reshape_pb2.StaticReshapeRequest(shape=(3, 2), special_zero=False, data=data).SerializeToString()


def test_calls_by_hand_are_answered(server: ServerProcess):
    with Connection(server.address) as connection:
        assert connection.call(HEALTH_CHECK, b"").is_ok
        assert connection.call(f"{SERVICE_PATH}StaticReshape", _build_request()).is_ok
        assert connection.call(f"{SERVICE_PATH}StaticReshape", b"\xff").status == "3"


def test_polite_clients_are_answered_while_nobody_attacks(server: ServerProcess):
    with run_polite_clients(server.address, ("raw", "sdk", "health", "infer", "mib")) as clients:
        figures = clients.stop()
    assert [seen.failures for seen in figures.values()] == [[]] * 5


def test_polite_clients_see_that_a_server_is_gone():
    with run_server() as server, run_polite_clients(server.address, ("raw", "health")) as clients:
        server.process.kill()
        clients.await_call(lambda call: "UNAVAILABLE" in call.failure)
