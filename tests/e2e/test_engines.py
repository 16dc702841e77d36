"""The choice of the I/O engine."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest

from certificates import issue_certificates
from meters import list_children
from reading_engines import find_engine
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client

LOCAL, PUBLIC = "127.0.0.1:0", "0.0.0.0:0"


def check(server: ServerProcess, engine: str, **settings: Any) -> None:
    """Checks that a server uses and logs the engine, serves, and exits with 0."""
    workers = list_children(server.process.pid) if "--workers" in server.process.args else [server.process.pid]  # type: ignore[operator]
    assert {find_engine(pid) for pid in workers} == {engine}
    assert {record["io_engine"] for record in server.records if record["message"] == "listening"} == {engine}
    with Client(server.address.replace("0.0.0.0", "127.0.0.1"), **settings) as client:
        assert client.infer_shape((2, 3), (6,), special_zero=False).known == (6,)
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("listen", "flags", "engine"),
    [
        (("localhost:0", "unix:{folder}/s"), (), "polling"),
        (("unix:{folder}/s", PUBLIC), (), "event"),
        ((LOCAL,), ("--health-listen", PUBLIC), "event"),
        ((PUBLIC,), ("--workers", "2"), "event"),  # the private addresses of workers do not count
    ],
    ids=str,
)
def test_grpc_io_engine_depends_on_the_listen_addresses(
    tmp_path: Path, listen: tuple[str, ...], flags: tuple[str, ...], engine: str
):
    with run_server(*flags, listen=tuple(address.format(folder=tmp_path) for address in listen)) as server:
        check(server, engine)


@pytest.mark.parametrize(
    ("address", "experiments", "engine"),
    [(LOCAL, "event_engine_listener", "event"), (PUBLIC, "-event_engine_listener", "polling")],
)
def test_both_grpc_io_engines_serve_tls_if_selected_by_the_environment(
    tmp_path: Path, address: str, experiments: str, engine: str
):
    files = issue_certificates(tmp_path)
    flags = ("--tls-certificate", str(files.server), "--tls-key", str(files.server_key))
    with run_server(*flags, listen=(address,), env={"GRPC_EXPERIMENTS": experiments}) as server:
        check(server, engine, credentials=grpc.ssl_channel_credentials(files.authority.read_bytes()))


def test_serve_command_selects_the_io_engine_before_importing_grpc():
    command = [sys.executable, "-m", "tensor_reshape.cli", "serve", "--log-format", "json", "--drain-seconds", "0"]
    with subprocess.Popen([*command, "--listen", LOCAL], stderr=subprocess.PIPE, text=True) as process:
        server = ServerProcess(process)
        server.read_addresses(1)
        check(server, "polling")
