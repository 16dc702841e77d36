"""Runs HAProxy, nginx and Envoy with the files of deploy/proxies, on free ports, in front of local servers."""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from server_processes import find_free_port

FOLDER = Path(__file__).parents[2] / "deploy/proxies"
_LISTEN = "0.0.0.0:50051"
_PLAIN = re.compile(rf"^ *(?:bind|listen) {re.escape(_LISTEN)}.*\n", re.MULTILINE)
_TLS = re.compile(r"#tls ")
_CERTIFICATE = re.compile(r"/etc/\w+/reshape\.pem")
_SERVER, _SERVER_HOSTS = "192.0.2.{}:50051", re.compile(r"192\.0\.2\.\d")
_START_SECONDS = _STOP_SECONDS = 30


class Proxy(NamedTuple):
    """A proxy with its configuration file."""

    name: str  # the name of the program
    file: str  # the path of the file in `FOLDER`
    build_command: Callable[[Path], list[str]]  # returns the command that runs it with a file
    pidfile: str = ""  # the path of its pid file, which must not conflict with other instances; empty: none

    def find_obstacle(self) -> str:
        """Returns why it cannot run on this machine; empty if it can."""
        if shutil.which(self.name) is None:
            return f"needs {self.name}"
        return "Debian's nginx writes to folders of root" if self.name == "nginx" and os.geteuid() else ""

    def require(self) -> Self:
        """Returns the proxy. If it cannot run on this machine, it skips the test."""
        if obstacle := self.find_obstacle():
            pytest.skip(obstacle)
        return self

    def find_version(self) -> str:
        """Returns the version of the program in one line."""
        flag = "--version" if self.name == "envoy" else "-v"
        command = subprocess.run(
            [self.name, flag], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
        )
        return next(line.strip() for line in command.stdout.splitlines() if line.strip())

    def read_file(self) -> str:
        return (FOLDER / self.file).read_text()


PROXIES = (
    Proxy("haproxy", "haproxy/haproxy.cfg", lambda file: ["haproxy", "-db", "-f", str(file)]),
    Proxy(
        "nginx",
        "nginx/nginx.conf",
        lambda file: ["nginx", "-e", "stderr", "-g", "daemon off;", "-c", str(file)],
        "/run/nginx.pid",
    ),
)
EDGES = (
    Proxy("haproxy", "haproxy/edge.cfg", lambda file: ["haproxy", "-db", "-f", str(file)]),
    Proxy(
        "envoy",
        "envoy/edge.yaml",
        lambda file: ["envoy", "--concurrency", "2", "--use-dynamic-base-id", "-c", str(file)],
    ),
)
"""Edge proxies between one server and untrusted clients."""


def build_fixture(proxies: Sequence[Proxy]) -> Any:  # noqa: ANN401 - its type is not public in pytest
    """Returns a fixture that is each of these proxies in turn. Tests of a proxy that cannot run here are skipped."""

    @pytest.fixture(scope="module", params=proxies, ids=lambda proxy: proxy.name)
    def proxy(request: pytest.FixtureRequest) -> Proxy:
        one: Proxy = request.param
        return one.require()

    return proxy


@contextmanager
def run_proxy(proxy: Proxy, addresses: list[str], folder: Path, *, certificate: Path | None = None) -> Iterator[str]:
    """Runs a proxy in front of servers until the end of the block. Yields its address."""
    address = f"127.0.0.1:{find_free_port()}"
    text = proxy.read_file()
    assert len(_SERVER_HOSTS.findall(text)) == len(addresses)
    if certificate is not None:
        text = _CERTIFICATE.sub(str(certificate), _TLS.sub("", _PLAIN.sub("", text)))
    text = _move(text, _LISTEN, address)
    for number, server in enumerate(addresses, 1):
        text = _move(text, _SERVER.format(number), server)
    if proxy.pidfile:
        text = text.replace(proxy.pidfile, str(folder / "pid"))
    file = folder / Path(proxy.file).name
    file.write_text(text)
    process = subprocess.Popen(proxy.build_command(file), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        _await_listening(process, address)
        yield address
    finally:
        process.terminate()
        process.wait(_STOP_SECONDS)


def _move(text: str, old: str, new: str) -> str:
    """Replaces an address in the form of Envoy and in the form of the other proxies."""
    before, after = ("address: {}, port_value: {}".format(*address.rsplit(":", 1)) for address in (old, new))
    return text.replace(old, new).replace(before, after)


def _await_listening(process: "subprocess.Popen[bytes]", address: str) -> None:
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                message = f"the proxy does not listen; it ended with {process.poll()}"
                raise RuntimeError(message) from error
            time.sleep(0.05)
        else:
            return
