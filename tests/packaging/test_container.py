"""The image of the Dockerfile, run by podman as Kubernetes would: read-only, unprivileged, not as root.

The tests at the end run it exactly as the rendered manifests of deploy/kubernetes describe it.
"""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import numpy as np
import pytest
from packaging.utils import canonicalize_name

from certificates import issue_certificates
from deployment_files import (
    PROBES,
    build_podman_flags,
    find_container,
    find_pod,
    find_renderer,
    list_ports,
    parse_bytes,
    read_pins,
)
from server_processes import find_free_port
from tensor_reshape.client import Client
from tensor_reshape.server.process.resources import count_cores

pytestmark = [
    pytest.mark.skipif(shutil.which("podman") is None, reason="needs podman"),
    pytest.mark.timeout(1200),  # the first run makes a base image, and each run installs the dependencies
]

ROOT = Path(__file__).parents[2]
DEFAULT_BASE = "python:3.13-slim-bookworm"
LOCAL_BASE = "localhost/tensor-reshape-base"
REVISION = "0123456789abcdef0123456789abcdef01234567"
MAX_IMAGE_BYTES = 300_000_000
MAX_ADDED_BYTES = 120_000_000
READY_SECONDS = 60
STOP_SECONDS = 30
SECRET = "tensor-reshape-tls"
CERTIFICATES = Path("/etc/ssl/certs")
HOSTILE = ["--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges"]
# Inside another container, limits cannot be raised to podman's defaults.
MODEST = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"]

# Python programs that run in the network of a container, or inside it.
DESCRIBE_IMAGE = """
import importlib.util, json, os, shutil, subprocess, sys
from importlib.metadata import distributions

LIST_INSTALLERS = "import importlib.util; print(*filter(importlib.util.find_spec, ('pip', 'ensurepip')))"
status = dict(line.split(":\\t", 1) for line in open("/proc/1/status").read().splitlines())
tools = ("pip", "pip3", "uv", "cc", "gcc", "c++", "clang", "make")

def list_installers(python):
    return subprocess.run([python, "-c", LIST_INSTALLERS], stdout=subprocess.PIPE, text=True, check=True).stdout.split()

print(json.dumps({
    "command": open("/proc/1/cmdline").read().split("\\0"),
    "uids": status["Uid"].split(),
    "capabilities": status["CapEff"],
    "tools": list(filter(shutil.which, tools)),
    "installers": list_installers(sys.executable),
    "installers_of_the_base": list_installers(os.path.realpath(sys.executable)),
    "has_pip_conf": os.path.exists("/etc/pip.conf"),
    "installed": [(one.name, one.version) for one in distributions()],
    "bill": open("/opt/tensor-reshape/sbom.cdx.json").read(),
}))
"""

READ_STATUS = """
import json, os
from tensor_reshape.server.process.resources import find_cgroup_limit

fields = dict(line.split(":\\t", 1) for line in open("/proc/1/status").read().splitlines() if ":\\t" in line)
is_read_only = bool(os.statvfs("/").f_flag & os.ST_RDONLY)
print(json.dumps({**fields, "is_read_only": is_read_only, "memory": find_cgroup_limit()}))
"""

PROBE = """
import sys, grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

with grpc.insecure_channel(f"127.0.0.1:{sys.argv[1]}", [("grpc.enable_http_proxy", 0)]) as channel:
    stub = health_pb2_grpc.HealthStub(channel)
    response = stub.Check(health_pb2.HealthCheckRequest(service=sys.argv[3]), timeout=float(sys.argv[2]))
print(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))
"""
"""Checks the health as the kubelet does: without TLS, for the whole server."""

FLOOD = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
import grpc
from tensor_reshape.v1 import reshape_pb2, tensor_pb2

CLIENTS, SECONDS, SIZE = 16, 4, 2**24
DATA = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_F32, dims=[SIZE // 4], data=bytes(SIZE))
SHAPE = reshape_pb2.TargetShape(items=[-1, 4])
REQUEST = reshape_pb2.StaticReshapeRequest(data=DATA, shape=SHAPE, special_zero=True).SerializeToString()
OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]

def call(_):
    answered, end = 0, time.monotonic() + SECONDS
    with grpc.insecure_channel(f"127.0.0.1:{sys.argv[1]}", OPTIONS) as channel:
        while time.monotonic() < end:
            try:
                channel.unary_unary("/tensor_reshape.v1.ReshapeService/StaticReshape")(REQUEST, timeout=60)
            except grpc.RpcError as error:  # on a busy machine a client may stall, and the server then ends its call
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
            else:
                answered += 1
    return answered

with ThreadPoolExecutor(CLIENTS) as pool:
    print(sum(pool.map(call, range(CLIENTS))))
"""
"""Clients with a connection each send the largest messages for some seconds. It prints the number of responses."""

COUNT_HITS = """
from pathlib import Path

events, failures = Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.failcnt")  # cgroup 2, and 1
lines = events.read_text().splitlines() if events.exists() else ["max " + failures.read_text()]
print(*(count for name, count in map(str.split, lines) if name == "max"))
"""
"""Prints how often its container has reached its memory limit."""

IDENTIFY = """
import sys, grpc
from pathlib import Path
from tensor_reshape.client import CallTimeoutError, Client, UnavailableError

folder, port = Path(sys.argv[1]), sys.argv[2]
authority, key, chain = ((folder / f"{name}.pem").read_bytes() for name in ("ca", "client-key", "client"))
for pair, timeout in (((key, chain), 60), ((), 2)):
    with Client(f"localhost:{port}", credentials=grpc.ssl_channel_credentials(authority, *pair)) as client:
        try:
            print(*client.infer_shape([2, 3], [6], special_zero=False, timeout=timeout).known)
        except (UnavailableError, CallTimeoutError):
            print("rejected")
"""
"""Makes a call with a certificate, then without one."""

SCRAPE = """
import sys, urllib.request

opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
print(opener.open(f"http://127.0.0.1:{sys.argv[1]}/metrics", timeout=60).read().decode())
"""
"""Scrapes the metrics as Prometheus does."""


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


def read_log(container: str, message: str = "listening") -> dict[str, Any]:
    """Reads the log until it has a record with this message, and returns the record."""
    command = ["podman", "logs", "--follow", container]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as follower:
        assert follower.stdout is not None
        try:
            for line in follower.stdout:
                record = json.loads(line) if line.startswith("{") else {}
                if record.get("message") == message:
                    return dict(record)
        finally:
            follower.kill()
    error = f"the server ended before it logged {message!r}"
    raise RuntimeError(error)


def run_container(image: str, *options: str) -> AbstractContextManager[str]:
    """Runs the command of the image until the end of the block. If a test fails, pytest shows the log."""
    return run_until_end(image, [*HOSTILE, *options])


@contextmanager
def run_until_end(image: str, options: Sequence[str], arguments: Sequence[str] = ()) -> Iterator[str]:
    """Runs a container with these options of `podman run` and arguments of the image until the end of the block."""
    container = podman(*find_runtime(image), "run", "--detach", *MODEST, *options, image, *arguments)
    try:
        read_log(container)
        yield container
    finally:
        podman("logs", container, check=False)
        podman("rm", "--force", "--time=0", container)


def run_beside(container: str, program: str, *arguments: object) -> list[str]:
    """Runs a Python program on this machine in the network of the container, and returns the words that it prints."""
    namespace = f"--net=/proc/{inspect(container)['State']['Pid']}/ns/net"
    command = ["nsenter", namespace, sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()


@pytest.fixture(scope="module")
def base() -> str:
    """The base of the Dockerfile, or a base that is made here if the registry cannot be reached."""
    made_here = ["podman", "image", "exists", LOCAL_BASE]
    if subprocess.run(made_here, check=False).returncode == 0:
        return LOCAL_BASE
    pulled = subprocess.run(["podman", "pull", "--quiet", DEFAULT_BASE], capture_output=True, check=False)
    if pulled.returncode == 0:
        return DEFAULT_BASE
    made = subprocess.run(
        [ROOT / "scripts" / "make-base-image", LOCAL_BASE], stderr=subprocess.PIPE, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no base image can be pulled or made here: {made.stderr[-300:]}")
    return LOCAL_BASE


@pytest.fixture(scope="module")
def image(base: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The image, built with the certificates and the package index of this machine."""
    settings = {"cert": CERTIFICATES / "ca-certificates.crt", "index-url": os.environ.get("PIP_INDEX_URL")}
    pip_conf = tmp_path_factory.mktemp("pip") / "pip.conf"
    pip_conf.write_text("\n".join(["[global]", *(f"{name} = {value}" for name, value in settings.items() if value)]))
    name = f"localhost/tensor-reshape-test:{uuid.uuid4().hex}"
    machine = [f"--volume={CERTIFICATES}:{CERTIFICATES}:ro", f"--secret=id=pip.conf,src={pip_conf}", "--network=host"]
    # Docker's format, because OCI's format has no health check. chroot needs no container runtime inside a container.
    form = [
        "--format=docker",
        "--isolation=chroot",
        "--layers=false",
        f"--build-arg=BASE_IMAGE={base}",
        f"--build-arg=REVISION={REVISION}",
        f"--tag={name}",
    ]
    podman("build", *form, *machine, ROOT)
    yield name
    podman("rmi", "--force", name)


@pytest.fixture(scope="module")
def port() -> int:
    return find_free_port()


@pytest.fixture(scope="module")
def http_port() -> int:
    return find_free_port()


@pytest.fixture(scope="module")
def container(image: str, port: int, http_port: int) -> Iterator[str]:
    """The server in a container, on two ports of this machine."""
    settings = {"LISTEN": port, "HTTP_LISTEN": http_port}
    variables = [f"--env=TENSOR_RESHAPE_{name}=127.0.0.1:{number}" for name, number in settings.items()]
    with run_container(image, "--network=host", *variables) as container:
        yield container


@pytest.fixture(scope="module")
def facts(container: str) -> dict[str, Any]:
    """The results of a program that inspects the container from the inside."""
    found: dict[str, Any] = json.loads(podman("exec", container, "python", "-I", "-c", DESCRIBE_IMAGE))
    return found


def test_server_in_the_container_image_reshapes_an_array(container: str, port: int):
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

    with Client(f"127.0.0.1:{port}") as client:
        client.wait_until_ready(timeout=READY_SECONDS)
        output = client.static_reshape(array, (0, -1), special_zero=True)

    assert inspect(container)["HostConfig"]["ReadonlyRootfs"]
    np.testing.assert_array_equal(output, array.reshape(2, 12), strict=True)


@pytest.mark.usefixtures("container")
def test_container_image_answers_shape_queries_over_http(port: int, http_port: int):
    with Client(f"127.0.0.1:{port}") as client:
        client.wait_until_ready(timeout=READY_SECONDS)
    dims = {"dims": [2, 3]}
    query = {
        "operation": "OPERATION_RESHAPE",
        "specialZero": True,
        "data": {"shape": dims},
        "shape": {"items": [-1]},
    }
    url = f"http://127.0.0.1:{http_port}/tensor_reshape.v1.ReshapeService/InferShape"
    request = Request(url, json.dumps(query).encode(), {"Content-Type": "application/json"})
    with build_opener(ProxyHandler({})).open(request, timeout=10) as response:
        assert json.load(response)["shape"] == {"dims": ["6"]}


def test_container_server_is_unprivileged_process_1(facts: dict[str, Any]):
    assert facts["command"][1:3] == ["/opt/tensor-reshape/bin/tensor-reshape", "serve"]
    assert facts["uids"] == ["65532"] * 4
    assert int(facts["capabilities"], 16) == 0


def test_container_server_has_workers_for_its_cores(container: str):
    chosen = read_log(container, "number of workers is chosen")
    assert chosen["cores"] == count_cores()
    assert chosen["workers"] == count_cores() or chosen["limited_by"] == "memory"


def test_container_image_has_no_installers_or_compilers(facts: dict[str, Any]):
    assert (facts["tools"], facts["installers"], facts["installers_of_the_base"]) == ([], [], [])
    assert not facts["has_pip_conf"]


def test_container_image_contains_pinned_packages_and_a_bill_of_materials(facts: dict[str, Any]):
    installed = {(canonicalize_name(name), version) for name, version in facts["installed"]}

    assert {name for name, _ in installed - read_pins("requirements.lock")} == {"tensor-reshape"}
    # `scripts/release` makes the bill of materials in the same way, and test_release.py validates it.
    names = {component["name"] for component in json.loads(facts["bill"])["components"]}
    assert {"grpcio", "numpy", "protobuf", "click"} <= names


def test_container_image_has_labels_numeric_user_and_health_check(image: str, base: str):
    described, prefix = inspect(image), "org.opencontainers.image."
    labels = described["Config"]["Labels"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    expected = {"version": project["version"], "revision": REVISION, "base.name": base, "licenses": "Apache-2.0"}

    assert {name: labels[f"{prefix}{name}"] for name in expected} == expected
    # Numbers, so that Kubernetes can verify that the user is not root. The check uses no shell.
    assert all(int(number) > 0 for number in described["Config"]["User"].split(":"))
    assert described["Healthcheck"]["Test"][:3] == ["CMD", "tensor-reshape", "health"]


def test_container_image_is_small(image: str, base: str):
    size = inspect(image)["Size"]

    assert size < MAX_IMAGE_BYTES
    assert size - inspect(base)["Size"] < MAX_ADDED_BYTES


def test_container_health_check_ignores_http_proxy(image: str):
    with run_container(image, "--network=none", "--env=http_proxy=http://127.0.0.1:9") as container:
        assert read_log(container)["address"] == "0.0.0.0:50051"
        podman("healthcheck", "run", container)
        assert inspect(container)["State"]["Health"]["Status"] == "healthy"
        podman("kill", "--signal=TERM", container)
        assert podman("wait", container, timeout=STOP_SECONDS) == "0"


def test_container_health_check_follows_the_listen_address(container: str):
    podman("healthcheck", "run", container)
    assert inspect(container)["State"]["Health"]["Status"] == "healthy"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority and the certificates that it has signed."""
    folder = tmp_path_factory.mktemp("certificates")
    issue_certificates(folder)
    return folder


@pytest.fixture(scope="module")
def secret(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that replace the Secret: root owns them, and the group of the pod can read them."""
    if os.geteuid():
        pytest.skip("only root gives files to another group, as the kubelet does")
    if not find_renderer():
        pytest.skip("needs kubectl 1.27 or newer, or kustomize 5")
    spec = find_pod("production")["spec"]
    (volume,) = spec["volumes"]
    folder = tmp_path_factory.mktemp("secret")
    for source, name in (("server", "tls.crt"), ("server-key", "tls.key"), ("ca", "ca.crt")):
        path = folder / name
        path.write_bytes((certificates / f"{source}.pem").read_bytes())
        path.chmod(volume["secret"]["defaultMode"])
        os.chown(path, 0, spec["securityContext"]["fsGroup"])
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def start_pod(image: str, secret: Path) -> Iterator[Callable[[str], str]]:
    """Returns a function that starts the container of an overlay once, in a separate network."""
    limited = ["run", "--rm", "--network=none", *MODEST, "--memory=256m", image, "--help"]
    tried = subprocess.run(["podman", *find_runtime(image), *limited], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"podman cannot limit memory here: {tried.stderr[-200:]}")
    with ExitStack() as stack:

        @cache
        def start(overlay: str) -> str:
            flags = ["--network=none", *build_podman_flags(overlay, {SECRET: secret})]
            return stack.enter_context(run_until_end(image, flags, find_container(overlay)["args"]))

        yield start


@pytest.mark.parametrize("overlay", ["plain", "production"])
def test_pod_runs_with_the_limits_and_probes_of_its_manifest(start_pod: Callable[[str], str], overlay: str):
    pod, manifest, context = start_pod(overlay), find_container(overlay), find_pod(overlay)["spec"]["securityContext"]
    status = json.loads(podman("exec", pod, "python", "-c", READ_STATUS))
    assert status["Uid"].split() == [str(context["runAsUser"])] * 4
    assert status["Gid"].split() == [str(context["runAsGroup"])] * 4
    assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {0}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert status["is_read_only"]
    assert inspect(pod)["HostConfig"]["ReadonlyRootfs"]
    assert status["memory"] == parse_bytes(manifest["resources"]["limits"]["memory"])
    for name in PROBES:
        probe = manifest[name]
        asked = (probe["grpc"]["port"], probe["timeoutSeconds"], probe["grpc"].get("service", ""))
        assert run_beside(pod, PROBE, *asked) == ["SERVING"], name


def test_flood_of_large_messages_stays_below_the_pod_memory_limit(start_pod: Callable[[str], str]):
    (answered,) = run_beside(start_pod("plain"), FLOOD, list_ports(find_container("plain"))["grpc"])

    assert (int(answered) >= 16, podman("exec", start_pod("plain"), "python", "-c", COUNT_HITS)) == (True, "0")


def test_production_pod_requires_client_certificates_and_serves_metrics(
    start_pod: Callable[[str], str], certificates: Path
):
    pod, ports = start_pod("production"), list_ports(find_container("production"))
    assert run_beside(pod, IDENTIFY, certificates, ports["grpc"]) == ["6", "rejected"]
    names = {line.partition("{")[0] for line in run_beside(pod, SCRAPE, ports["metrics"])}
    assert "tensor_reshape_build_info" in names
    # The health check of the image has no certificate, so it uses the health port without TLS.
    command = inspect(pod)["Config"]["Healthcheck"]["Test"][1:]
    assert podman("exec", f"--env=TENSOR_RESHAPE_SERVER=localhost:{ports['health']}", pod, *command)
    seconds = find_pod("production")["spec"]["terminationGracePeriodSeconds"]
    podman("stop", f"--time={seconds}", pod)  # SIGTERM, and SIGKILL after that time
    assert inspect(pod)["State"]["ExitCode"] == 0
