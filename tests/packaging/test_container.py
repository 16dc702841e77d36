"""The image of the Dockerfile, run by podman as Kubernetes would: read-only, unprivileged, not as root.

The tests at the end run it exactly as the rendered manifests of deploy/kubernetes describe it.
"""

import json
import os
import shutil
import subprocess
import tomllib
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import numpy as np
import pytest
from packaging.utils import canonicalize_name

from bare_servers import find_free_port
from certificates import issue_certificates
from containers import (
    MODEST,
    find_runtime,
    inspect,
    podman,
    read_until_listening,
    run_beside,
    run_container,
    run_until_end,
)
from locks import read_pins
from manifests import PROBES, build_podman_flags, find_container, find_pod, find_renderer, list_ports, parse_bytes
from pod_programs import COUNT_HITS, DESCRIBE_IMAGE, FLOOD, IDENTIFY, PROBE, READ_STATUS, SCRAPE
from tensor_reshape.client import Client

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
        assert read_until_listening(container)["address"] == "0.0.0.0:50051"
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
