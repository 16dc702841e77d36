"""The unit, the settings and the kernel settings of deploy/systemd, without systemd as the first process."""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

import pytest

from deployment_files import Memory, read_variables
from documents import ROOT
from server_processes import ServerProcess
from tensor_reshape.client import Client
from tensor_reshape.server.process.resources import MAX_CONNECTIONS, RESERVED_DESCRIPTORS
from tensor_reshape.server.workers.supervisor import STOP_MARGIN_SECONDS
from waits import WAIT_SECONDS

FOLDER = ROOT / "deploy/systemd"
TEXT = (FOLDER / "tensor-reshape@.service").read_text()
INSTALLED, HERE = "/opt/tensor-reshape/bin", str(Path(sys.executable).parent)
SETTING = re.compile(r"^(\w[\w.]*) ?= ?(.*)$", re.MULTILINE)
VARIABLES = dict(SETTING.findall((FOLDER / "main.env").read_text()))
KERNEL = dict(SETTING.findall((FOLDER / "sysctl.conf").read_text()))
EXPOSURE = 20
"""The maximum of `systemd-analyze security`, from 0 to 100. systemd 252 rates the unit with 14."""

UNIT: dict[str, list[str]] = defaultdict(list)
for _name, _value in SETTING.findall(TEXT):
    UNIT[_name].append(_value)

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd of Debian")


def analyze(folder: Path, *arguments: str) -> None:
    """Runs systemd-analyze on the instance `main` of the unit, with the programs of this environment."""
    path = folder / "tensor-reshape@main.service"
    path.write_text(TEXT.replace(INSTALLED, HERE))
    done = subprocess.run(["systemd-analyze", *arguments, path], capture_output=True, text=True, check=False)
    warnings = [line for line in done.stderr.splitlines() if "tensor-reshape" in line]  # other units may have some
    assert (done.returncode, warnings) == (0, []), done.stdout


@needs_systemd
def test_systemd_accepts_the_unit_without_warnings(tmp_path: Path):
    analyze(tmp_path, "verify", "--man=no")


@needs_systemd
def test_systemd_rates_the_unit_as_hardly_exposed(tmp_path: Path):
    analyze(tmp_path, "security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager")


def run(command: str, **variables: str) -> subprocess.Popen[str]:
    """Starts a command of the unit with its environment, but on free ports."""
    free = {name: re.sub(r":\d+$", ":0", value) for name, value in VARIABLES.items()}
    words = shlex.split(command.replace(INSTALLED, HERE))
    return subprocess.Popen(words, env={**os.environ, **free, **variables}, stderr=subprocess.PIPE, text=True)


def test_unit_checks_its_settings_before_the_start():
    (command,) = UNIT["ExecStartPre"]
    for value, code in (("1024", 0), ("none", 2)):
        with run(command, TENSOR_RESHAPE_MAX_CALLS=value) as process:
            assert process.wait(WAIT_SECONDS) == code


def test_unit_starts_a_server_that_reports_its_start_and_stops_in_time(tmp_path: Path):
    (command,), (kind,), (seconds,) = UNIT["ExecStart"], UNIT["Type"], UNIT["TimeoutStopSec"]
    path = str(tmp_path / "notify")
    with ExitStack() as stack:
        manager = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        manager.bind(path)
        manager.settimeout(WAIT_SECONDS)
        process = stack.enter_context(run(command, NOTIFY_SOCKET=path))
        stack.callback(process.kill)
        server = ServerProcess(process)
        server.read_addresses(1)
        assert (kind, manager.recv(64)) == ("notify", b"READY=1")
        with Client(server.address) as client:
            assert client.infer_shape((2, 3), (3, -1), special_zero=False).dims == (3, 2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(float(seconds)) == 0
        server.wait()


def test_unit_leaves_enough_time_memory_and_descriptors_for_the_settings():
    (seconds,), (memory,), (descriptors,) = UNIT["TimeoutStopSec"], UNIT["MemoryMax"], UNIT["LimitNOFILE"]
    config = read_variables(VARIABLES, ["serve"])
    listeners = [*config.listen, config.health_listen, config.metrics_listen]
    assert float(seconds) > config.drain_seconds + config.shutdown_grace_seconds + STOP_MARGIN_SECONDS
    assert memory == f"{Memory(config).limit >> 20}M"
    assert int(descriptors) >= len(listeners) * MAX_CONNECTIONS + RESERVED_DESCRIPTORS


def test_kernel_settings_exist_and_reserve_the_ports_of_the_unit():
    assert [name for name in KERNEL if not Path("/proc/sys", *name.split(".")).exists()] == []
    reserved = [[*map(int, part.split("-"))] for part in KERNEL["net.ipv4.ip_local_reserved_ports"].split(",")]
    for value in VARIABLES.values():
        for port in map(int, re.findall(r":(\d+)$", value)):
            assert any(ends[0] <= port <= ends[-1] for ends in reserved), port
