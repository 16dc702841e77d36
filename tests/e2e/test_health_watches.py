"""What the server says of itself; health watches come and go, as those of every balancing client do."""

from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client, HealthStatus
from tensor_reshape.wire.methods import SERVICE

ROUNDS, CHANNELS = 50, 8


def list_statuses(address: str) -> dict[str, int]:
    with grpc.insecure_channel(address) as channel:
        response = health_pb2_grpc.HealthStub(channel).List(health_pb2.HealthListRequest())
    return {name: answer.status for name, answer in response.statuses.items()}


def test_all_services_are_listed_with_their_status(server: ServerProcess):
    serving = health_pb2.HealthCheckResponse.SERVING
    assert list_statuses(server.address) == {"": serving, SERVICE: serving}


def watch_and_leave(address: str) -> int:
    """Opens and cancels watches, one after the other; returns how many said SERVING within their deadline."""
    request = health_pb2.HealthCheckRequest()
    served = 0
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        for _ in range(ROUNDS):
            watch = health_pb2_grpc.HealthStub(channel).Watch(request, timeout=60)
            served += next(watch).status == health_pb2.HealthCheckResponse.SERVING
            watch.cancel()
    return served


def test_watches_that_come_and_go_at_once_leave_the_server_answering():
    with run_server() as server:
        with ThreadPoolExecutor(CHANNELS) as pool:
            served = list(pool.map(watch_and_leave, [server.address] * CHANNELS))
        with Client(server.address) as client:
            assert (served, client.check_health("", timeout=60)) == ([ROUNDS] * CHANNELS, HealthStatus.SERVING)
        assert server.stop() == 0
