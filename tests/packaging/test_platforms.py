"""Imports and local commands without the modules and functions that only Linux, or only POSIX, has.

The tests run on Linux and hide these names. `mypy --platform` in scripts/check finds uses that the tests do not reach.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ABSENT = {
    "win32": (
        "fcntl grp posix pty pwd readline resource syslog termios tty",
        (
            "fork forkpty register_at_fork fchmod fchown chown killpg getpgid setpgid setsid getuid geteuid getgid "
            "getegid posix_fallocate posix_fadvise pread preadv pwrite pwritev sched_getaffinity sched_setaffinity "
            "sysconf uname mkfifo mknod statvfs wait3 wait4 waitid sendfile pidfd_open O_CLOEXEC O_NONBLOCK"
        ),
        "SIGHUP SIGKILL SIGQUIT SIGUSR1 SIGUSR2 SIGALRM SIGPIPE SIGCHLD pthread_sigmask sigwait setitimer alarm",
        "AF_UNIX socketpair SO_REUSEPORT",
    ),
    "darwin": (
        "syslog spwd",
        (
            "posix_fallocate posix_fadvise sched_getaffinity sched_setaffinity pidfd_open memfd_create eventfd splice "
            "copy_file_range getrandom setns unshare"
        ),
        "SIGPOLL SIGPWR SIGRTMIN SIGRTMAX SIGSTKFLT sigtimedwait sigwaitinfo",
        "AF_NETLINK AF_VSOCK SO_PEERCRED SO_BINDTODEVICE",
    ),
}
"""The modules that a platform lacks, and the names that are absent from os, signal and socket."""
HIDE = """
import asyncio, ctypes, importlib, mmap, multiprocessing, os, pkgutil, select, signal, socket, subprocess, sys, tempfile
import click, google.protobuf, grpc.aio, ml_dtypes, numpy, onnx, onnx_ir, onnx_shape_inference, rich_click, rich.console

platform, modules, *names = sys.argv[1:6]
for module in modules.split():
    sys.modules[module] = None
for module, absent in zip((os, signal, socket), names):
    for name in absent.split():
        module.__dict__.pop(name, None)
if platform == "win32":
    for name in [name for name in vars(mmap) if name.startswith("MADV_")]:
        delattr(mmap, name)
for name in ("epoll", "poll") if platform == "win32" else ("epoll",):
    select.__dict__.pop(name, None)
sys.platform = platform
"""
IMPORT_ALL = """
import tensor_reshape.cli, tensor_reshape.client, tensor_reshape.onnx, tensor_reshape.rules, tensor_reshape.runtime
import tensor_reshape.wire

for package in (tensor_reshape.cli, tensor_reshape.client, tensor_reshape.onnx, tensor_reshape.rules,
                tensor_reshape.runtime, tensor_reshape.wire):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
print("imported")
"""
COMMAND = """
from tensor_reshape.cli.__main__ import main

sys.argv = ["tensor-reshape", *sys.argv[6:]]
main()
"""
PLATFORMS = sorted(ABSENT)


def run(platform: str, program: str, *arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-c", HIDE + program, platform, *ABSENT[platform], *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("platform", PLATFORMS)
def test_client_and_tools_import_without_names_of_linux(platform: str):
    assert run(platform, IMPORT_ALL) == (0, "imported\n", "")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_infer_command_runs_without_names_of_linux(platform: str):
    asked = ("infer", "--data", "2,3,4", "--shape", "0,-1", "--special-zero", "--local")
    assert run(platform, COMMAND, *asked) == (0, "2,12\n", "")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_check_command_writes_a_model_without_names_of_linux(platform: str, tmp_path: Path):
    # Imported here, because each test process imports all test files, and this import takes a second.
    import onnx  # noqa: PLC0415
    from onnx import parser  # noqa: PLC0415

    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[batch,4,3] x) => (float[batch,12] y)
    { shape = Constant<value_ints=[0,-1]>() y = Reshape(x, shape) }"""
    model, copy = tmp_path / "model.onnx", tmp_path / "copy.onnx"
    onnx.save(parser.parse_model(text), model)
    copy.touch()  # an existing file is replaced
    code, _, errors = run(platform, COMMAND, "check", "--write", str(copy), str(model))
    assert (code, errors) == (0, "")
    assert onnx.load(copy).graph.name == "g"
