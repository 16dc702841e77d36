"""Several hosts on one machine: network namespaces, each with a cable to the bridge of the host that calls.

- The hosts live in namespaces of one process and its children (`build_command`): the machine sees nothing of them, two
  such networks never meet, and when that process ends, however it does, all of it is gone.
- That process is the host that calls. It needs no privileges where the kernel lets users have namespaces.
- A host that is cut off is silent: nothing tells the others that it is gone, no address resolution either.
"""

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

CALLER_ADDRESS = "10.77.0.254"
_BRIDGE = "bridge"
_NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_WAYS = (("--user", "--map-root-user"), ())  # as anybody, or as root where users may have no namespaces
_TOOLS = ("unshare", "ip", "mount")
_PROXIES = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy")  # they know nothing of these addresses


class Host(NamedTuple):
    """One of the hosts that serve.

    Attributes:
        name: of its namespace.
        address: what the others know it by.
        link: the end of its cable that is in the bridge.
    """

    name: str
    address: str
    link: str

    @property
    def command_prefix(self) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.name)


class HostNetwork:
    """The hosts, as the one that calls has them; made once in a process that `build_command` runs.

    Attributes:
        hosts: those that serve.
    """

    def __init__(self, count: int) -> None:
        _prepare_files()
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", _BRIDGE, "type", "bridge")
        _run("ip", "address", "add", f"{CALLER_ADDRESS}/24", "dev", _BRIDGE)
        _run("ip", "link", "set", _BRIDGE, "up")
        self.hosts = [_add_host(number) for number in range(1, count + 1)]

    def cut_off(self, host: Host) -> None:
        """Pulls the cable: what is sent to the host is lost, and nobody says so."""
        _run("ip", "link", "set", host.link, "down")

    def reconnect(self, host: Host) -> None:
        _run("ip", "link", "set", host.link, "up")

    def count_bytes(self, host: Host) -> int:
        (link,) = json.loads(_run("ip", "-json", "-statistics", "link", "show", host.link))
        received: int = link["stats64"]["rx"]["bytes"]  # by the bridge's end of the cable
        return received


def build_command(*command: str) -> list[str]:
    """Returns what runs a command in namespaces of its own; there must be no obstacle."""
    return [*_build_prefix(_find_way() or ()), *command]


def build_environment() -> dict[str, str]:
    """Returns the environment of such a command: that of this process, without its proxies."""
    return {name: value for name, value in os.environ.items() if name.lower() not in _PROXIES}


def find_obstacle() -> str:
    """Returns why there can be no such hosts on this machine; empty where there can."""
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
    _run("mount", "-t", "tmpfs", "tmpfs", "/run")  # where `ip` keeps namespaces by their names
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
    # Fixed: else the caller's kernel asks who has the address, and after a while tells that nobody does. Behind a
    # router, where hosts are as a rule, nobody would ask.
    _run("ip", "neighbour", "replace", host.address, "lladdr", mac, "dev", _BRIDGE, "nud", "permanent")
    return host


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
