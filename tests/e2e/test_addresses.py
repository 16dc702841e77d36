"""Where a server listens, and where it refuses to."""

import socket
from pathlib import Path

import pytest

from command_line import Outcome, run_module
from server_processes import run_server
from tensor_reshape.client import Client


def serve(*arguments: str) -> Outcome:
    return run_module("tensor_reshape.server", *arguments)


def infer(address: str) -> tuple[int, ...]:
    with Client(address) as client:
        return client.infer_shape([2, 3], [6], special_zero=False).known


def test_a_server_listens_on_every_address_it_is_given(tmp_path: Path):
    with run_server(listen=("127.0.0.1:0", "127.0.0.1:0", f"unix:{tmp_path}/s")) as server:
        assert [infer(address) for address in server.addresses] == [(6,)] * 3


def test_a_second_server_on_the_same_port_ends_with_one_line():
    with run_server() as server:
        outcome = serve("--listen", server.address)
        assert (outcome.code, len(outcome.errors)) == (1, 1)
        assert outcome.errors[0].startswith(f"Error: cannot listen on {server.address}: ")


def test_a_second_server_on_the_same_port_takes_nothing_from_the_first():
    with run_server() as server:
        serve("--listen", server.address)
        assert infer(server.address) == (6,)


def test_a_second_server_on_the_same_unix_socket_ends_with_one_line(tmp_path: Path):
    with run_server(listen=(f"unix:{tmp_path}/s",)) as server:
        outcome = serve("--listen", server.address)
        assert (outcome.code, len(outcome.errors)) == (1, 1)


def test_a_second_server_on_the_same_unix_socket_takes_nothing_from_the_first(tmp_path: Path):
    with run_server(listen=(f"unix:{tmp_path}/s",)) as server:
        serve("--listen", server.address)
        assert infer(server.address) == (6,)


def test_a_second_server_is_noticed_where_the_path_is_percent_encoded(tmp_path: Path):
    with (
        run_server(listen=(f"unix:{tmp_path}/%41",)) as server,
        pytest.raises(RuntimeError, match="ended with 1"),
        run_server(listen=(server.address,)),
    ):
        pass


def test_a_unix_socket_can_be_served_again_after_a_stop(tmp_path: Path):
    listen = (f"unix:{tmp_path}/s",)
    with run_server(listen=listen) as first:
        assert first.stop() == 0
    with run_server(listen=listen) as second:
        assert infer(second.address) == (6,)


def test_the_stale_socket_of_a_killed_server_is_no_obstacle(tmp_path: Path):
    listen = (f"unix:{tmp_path}/s",)
    with run_server(listen=listen) as first:
        first.process.kill()
        first.wait()
    assert (tmp_path / "s").is_socket()
    with run_server(listen=listen) as second:
        assert infer(second.address) == (6,)


def test_a_port_that_another_program_listens_on_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as other:
        outcome = serve("--listen", f"127.0.0.1:{other.getsockname()[1]}")
    assert (outcome.code, len(outcome.errors)) == (1, 1)


@pytest.mark.parametrize("name", ["missing/s", "s" * 200])
def test_a_unix_socket_that_cannot_be_made_is_not_called_in_use(tmp_path: Path, name: str):
    outcome = serve("--listen", f"unix:{tmp_path}/{name}")
    assert (outcome.code, len(outcome.errors), "in use" in outcome.errors[0]) == (1, 1, False)


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path):
    file = tmp_path / "file"
    file.write_text("precious")
    assert (serve("--listen", f"unix:{file}").code, file.read_text()) == (1, "precious")


def test_a_name_is_refused_where_one_of_its_addresses_is_taken():
    with run_server() as first:
        outcome = serve("--listen", f"localhost:{first.address.rpartition(':')[2]}")
        assert (outcome.code, len(outcome.errors)) == (1, 1)
        assert infer(first.address) == (6,)


@pytest.mark.parametrize("address", ["::1:0", "::1:50077", "[::1:0", ":50051", "host"])
def test_an_address_that_can_be_read_in_two_ways_is_refused(address: str):
    outcome = serve("--listen", address)
    assert (outcome.code, len(outcome.errors), "host:port" in outcome.errors[0]) == (1, 1, True)
