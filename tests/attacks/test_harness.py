"""What the attacks of this folder stand on: a call by hand is a call, and a polite client sees what there is to see."""

from http2 import HEALTH_CHECK, Connection
from plain_requests import STATIC_RESHAPE, build_static_request
from polite_clients import run_polite_clients
from server_processes import ServerProcess, run_server


def test_calls_by_hand_are_answered(server: ServerProcess):
    with Connection(server.address) as connection:
        assert connection.call(HEALTH_CHECK, b"").is_ok
        assert connection.call(STATIC_RESHAPE, build_static_request()).is_ok
        assert connection.call(STATIC_RESHAPE, b"\xff").status == "3"


def test_polite_clients_are_answered_while_nobody_attacks(server: ServerProcess):
    with run_polite_clients(server.address, ("raw", "sdk", "health", "infer", "mib")) as clients:
        figures = clients.stop()
    assert [seen.failures for seen in figures.values()] == [[]] * 5


def test_polite_clients_see_that_a_server_is_gone():
    with run_server() as server, run_polite_clients(server.address, ("raw", "health")) as clients:
        server.process.kill()
        clients.await_call(lambda call: "UNAVAILABLE" in call.failure)
