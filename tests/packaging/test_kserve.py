"""The manifests for KServe are what the server and the image are."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from manifests import parse_arguments
from tensor_reshape.server.config import Config

Manifest = dict[str, Any]
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/kserve"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
STOP_SECONDS = 2  # beside draining and the grace


def read_manifest(name: str) -> Manifest:
    (document,) = yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text())
    assert isinstance(document, dict)
    return document


@pytest.fixture(scope="module")
def runtime() -> Manifest:
    """The ServingRuntime."""
    return read_manifest("serving-runtime")


@pytest.fixture(scope="module")
def container(runtime: Manifest) -> Manifest:
    """Its one container."""
    (container,) = runtime["spec"]["containers"]
    assert isinstance(container, dict)
    return container


@pytest.fixture(scope="module")
def predictor() -> Manifest:
    """The predictor of the InferenceService."""
    predictor = read_manifest("inference-service")["spec"]["predictor"]
    assert isinstance(predictor, dict)
    return predictor


@pytest.fixture(scope="module")
def config(container: Manifest) -> Config:
    """What the server makes of the arguments."""
    return parse_arguments(container["args"])


@pytest.mark.parametrize(
    ("name", "version", "kind"),
    [
        ("serving-runtime", "serving.kserve.io/v1alpha1", "ServingRuntime"),
        ("inference-service", "serving.kserve.io/v1beta1", "InferenceService"),
    ],
)
def test_a_manifest_is_what_it_is_called(name: str, version: str, kind: str):
    document = read_manifest(name)
    assert (document["apiVersion"], document["kind"]) == (version, kind)
    assert document["metadata"]["name"] == "tensor-reshape"


def test_the_service_asks_for_the_runtime_and_what_it_speaks(runtime: Manifest, predictor: Manifest):
    (model,) = runtime["spec"]["supportedModelFormats"]
    assert predictor["model"]["runtime"] == runtime["metadata"]["name"]
    assert predictor["model"]["modelFormat"] == {"name": model["name"], "version": model["version"]}
    assert [predictor["model"]["protocolVersion"]] == runtime["spec"]["protocolVersions"] == ["grpc-v2"]


def test_the_container_is_the_one_that_kserve_looks_for(container: Manifest):
    version = re.search(r'image\.version="(.*)"', DOCKERFILE)
    assert version
    assert (container["name"], container["image"]) == ("kserve-container", f"tensor-reshape:{version[1]}")


def test_the_port_is_named_after_its_protocol_and_is_where_the_server_listens(container: Manifest, config: Config):
    (port,) = container["ports"]
    assert port["name"] == "h2c"
    assert config.listen == (f"0.0.0.0:{port['containerPort']}",)


@pytest.mark.parametrize("probe", ["readinessProbe", "livenessProbe"])
def test_a_probe_asks_health_over_grpc(container: Manifest, probe: str):
    assert container[probe]["grpc"] == {"port": container["ports"][0]["containerPort"]}


def test_the_container_is_the_images_user_and_may_do_nothing_else(container: Manifest):
    context, user = container["securityContext"], re.search(r"^USER (\d+)", DOCKERFILE, re.MULTILINE)
    assert user
    assert (context["runAsNonRoot"], context["runAsUser"]) == (True, int(user[1]))
    assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
    assert context["capabilities"] == {"drop": ["ALL"]}


def test_the_pod_may_live_as_long_as_the_server_takes_to_stop(predictor: Manifest, config: Config):
    assert predictor["terminationGracePeriodSeconds"] > config.drain_seconds + config.grace_seconds + STOP_SECONDS


def test_the_memory_holds_the_budget_and_what_is_beside_it(container: Manifest, config: Config):
    # Some 60 MB of the interpreter, and what the allocator loses in the worst flood: 40 % of the budget.
    needed = 1.4 * config.memory_budget_bytes + 60e6
    assert int(container["resources"]["limits"]["memory"].removesuffix("Mi")) * 2**20 > needed


def test_the_page_applies_both_manifests():
    named = set(re.findall(r"-f (\S+)", (FOLDER / "README.md").read_text()))
    assert named == {f"deploy/kserve/{name}.yaml" for name in ("serving-runtime", "inference-service")}
