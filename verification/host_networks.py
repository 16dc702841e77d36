"""Several hosts on one machine: network namespaces, each with a cable to a bridge on the host of the client.

- The hosts are in namespaces of one process and its children (`build_command`). They are separate from the machine and
  from other such networks, and they disappear when that process ends.
- That process is the host of the client. If the kernel allows users to make namespaces, it needs no privileges.
- A host that is cut off does not reply to anything. No message reports its loss, and neither does address resolution.
- A name server has one name whose addresses change, like those of a headless Service.
"""

import json
import os
import shutil
import socketserver
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import dns.flags
import dns.message
import dns.rdatatype
import dns.rrset

CALLER_ADDRESS = "10.77.0.254"
_BRIDGE = "bridge"
_NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_WAYS = (("--user", "--map-root-user"), ())  # as a user, or as root if users may not make namespaces
_TOOLS = ("unshare", "ip", "mount")
_PROXIES = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy")  # proxies cannot reach these addresses


class Host(NamedTuple):
    name: str  # the name of its namespace
    address: str  # its IP address
    link: str  # the end of its cable in the bridge

    @property
    def command_prefix(self) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.name)


class HostNetwork:
    """The network of the client's host. Make it once in a process that `build_command` runs."""

    def __init__(self, count: int) -> None:
        _prepare_files()
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", _BRIDGE, "type", "bridge")
        _run("ip", "address", "add", f"{CALLER_ADDRESS}/24", "dev", _BRIDGE)
        _run("ip", "link", "set", _BRIDGE, "up")
        self.hosts = [_add_host(number) for number in range(1, count + 1)]  # the hosts with servers

    def cut_off(self, host: Host) -> None:
        """Pulls the cable: everything that is sent to the host is lost, without an error."""
        _run("ip", "link", "set", host.link, "down")

    def reconnect(self, host: Host) -> None:
        _run("ip", "link", "set", host.link, "up")

    def count_bytes(self, host: Host) -> int:
        (link,) = json.loads(_run("ip", "-json", "-statistics", "link", "show", host.link))
        received: int = link["stats64"]["rx"]["bytes"]  # counted at the bridge's end of the cable
        return received


def build_command(*command: str) -> list[str]:
    """Returns a command that runs `command` in new namespaces. `find_obstacle` must be empty."""
    return [*_build_prefix(_find_way() or ()), *command]


def build_environment() -> dict[str, str]:
    """Returns the environment of this process without its proxy settings."""
    return {name: value for name, value in os.environ.items() if name.lower() not in _PROXIES}


def find_obstacle() -> str:
    """Returns why this machine cannot have such hosts; empty if it can."""
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"needs {', '.join(missing)}"
    return "" if _find_way() is not None else "needs the right to make network namespaces"


@cache
def _find_way() -> tuple[str, ...] | None:
    attempt = (
        "mount -t tmpfs tmpfs /run && ip link add bridge type bridge && ip netns add one && ip netns exec one true"
    )
    for way in _WAYS:
        if not subprocess.run([*_build_prefix(way), "sh", "-c", attempt], capture_output=True, check=False).returncode:
            return way
    return None


def _build_prefix(way: tuple[str, ...]) -> list[str]:
    return ["unshare", *way, *_NAMESPACES]


def _prepare_files() -> None:
    _run("mount", "-t", "tmpfs", "tmpfs", "/run")  # the directory in which `ip` stores named namespaces
    resolver = Path("/run/resolv.conf")
    resolver.write_text(f"nameserver {CALLER_ADDRESS}\n")
    _run("mount", "--bind", str(resolver), "/etc/resolv.conf")


def _add_host(number: int) -> Host:
    host = Host(f"host{number}", f"10.77.0.{number}", f"cable{number}")
    mac = f"02:00:00:00:00:{number:02x}"
    _run("ip", "netns", "add", host.name)
    end = ("peer", "name", "eth0", "address", mac, "netns", host.name)
    _run("ip", "link", "add", host.link, "type", "veth", *end)
    _run("ip", "link", "set", host.link, "master", _BRIDGE, "up")
    _run("ip", "-n", host.name, "address", "add", f"{host.address}/24", "dev", "eth0")
    _run("ip", "-n", host.name, "link", "set", "lo", "up")
    _run("ip", "-n", host.name, "link", "set", "eth0", "up")
    # A permanent entry. Otherwise the kernel would try to resolve the address, and report an error after a while. Hosts
    # are usually behind a router, where this does not happen.
    _run("ip", "neighbour", "replace", host.address, "lladdr", mac, "dev", _BRIDGE, "nud", "permanent")
    return host


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


NAME = "reshape.test"
_PORT = 53
_TTL_SECONDS = 1


class NameServer(socketserver.UDPServer):
    """Responds with the IPv4 addresses of `NAME`. For all other requests, the response is empty."""

    allow_reuse_address = True

    def __init__(self, address: str, hosts: Sequence[str]) -> None:
        self.hosts = tuple(hosts)  # the addresses. Any thread may replace the whole list
        self.questions = 0  # number of requests for these addresses
        super().__init__((address, _PORT), _Question)


class _Question(socketserver.BaseRequestHandler):
    server: NameServer

    def handle(self) -> None:
        query, socket = self.request
        question = dns.message.from_wire(query)
        answer = dns.message.make_response(question, recursion_available=True)
        (asked,) = question.question
        hosts = self.server.hosts
        if asked.rdtype == dns.rdatatype.A and asked.name.to_text(omit_final_dot=True) == NAME and hosts:
            self.server.questions += 1
            answer.answer.append(dns.rrset.from_text_list(asked.name, _TTL_SECONDS, "IN", "A", hosts))
        socket.sendto(answer.to_wire(), self.client_address)


@contextmanager
def run_name_server(address: str, hosts: Sequence[str]) -> Iterator[NameServer]:
    with NameServer(address, hosts) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
