"""The addresses on which a server can listen."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import run_module
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client


def infer(address: str) -> tuple[int, ...]:
    with Client(address) as client:
        return client.infer_shape([2, 3], [6], special_zero=False).known


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("first")
    with run_server(listen=("127.0.0.1:0", "127.0.0.1:0", f"unix:{directory}/%41")) as server:
        yield server


def test_server_listens_on_every_configured_address(first: ServerProcess):
    assert [infer(address) for address in first.addresses] == [(6,)] * 3


def reject(address: str) -> str:
    """Returns the line that a server prints if it cannot listen on the address."""
    outcome = run_module("tensor_reshape.server", "--listen", address)
    assert (outcome.code, len(outcome.errors)) == (1, 1)
    return outcome.errors[0]


@pytest.mark.parametrize("kind", ["port", "unix socket with a percent-encoded path", "name of a taken address"])
def test_second_server_on_a_used_address_fails_to_start(first: ServerProcess, kind: str):
    addresses = {"port": first.address, "name of a taken address": f"localhost:{first.address.rpartition(':')[2]}"}
    address = addresses.get(kind, first.addresses[2])
    assert reject(address).startswith(f"Error: cannot listen on {address}: ")
    assert [infer(address) for address in first.addresses] == [(6,)] * 3


def test_unix_socket_can_be_bound_again_after_server_exit(tmp_path: Path):
    listen = (f"unix:{tmp_path}/s",)
    with run_server(listen=listen) as first:
        first.process.kill()
        first.wait()
    assert (tmp_path / "s").is_socket()
    for _ in range(2):
        with run_server(listen=listen) as server:
            assert infer(server.address) == (6,)
            assert server.stop() == 0


@pytest.mark.parametrize("name", ["missing/s", "s" * 200])
def test_invalid_unix_socket_path_is_not_reported_as_in_use(tmp_path: Path, name: str):
    assert "in use" not in reject(f"unix:{tmp_path}/{name}")


def test_server_does_not_replace_a_regular_file_by_a_socket(tmp_path: Path):
    file = tmp_path / "file"
    file.write_text("precious")
    reject(f"unix:{file}")
    assert file.read_text() == "precious"
