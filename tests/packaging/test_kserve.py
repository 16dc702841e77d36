"""The manifests for KServe match the server and the image."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployment_files import Memory, parse_arguments, parse_bytes
from documents import read_blocks
from tensor_reshape.server.config import Config
from tensor_reshape.server.http.commands import http

Manifest = dict[str, Any]
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/kserve"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
NAMES = ("serving-runtime", "inference-service")
STOP_SECONDS = 2  # in addition to the drain period and the grace period


@pytest.fixture(scope="module")
def manifests() -> dict[str, Manifest]:
    return {name: yaml.safe_load((FOLDER / f"{name}.yaml").read_text()) for name in NAMES}


@pytest.fixture(scope="module")
def container(manifests: dict[str, Manifest]) -> Manifest:
    """The container of the ServingRuntime."""
    (container,) = manifests["serving-runtime"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


@pytest.fixture(scope="module")
def config(container: Manifest) -> Config:
    """The configuration that follows from the arguments."""
    return parse_arguments(container["args"])


def test_kserve_readme_applies_every_manifest():
    named = set(re.findall(r"-f (\S+)", (FOLDER / "README.md").read_text()))
    assert named == {f"deploy/kserve/{path.name}" for path in FOLDER.glob("*.yaml")}


def test_kserve_inference_service_uses_the_serving_runtime_and_protocol(manifests: dict[str, Manifest]):
    runtime, model = manifests["serving-runtime"], manifests["inference-service"]["spec"]["predictor"]["model"]
    (form,) = runtime["spec"]["supportedModelFormats"]
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["modelFormat"] == {"name": form["name"], "version": form["version"]}
    assert [model["protocolVersion"]] == runtime["spec"]["protocolVersions"] == ["grpc-v2"]


def test_kserve_container_uses_the_image_with_few_privileges(container: Manifest):
    version, user = (re.search(pattern, DOCKERFILE) for pattern in (r'image\.version="(.*)"', r"\nUSER (\d+)"))
    assert version
    assert user
    assert (container["name"], container["image"]) == ("kserve-container", f"tensor-reshape:{version[1]}")
    context = container["securityContext"]
    assert (context["runAsNonRoot"], context["runAsUser"]) == (True, int(user[1]))
    assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
    assert context["capabilities"] == {"drop": ["ALL"]}


def test_kserve_server_listens_on_the_probe_port(container: Manifest, config: Config):
    (port,) = container["ports"]
    assert port["name"] == "h2c"
    assert config.listen == (f"0.0.0.0:{port['containerPort']}",)
    probes = [container[probe]["grpc"] for probe in ("readinessProbe", "livenessProbe")]
    assert probes == [{"port": port["containerPort"]}] * 2


def test_kserve_readme_has_the_arguments_and_probes_of_http(manifests: dict[str, Manifest]):
    (block,) = [block.text for block in read_blocks(FOLDER / "README.md") if block.language == "yaml"]
    changed = yaml.safe_load(block)
    (container,) = changed["containers"]
    command, *flags = container["args"]
    values = http.make_context(command, flags).params
    (port,) = container["ports"]
    probes = [container[probe]["httpGet"] for probe in ("readinessProbe", "livenessProbe")]

    assert changed.keys() <= manifests["serving-runtime"]["spec"].keys()
    assert (command, values["http_listen"]) == ("http", f"0.0.0.0:{port['containerPort']}")
    assert probes == [{"path": path, "port": port["containerPort"]} for path in ("/readyz", "/healthz")]


def test_kserve_pod_has_enough_shutdown_time(manifests: dict[str, Manifest], config: Config):
    shutdown_grace_seconds = manifests["inference-service"]["spec"]["predictor"]["terminationGracePeriodSeconds"]
    assert shutdown_grace_seconds > config.drain_seconds + config.shutdown_grace_seconds + STOP_SECONDS


def test_kserve_pod_requests_the_cores_and_memory_of_its_workers(container: Manifest, config: Config):
    requests, limits = container["resources"]["requests"], container["resources"]["limits"]
    assert f"--workers={requests['cpu']}" in container["args"]
    assert parse_bytes(requests["memory"]) == Memory(config).limit
    assert limits == {"memory": requests["memory"]}  # without a CPU limit, the number of workers must be fixed
