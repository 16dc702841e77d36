"""The choice of the I/O engine."""

import re
from pathlib import Path
from typing import Any

import pytest

from certificates import issue_certificates
from meters import list_children, read_descriptors
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client

LOCAL, PUBLIC = "127.0.0.1:0", "0.0.0.0:0"

_LISTENING_TCP, _LISTENING_UNIX = "0A", "00010000"
_STATE_COLUMN, _INODE_COLUMN = 3, 9  # columns of /proc/net/tcp
_FLAGS_COLUMN, _UNIX_INODE_COLUMN = 3, 6  # columns of /proc/net/unix


def find_engine(pid: int) -> str:
    """Returns the engine that the kernel says waits for the connections. gRPC's core has epoll instances for each.

    The polling engine makes its instance when grpc is imported, and the event engine when the server is created. So the
    lowest descriptor belongs to the polling engine.
    """
    descriptors = read_descriptors(pid)
    listening = {number for number, what in descriptors.items() if what in _list_listening(pid)}
    polling, *events = sorted(number for number, what in descriptors.items() if what == "anon_inode:[eventpoll]")
    assert listening, descriptors
    if listening <= _list_watched(pid, polling):
        return "polling"
    assert any(listening <= _list_watched(pid, event) for event in events), descriptors
    return "event"


def _list_watched(pid: int, epoll: int) -> set[int]:
    """Returns the descriptors for which an epoll instance waits."""
    return set(map(int, re.findall(r"^tfd:\s+(\d+)", Path(f"/proc/{pid}/fdinfo/{epoll}").read_text(), re.MULTILINE)))


def _list_listening(pid: int) -> set[str]:
    """Returns the listening sockets in the network of a process, named as in the links of its descriptors."""
    tcp = [row for name in ("tcp", "tcp6") for row in _read_rows(pid, name)]
    found = {row[_INODE_COLUMN] for row in tcp if row[_STATE_COLUMN] == _LISTENING_TCP}
    found |= {row[_UNIX_INODE_COLUMN] for row in _read_rows(pid, "unix") if row[_FLAGS_COLUMN] == _LISTENING_UNIX}
    return {f"socket:[{inode}]" for inode in found}


def _read_rows(pid: int, name: str) -> list[list[str]]:
    return [line.split() for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]]


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
    with run_server(*files.flags, listen=(address,), env={"GRPC_EXPERIMENTS": experiments}) as server:
        check(server, engine, credentials=files.trust)


def test_serve_command_selects_the_io_engine_before_importing_grpc():
    with run_server(command=("tensor_reshape.cli", "serve")) as server:
        check(server, "polling")
