"""The image, built from the Dockerfile and run by podman as Kubernetes would: read-only, unprivileged, not root.

The tests at the end run it exactly as the rendered manifests of deploy/kubernetes have it.
"""

import json
import os
import shutil
import subprocess
import tomllib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from packaging.utils import canonicalize_name

from bare_servers import find_free_port
from bills_of_materials import find_fault
from certificates import issue_certificates
from containers import MODEST, inspect, podman, read_until_listening, run_beside, run_container, run_until_end
from locks import read_pins
from manifests import (
    PROBES,
    build_podman_flags,
    find_container,
    find_pod,
    find_renderer,
    list_ports,
    parse_bytes,
)
from pod_programs import COUNT_HITS, FLOOD, IDENTIFY, PROBE, SCRAPE
from tensor_reshape.client import Client

pytestmark = [
    pytest.mark.skipif(shutil.which("podman") is None, reason="needs podman"),
    pytest.mark.timeout(1200),  # the first run makes a base image, and every run installs the dependencies
]

ROOT = Path(__file__).parents[2]
DEFAULT_BASE = "python:3.13-slim-bookworm"
LOCAL_BASE = "localhost/tensor-reshape-base"
REVISION = "0123456789abcdef0123456789abcdef01234567"
SBOM = "/opt/tensor-reshape/sbom.cdx.json"
MAX_IMAGE_BYTES = 300_000_000
MAX_ADDED_BYTES = 120_000_000
READY_SECONDS = 60
STOP_SECONDS = 30

CERTIFICATES = Path("/etc/ssl/certs")


@pytest.fixture(scope="module")
def base() -> str:
    """The Dockerfile's own base where it can be had, else one made here."""
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
    # Docker's format, because OCI's has no health check. chroot needs no container runtime inside a container.
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
def container(image: str, port: int) -> Iterator[str]:
    """The server in a container, on a port of this machine."""
    with run_container(image, "--network=host", f"--env=TENSOR_RESHAPE_LISTEN=127.0.0.1:{port}") as container:
        yield container


@pytest.fixture
def isolated_container(image: str) -> Iterator[str]:
    """The server with the image's own settings, in a network of its own."""
    with run_container(image, "--network=none") as container:
        yield container


def test_an_array_is_reshaped_by_the_server_in_the_container(container: str, port: int):
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

    with Client(f"127.0.0.1:{port}") as client:
        client.wait_until_ready(timeout=READY_SECONDS)
        output = client.static_reshape(array, (0, -1), special_zero=True)

    assert inspect(container)["HostConfig"]["ReadonlyRootfs"]
    np.testing.assert_array_equal(output, array.reshape(2, 12), strict=True)


def test_the_user_is_a_number_other_than_0(image: str):
    user, _, group = inspect(image)["Config"]["User"].partition(":")

    assert int(user) > 0
    assert int(group) > 0


def test_the_server_has_no_capability(container: str):
    status = podman("exec", container, "python", "-c", "print(open('/proc/1/status').read())")

    fields = dict(line.split(":\t", 1) for line in status.splitlines())
    assert fields["Uid"].split() == ["65532"] * 4
    assert int(fields["CapEff"], 16) == 0


def test_the_server_is_process_1(container: str):
    command = podman("exec", container, "python", "-c", "print(open('/proc/1/cmdline').read())")

    assert command.split("\0")[1:3] == ["/opt/tensor-reshape/bin/tensor-reshape", "serve"]


def test_it_listens_on_all_addresses_by_default(isolated_container: str):
    assert read_until_listening(isolated_container)["address"] == "0.0.0.0:50051"


def test_the_health_check_passes_while_it_serves(isolated_container: str):
    podman("healthcheck", "run", isolated_container)

    assert inspect(isolated_container)["State"]["Health"]["Status"] == "healthy"


def test_the_health_check_goes_past_a_proxy_that_the_host_hands_in(image: str):
    with run_container(image, "--network=none", "--env=http_proxy=http://127.0.0.1:9") as container:
        podman("healthcheck", "run", container)

        assert inspect(container)["State"]["Health"]["Status"] == "healthy"


def test_the_health_check_needs_no_shell(image: str):
    kind, *command = inspect(image)["Healthcheck"]["Test"]

    assert kind == "CMD"
    assert command[:2] == ["tensor-reshape", "health"]


def test_sigterm_ends_it_with_exit_code_0(isolated_container: str):
    podman("kill", "--signal=TERM", isolated_container)

    assert podman("wait", isolated_container, timeout=STOP_SECONDS) == "0"


@pytest.mark.parametrize("tool", ["pip", "pip3", "uv", "cc", "gcc", "c++", "clang", "make"])
def test_nothing_in_the_image_installs_or_compiles(container: str, tool: str):
    program = f"import shutil; print(shutil.which({tool!r}))"

    assert podman("exec", container, "python", "-c", program) == "None"


@pytest.mark.parametrize("module", ["pip", "ensurepip"])
def test_no_interpreter_of_the_image_has_an_installer(container: str, module: str):
    program = f"import importlib.util; print(importlib.util.find_spec({module!r}))"
    of_the_base = podman("exec", container, "python", "-c", "import os, sys; print(os.path.realpath(sys.executable))")

    assert podman("exec", container, "python", "-c", program) == "None"
    assert podman("exec", container, of_the_base, "-c", program) == "None"


def test_the_configuration_of_pip_stays_out_of_the_image(container: str):
    program = "import os; print(os.path.exists('/etc/pip.conf'))"

    assert podman("exec", container, "python", "-c", program) == "False"


def test_its_version_is_that_of_the_project(image: str):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert inspect(image)["Config"]["Labels"]["org.opencontainers.image.version"] == project["version"]


def test_its_labels_name_its_source_its_base_and_its_licence(image: str, base: str):
    labels = inspect(image)["Config"]["Labels"]

    prefix = "org.opencontainers.image."
    assert labels[f"{prefix}revision"] == REVISION
    assert labels[f"{prefix}base.name"] == base
    assert labels[f"{prefix}licenses"] == "Apache-2.0"


def test_what_is_installed_is_what_is_pinned(container: str):
    program = (
        "from importlib.metadata import distributions as all; print(*(f'{one.name}=={one.version}' for one in all()))"
    )
    lines = podman("exec", container, "/opt/tensor-reshape/bin/python", "-I", "-c", program).split()
    installed = {(canonicalize_name(name), version) for name, version in (line.split("==") for line in lines)}

    assert {name for name, _ in installed - read_pins("requirements.lock")} == {"tensor-reshape"}


def test_its_bill_of_materials_is_valid_and_names_all_that_is_installed(container: str):
    document = podman("exec", container, "python", "-c", f"print(open({SBOM!r}).read())")

    assert find_fault(document) is None
    names = {component["name"] for component in json.loads(document)["components"]}
    assert {"grpcio", "numpy", "protobuf", "click"} <= names


def test_it_is_small(image: str, base: str):
    size = inspect(image)["Size"]

    assert size < MAX_IMAGE_BYTES
    assert size - inspect(base)["Size"] < MAX_ADDED_BYTES


OVERLAYS = ("plain", "production")
SECRET = "tensor-reshape-tls"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority, and what it has signed."""
    folder = tmp_path_factory.mktemp("certificates")
    issue_certificates(folder)
    return folder


@pytest.fixture(scope="module")
def secret(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What stands for the Secret: files that root owns, and the pod's group may read."""
    if os.geteuid():
        pytest.skip("root alone gives files to another group, as the kubelet does")
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
def limiting_image(image: str) -> str:
    """The image, where a container can be given less memory than there is."""
    tried = subprocess.run(
        ["podman", "run", "--rm", "--network=none", *MODEST, "--memory=256m", image, "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        pytest.skip(f"podman cannot limit memory here: {tried.stderr[-200:]}")
    return image


@contextmanager
def run_pod(image: str, overlay: str, secret: Path) -> Iterator[str]:
    """Runs the container of an overlay, in a network of its own."""
    flags = build_podman_flags(overlay, {SECRET: secret})
    with run_until_end("--network=none", *flags, image, *find_container(overlay)["args"]) as container:
        yield container


@pytest.fixture(scope="module", params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def pod(limiting_image: str, overlay: str, secret: Path) -> Iterator[str]:
    with run_pod(limiting_image, overlay, secret) as container:
        yield container


@pytest.mark.parametrize("name", PROBES)
def test_a_probe_of_the_manifest_is_answered(pod: str, overlay: str, name: str):
    probe = find_container(overlay)[name]
    answer = run_beside(pod, PROBE, probe["grpc"]["port"], probe["timeoutSeconds"], probe["grpc"].get("service", ""))
    assert answer == ["SERVING"]


def test_a_pod_may_do_no_more_than_its_manifest_says(pod: str, overlay: str):
    fields = dict(
        line.split(":\t", 1)
        for line in podman("exec", pod, "python", "-c", "print(open('/proc/1/status').read())").splitlines()
        if ":\t" in line
    )
    context = find_pod(overlay)["spec"]["securityContext"]
    assert fields["Uid"].split() == [str(context["runAsUser"])] * 4
    assert fields["Gid"].split() == [str(context["runAsGroup"])] * 4
    assert {int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {0}
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")


def test_a_pod_has_a_file_system_that_nobody_writes_to(pod: str):
    assert inspect(pod)["HostConfig"]["ReadonlyRootfs"]
    program = "import os; print(bool(os.statvfs('/').f_flag & os.ST_RDONLY))"
    assert podman("exec", pod, "python", "-c", program) == "True"


def test_a_pod_has_the_memory_of_its_manifest(pod: str, overlay: str):
    program = "from tensor_reshape.server.process.resources import find_cgroup_limit; print(find_cgroup_limit())"
    limit = parse_bytes(find_container(overlay)["resources"]["limits"]["memory"])
    assert podman("exec", pod, "python", "-c", program) == str(limit)


def test_a_flood_of_the_largest_messages_stays_below_the_memory_of_a_pod(limiting_image: str, secret: Path):
    with run_pod(limiting_image, "plain", secret) as container:
        (answered,) = run_beside(container, FLOOD, list_ports(find_container("plain"))["grpc"])
        hits = podman("exec", container, "python", "-c", COUNT_HITS)
    assert (int(answered) >= 16, hits) == (True, "0")


def test_a_pod_that_demands_certificates_answers_who_has_one(limiting_image: str, secret: Path, certificates: Path):
    with run_pod(limiting_image, "production", secret) as container:
        port = list_ports(find_container("production"))["grpc"]
        assert run_beside(container, IDENTIFY, certificates, port) == ["6", "refused"]


def test_a_pod_shows_its_metrics_where_its_manifest_says(limiting_image: str, secret: Path):
    with run_pod(limiting_image, "production", secret) as container:
        lines = run_beside(container, SCRAPE, list_ports(find_container("production"))["metrics"])
    assert "tensor_reshape_build_info" in {line.partition("{")[0] for line in lines}


def test_the_health_check_needs_no_certificate_where_health_has_a_port(limiting_image: str, secret: Path):
    with run_pod(limiting_image, "production", secret) as container:
        server = f"--env=TENSOR_RESHAPE_SERVER=localhost:{list_ports(find_container('production'))['health']}"
        command = inspect(container)["Config"]["Healthcheck"]["Test"][1:]
        assert podman("exec", server, container, *command)


def test_a_pod_ends_by_itself_within_its_time(limiting_image: str, secret: Path):
    seconds = find_pod("production")["spec"]["terminationGracePeriodSeconds"]
    with run_pod(limiting_image, "production", secret) as container:
        podman("stop", f"--time={seconds}", container)  # SIGTERM, and SIGKILL when the time is up
        assert inspect(container)["State"]["ExitCode"] == 0
