"""Which engine reads the connections of a server, and that it serves by either."""

import os
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from certificates import issue_certificates
from command_line import run_module
from meters import list_children
from reading_engines import find_engine
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client

PUBLIC = "0.0.0.0:0"
REMARK = "engine not chosen by address"


def infer(server: ServerProcess) -> tuple[int, ...]:
    with Client(server.address.replace("0.0.0.0", "127.0.0.1")) as client:
        return client.infer_shape((2, 3), (6,), special_zero=False).known


def find_remarks(server: ServerProcess) -> list[tuple[str, str]]:
    return [(record["engine"], record["cause"]) for record in server.records if record["message"] == REMARK]


def find_named(server: ServerProcess) -> set[str]:
    """Returns the engines that the log names where it says that the server listens."""
    return {record["engine"] for record in server.records if record["message"] == "listening"}


@pytest.mark.parametrize(
    ("listen", "engine"),
    [
        (("127.0.0.1:0",), "polling"),
        (("localhost:0", "unix:{folder}/s"), "polling"),
        ((PUBLIC,), "event"),
        (("unix:{folder}/s", PUBLIC), "event"),
    ],
    ids=str,
)
def test_the_engine_follows_the_addresses_and_the_log_names_it(tmp_path: Path, listen: tuple[str, ...], engine: str):
    with run_server(listen=tuple(address.format(folder=tmp_path) for address in listen)) as server:
        assert (find_engine(server.process.pid), find_named(server)) == (engine, {engine})
        assert infer(server) == (6,)
        assert server.stop() == 0
        assert find_remarks(server) == []


def test_a_port_for_health_that_others_reach_is_one_of_the_addresses():
    with run_server("--health-listen", PUBLIC) as server:
        assert (find_engine(server.process.pid), find_named(server)) == ("event", {"event"})


@pytest.mark.parametrize(("address", "asked"), [("127.0.0.1:0", "event"), (PUBLIC, "polling")])
def test_a_flag_wins_over_the_addresses(address: str, asked: str):
    with run_server("--engine", asked, listen=(address,)) as server:
        assert (find_engine(server.process.pid), find_named(server)) == (asked, {asked})
        assert infer(server) == (6,)
        assert server.stop() == 0


@pytest.mark.parametrize(("address", "engine"), [("127.0.0.1:0", "polling"), (PUBLIC, "event")])
def test_every_worker_has_the_engine_whatever_its_private_address(address: str, engine: str):
    with run_server("--workers", "2", listen=(address,)) as server:
        workers = list_children(server.process.pid)
        assert ([find_engine(worker) for worker in workers], find_named(server)) == ([engine] * 2, {engine})
        assert infer(server) == (6,)
        assert server.stop() == 0


@pytest.mark.parametrize("engine", ["event", "polling"])
def test_tls_is_served_by_either(tmp_path: Path, engine: str):
    files = issue_certificates(tmp_path)
    flags = ("--tls-certificate", str(files.server), "--tls-key", str(files.server_key))
    credentials = grpc.ssl_channel_credentials(files.authority.read_bytes())
    with run_server("--engine", engine, *flags, listen=("localhost:0",)) as server:
        assert find_engine(server.process.pid) == engine
        with Client(server.address, credentials=credentials) as client:
            assert client.infer_shape((2, 3), (6,), special_zero=False).known == (6,)


@pytest.mark.parametrize("address", ["127.0.0.1:0", PUBLIC])
def test_the_command_line_has_the_engine_although_it_imports_grpc_before(address: str):
    command = [sys.executable, "-m", "tensor_reshape.cli", "serve", "--log-format", "json", "--drain-seconds", "0"]
    with subprocess.Popen([*command, "--listen", address], stderr=subprocess.PIPE, text=True) as process:
        server = ServerProcess(process)
        server.read_addresses(1)
        expected = "event" if address == PUBLIC else "polling"
        assert (find_engine(process.pid), find_named(server)) == (expected, {expected})
        assert server.stop() == 0
        assert find_remarks(server) == []


@pytest.mark.parametrize(
    ("address", "value", "engine"),
    [("127.0.0.1:0", "-tcp_frame_size_tuning", "event"), (PUBLIC, "-event_engine_listener", "polling")],
)
def test_what_the_operator_has_set_is_left_as_it_is_and_the_log_says_so(address: str, value: str, engine: str):
    with run_server(listen=(address,), env={"GRPC_EXPERIMENTS": value}) as server:
        assert (find_engine(server.process.pid), find_named(server)) == (engine, {engine})
        assert f"GRPC_EXPERIMENTS={value}" in Path(f"/proc/{server.process.pid}/environ").read_text().split("\0")
        assert find_remarks(server) == [(engine, f"GRPC_EXPERIMENTS={value} is left as it is")]


def test_an_engine_that_the_environment_forbids_is_one_line():
    outcome = run_module("tensor_reshape.server", "--engine", "polling", env={"GRPC_EXPERIMENTS": "-other"})
    assert (outcome.code, outcome.errors) == (
        1,
        ["Error: --engine polling cannot be had: GRPC_EXPERIMENTS=-other is left as it is"],
    )


@pytest.fixture
def unknown_grpcio(tmp_path: Path) -> dict[str, str]:
    """The environment of processes whose grpcio says that it is of a release which nobody has tried."""
    folder = tmp_path / "grpcio-9.99.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: grpcio\nVersion: 9.99.0\n")
    return {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}


def test_another_grpcio_keeps_its_own_engine_and_the_log_says_so(unknown_grpcio: dict[str, str]):
    with run_server(env=unknown_grpcio) as server:
        assert (find_engine(server.process.pid), find_named(server)) == ("event", {"event"})
        assert find_remarks(server) == [("event", "grpcio 9.99.0 was not tried with the polling engine")]


def test_another_grpcio_is_refused_the_polling_engine(unknown_grpcio: dict[str, str]):
    outcome = run_module("tensor_reshape.server", "--engine", "polling", env=unknown_grpcio)
    assert (outcome.code, len(outcome.errors), "9.99.0" in outcome.errors[0]) == (1, 1, True)
