"""Containers that podman runs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

HOSTILE = ["--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges"]
# Inside another container, limits cannot be raised to podman's defaults.
MODEST = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"]


def podman(*arguments: str | Path, check: bool = True, timeout: float | None = None) -> str:
    """Runs podman and returns its output."""
    # systemd must not run the health check on a schedule, because the tests run it themselves.
    env = {**os.environ, "DISABLE_HC_SYSTEMD": "true"}
    command = ["podman", *arguments]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=check, timeout=timeout, env=env)
    return result.stdout.strip()


@cache
def find_runtime(image: str) -> tuple[str, ...]:
    """Returns the options of podman with which a container of the image starts. If none do, the test is skipped.

    podman's default may be unable to do so, for example crun on a machine with hybrid cgroups.
    """
    errors = []
    for options in ((), ("--runtime=runc",), ("--runtime=crun",)):
        command = ["podman", *options, "run", "--rm", "--network=none", "--entrypoint=true", *MODEST, image]
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
        if tried.returncode == 0:
            return options
        errors.append(tried.stderr.strip())
    pytest.skip(f"podman cannot start a container here: {errors}")


def inspect(name: str) -> dict[str, Any]:
    (description,) = json.loads(podman("inspect", name))
    assert isinstance(description, dict)
    return description


def read_until_listening(container: str) -> dict[str, Any]:
    """Reads the log until the server listens, and returns that record."""
    command = ["podman", "logs", "--follow", container]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as follower:
        assert follower.stdout is not None
        try:
            for line in follower.stdout:
                record = json.loads(line) if line.startswith("{") else {}
                if record.get("message") == "listening":
                    return dict(record)
        finally:
            follower.kill()
    message = "the server ended before it listened"
    raise RuntimeError(message)


def run_container(image: str, *options: str) -> AbstractContextManager[str]:
    """Runs the command of the image until the end of the block. If a test fails, pytest shows the log."""
    return run_until_end(image, [*HOSTILE, *options])


@contextmanager
def run_until_end(image: str, options: Sequence[str], arguments: Sequence[str] = ()) -> Iterator[str]:
    """Runs a container with these options of `podman run` and arguments of the image until the end of the block."""
    container = podman(*find_runtime(image), "run", "--detach", *MODEST, *options, image, *arguments)
    try:
        read_until_listening(container)
        yield container
    finally:
        podman("logs", container, check=False)
        podman("rm", "--force", "--time=0", container)


def run_beside(container: str, program: str, *arguments: object) -> list[str]:
    """Runs a Python program on this machine in the network of the container, and returns the words that it prints."""
    namespace = f"--net=/proc/{inspect(container)['State']['Pid']}/ns/net"
    command = ["nsenter", namespace, sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
