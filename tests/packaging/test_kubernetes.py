"""The manifests for Kubernetes are valid, agree with each other, and with what the server is."""

import copy
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from certificates import issue_certificates
from documents import read_blocks
from manifests import (
    FOLDER,
    OVERLAYS,
    PROBES,
    TLS_FOLDER,
    Manifest,
    find,
    find_container,
    find_pod,
    find_renderer,
    find_variables,
    list_ports,
    parse_bytes,
    read_config,
    render,
    round_up,
)
from tensor_reshape.server.auxiliary.bounded_calls import MAX_SILENT
from tensor_reshape.server.config import SETTINGS, Config
from tensor_reshape.server.process.resources import PROCESS_BYTES
from tensor_reshape.server.transport.listeners import find_port
from tensor_reshape.server.workers.messages import STOP_MARGIN_SECONDS

pytestmark = pytest.mark.skipif(not find_renderer(), reason="needs kubectl 1.27 or newer, or kustomize 5")

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PAGE = ROOT / "docs/deployment/kubernetes.md"
MONITORING = ROOT / "deploy/monitoring"
VERSIONS = ("1.29", kubernetes_validate.latest_version())
CUSTOM = {("cert-manager.io/v1", "Certificate"), ("monitoring.coreos.com/v1", "ServiceMonitor")}
"""Kinds that are no part of Kubernetes: their schemas come with their operators."""

MONITORED = ("monitoring", "production")

LOST_BY_THE_ALLOCATOR = 0.4  # of the budget, in the worst flood that was tried: docs/deployment/server.md
AHEAD_BYTES = 256 * 1024  # what the transport receives of a call that waits: docs/deployment/server.md
MEMORY_STEP = 256 * 2**20

every_overlay = pytest.mark.parametrize("overlay", OVERLAYS)


@pytest.fixture(scope="module")
def tls_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a Secret of cert-manager's holds."""
    folder = tmp_path_factory.mktemp("tls")
    files = issue_certificates(folder)
    for path, name in ((files.server, "tls.crt"), (files.server_key, "tls.key"), (files.authority, "ca.crt")):
        path.rename(folder / name)
    return folder


@pytest.fixture
def config(overlay: str, tls_folder: Path) -> Config:
    return read_config(overlay, tls_folder)


def list_own(overlay: str) -> list[Manifest]:
    """Returns the objects whose kinds are Kubernetes' own."""
    return [one for one in render(overlay) if (one["apiVersion"], one["kind"]) not in CUSTOM]


@every_overlay
@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid(overlay: str, version: str):
    for one in list_own(overlay):
        kubernetes_validate.validate(one, version, strict=True)


def test_a_field_that_does_not_exist_is_not_valid():
    deployment = copy.deepcopy(find("plain", "Deployment"))
    deployment["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readynessProbe"):
        kubernetes_validate.validate(deployment, VERSIONS[0], strict=True)


@every_overlay
def test_all_is_in_one_namespace(overlay: str):
    name = find(overlay, "Namespace")["metadata"]["name"]
    assert {one["metadata"]["namespace"] for one in render(overlay) if one["kind"] != "Namespace"} == {name}


@every_overlay
def test_every_variable_is_a_setting(overlay: str):
    assert set(find_variables(overlay)) <= {setting.variable for setting in SETTINGS}


@every_overlay
def test_the_image_is_that_of_this_version(overlay: str):
    version = re.search(r'image\.version="(.*)"', DOCKERFILE)
    assert version
    assert find_container(overlay)["image"] == f"tensor-reshape:{version[1]}"
    assert find(overlay, "Deployment")["metadata"]["labels"]["app.kubernetes.io/version"] == version[1]


@every_overlay
def test_the_ports_of_the_container_are_those_that_the_server_listens_on(overlay: str, config: Config):
    ports = list_ports(find_container(overlay))
    (address,) = config.listen
    addresses = {"grpc": address, "health": config.health_listen, "metrics": config.metrics_listen}
    assert ports == {name: find_port(address) for name, address in addresses.items() if address}
    assert all(address.startswith("0.0.0.0:") for address in addresses.values() if address)


@every_overlay
@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_asks_a_port_that_speaks_plain_text(overlay: str, probe: str, config: Config):
    name = "health" if config.tls else "grpc"
    assert find_container(overlay)[probe]["grpc"] == {"port": list_ports(find_container(overlay))[name]}


@every_overlay
def test_a_pod_may_live_longer_than_the_server_takes_to_stop(overlay: str, config: Config):
    takes = config.drain_seconds + config.grace_seconds + STOP_MARGIN_SECONDS
    assert find_pod(overlay)["spec"]["terminationGracePeriodSeconds"] > takes


def derive_memory(config: Config) -> int:
    """Returns the memory of a container, as docs/deployment/kubernetes.md derives it."""
    assert (config.workers, config.reflection) == (1, False)
    parts = (
        PROCESS_BYTES,
        config.memory_budget_bytes,
        config.memory_budget_bytes * LOST_BY_THE_ALLOCATOR,
        MAX_SILENT * config.max_message_bytes,  # health
        config.max_calls * AHEAD_BYTES,
    )
    return round_up(sum(parts), MEMORY_STEP)


@every_overlay
def test_the_memory_is_what_the_budget_and_all_beside_it_take(overlay: str, config: Config):
    resources = find_container(overlay)["resources"]
    assert parse_bytes(resources["limits"]["memory"]) == derive_memory(config)
    assert resources["requests"]["memory"] == resources["limits"]["memory"]


@every_overlay
def test_whoever_selects_pods_selects_these(overlay: str):
    labels, deployment = find_pod(overlay)["metadata"]["labels"].items(), find(overlay, "Deployment")
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        find(overlay, "Service")["spec"]["selector"],
        find(overlay, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        find(overlay, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        *(one["labelSelector"]["matchLabels"] for one in find_pod(overlay)["spec"]["topologySpreadConstraints"]),
    ]
    assert all(selector and selector.items() <= labels for selector in selectors)


@every_overlay
def test_the_autoscaler_scales_the_deployment_and_nobody_else_does(overlay: str):
    deployment, autoscaler = find(overlay, "Deployment"), find(overlay, "HorizontalPodAutoscaler")["spec"]
    named = {"apiVersion": deployment["apiVersion"], "kind": "Deployment", "name": deployment["metadata"]["name"]}
    assert autoscaler["scaleTargetRef"] == named
    assert "replicas" not in deployment["spec"]
    assert find_container(overlay)["resources"]["requests"]["cpu"]  # what its target is a share of


@every_overlay
def test_a_pod_may_be_taken_away_while_others_serve(overlay: str):
    least = find(overlay, "HorizontalPodAutoscaler")["spec"]["minReplicas"]
    assert find(overlay, "PodDisruptionBudget")["spec"]["maxUnavailable"] < least
    assert find(overlay, "Deployment")["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


@every_overlay
def test_the_service_is_headless_and_names_ports_of_the_container(overlay: str):
    service, ports = find(overlay, "Service")["spec"], list_ports(find_container(overlay))
    assert service["clusterIP"] == "None"
    offered = {port["targetPort"]: port["port"] for port in service["ports"]}
    assert offered == {name: port for name, port in ports.items() if name != "health"}


@every_overlay
def test_the_policy_admits_to_the_ports_of_the_service_and_to_nothing_else(overlay: str):
    policy, ports = find(overlay, "NetworkPolicy")["spec"], list_ports(find_container(overlay))
    admitted = [[port["port"] for port in rule["ports"]] for rule in policy["ingress"]]
    assert admitted == [[port] for name, port in sorted(ports.items()) if name != "health"]
    peers = [peer for rule in policy["ingress"] for peer in rule["from"]]
    assert len(peers) == len(admitted)  # no rule without a peer: it would admit everybody
    assert all(peer["namespaceSelector"]["matchLabels"] for peer in peers)
    assert (set(policy["policyTypes"]), policy["egress"]) == ({"Ingress", "Egress"}, [])


def list_breaches(pod: Manifest) -> list[str]:
    """Returns what in a pod goes against the Pod Security Standard "restricted", as far as these manifests can."""
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    contexts: tuple[Manifest, ...] = (spec.get("securityContext", {}), container.get("securityContext", {}))
    own = contexts[1]
    merged: Manifest = {**contexts[0], **own}
    kinds = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
    checks = {
        "host namespaces": not any(spec.get(name) for name in ("hostNetwork", "hostPID", "hostIPC")),
        "host ports": not any("hostPort" in port for port in container["ports"]),
        "privileged": not own.get("privileged"),
        "privilege escalation": own.get("allowPrivilegeEscalation") is False,
        "capabilities": own.get("capabilities") == {"drop": ["ALL"]},
        "not root": merged.get("runAsNonRoot") is True and merged.get("runAsUser") != 0,
        "seccomp": merged.get("seccompProfile", {}).get("type") in {"RuntimeDefault", "Localhost"},
        "proc mount": "procMount" not in own,
        "sysctls": "sysctls" not in contexts[0],
        "SELinux, AppArmor, Windows": not {"seLinuxOptions", "appArmorProfile", "windowsOptions"} & set(merged),
        "volumes": all(set(volume) - {"name"} <= kinds for volume in spec.get("volumes", [])),
        "containers besides": not {"initContainers", "ephemeralContainers"} & set(spec),
    }
    return [name for name, holds in checks.items() if not holds]


@every_overlay
def test_a_pod_may_do_what_the_restricted_standard_lets_it(overlay: str):
    assert list_breaches(find_pod(overlay)) == []
    assert find_container(overlay)["securityContext"]["readOnlyRootFilesystem"]
    assert find_pod(overlay)["spec"]["automountServiceAccountToken"] is False
    enforced = find(overlay, "Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert enforced == "restricted"


@pytest.mark.parametrize(
    ("where", "value", "breach"),
    [
        (("securityContext",), {}, "seccomp"),
        (("hostNetwork",), True, "host namespaces"),
        (("containers", 0, "securityContext", "capabilities"), {"drop": []}, "capabilities"),
        (("volumes",), [{"name": "host", "hostPath": {"path": "/"}}], "volumes"),
    ],
    ids=str,
)
def test_what_the_standard_forbids_is_found(where: tuple[Any, ...], value: object, breach: str):
    pod = copy.deepcopy(find_pod("plain"))
    *path, last = where
    target: Any = pod["spec"]
    for key in path:
        target = target[key]
    target[last] = value
    assert breach in list_breaches(pod)


@every_overlay
def test_the_user_is_that_of_the_image(overlay: str):
    user = re.search(r"^USER (\d+):(\d+)", DOCKERFILE, re.MULTILINE)
    assert user
    context = find_pod(overlay)["spec"]["securityContext"]
    assert [context["runAsUser"], context["runAsGroup"]] == [int(user[1]), int(user[2])]


@every_overlay
def test_no_variable_of_a_service_is_taken_for_a_setting(overlay: str):
    assert find_pod(overlay)["spec"]["enableServiceLinks"] is False


@pytest.mark.parametrize(
    ("overlay", "tls", "clients"),
    [("plain", False, False), ("tls", True, False), ("mtls", True, True), ("production", True, True)],
)
def test_an_overlay_demands_the_certificates_that_its_name_says(
    overlay: str, tls: bool, clients: bool, tls_folder: Path
):
    config = read_config(overlay, tls_folder)
    assert (config.tls is not None, config.tls is not None and config.tls.client_ca is not None) == (tls, clients)


@pytest.mark.parametrize("overlay", [overlay for overlay in OVERLAYS if "tls" in overlay or overlay == "production"])
def test_the_certificates_are_a_secret_that_the_user_alone_reads_and_that_may_change(overlay: str):
    spec, container = find_pod(overlay)["spec"], find_container(overlay)
    (volume,), (mount,) = spec["volumes"], container["volumeMounts"]
    assert (mount["mountPath"], mount["readOnly"], "subPath" in mount) == (TLS_FOLDER, True, False)
    assert (mount["name"], volume["secret"]["defaultMode"]) == (volume["name"], 0o440)
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]


def test_the_certificate_is_of_the_service_and_goes_where_the_pods_look():
    certificate, service = find("production", "Certificate")["spec"], find("production", "Service")["metadata"]
    (volume,) = find_pod("production")["spec"]["volumes"]
    assert certificate["secretName"] == volume["secret"]["secretName"]
    short = f"{service['name']}.{service['namespace']}"
    assert certificate["dnsNames"] == [service["name"], short, f"{short}.svc", f"{short}.svc.cluster.local"]


@pytest.mark.parametrize("overlay", MONITORED)
def test_prometheus_finds_the_metrics_through_the_service_and_calls_them_as_the_alerts_do(overlay: str):
    monitor, service = find(overlay, "ServiceMonitor")["spec"], find(overlay, "Service")
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    (job,) = yaml.safe_load((MONITORING / "prometheus.yml").read_text())["scrape_configs"]
    assert ("jobLabel" in monitor, service["metadata"]["name"]) == (False, job["job_name"])


def test_the_rules_of_the_page_are_the_alerts():
    (block,) = [block.text for block in read_blocks(PAGE) if "PrometheusRule" in block.text]
    command = block.rpartition("|")[0]
    printed = subprocess.run(["sh", "-c", command], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    rule, alerts = yaml.safe_load(printed), yaml.safe_load((MONITORING / "alerts.yml").read_text())
    assert (rule["kind"], rule["metadata"]["namespace"]) == ("PrometheusRule", "tensor-reshape")
    assert rule["spec"] == alerts


def test_every_component_is_in_an_overlay():
    named = {
        Path(component).name
        for overlay in OVERLAYS
        for component in yaml.safe_load((FOLDER / "overlays" / overlay / "kustomization.yaml").read_text()).get(
            "components", []
        )
    }
    assert named == {path.name for path in (FOLDER / "components").iterdir()}


@pytest.mark.parametrize("folder", ["overlays", "components"])
def test_the_page_says_what_each_is_for(folder: str):
    assert all(f"`{path.name}`" in PAGE.read_text() for path in (FOLDER / folder).iterdir())


def test_the_overlay_of_the_page_renders_and_changes_budget_and_memory_together(tmp_path: Path, tls_folder: Path):
    (block,) = [block for block in read_blocks(PAGE) if block.language == "yaml"]
    code = block.text.replace("deploy/kubernetes", os.path.relpath(FOLDER, tmp_path))  # which may not be absolute
    (tmp_path / "kustomization.yaml").write_text(code)
    container, config = find_container(str(tmp_path)), read_config(str(tmp_path), tls_folder)
    assert container["image"].startswith("registry.example.org/tensor-reshape:")
    assert config.memory_budget_bytes == 2**30
    for amounts in container["resources"].values():
        assert parse_bytes(amounts["memory"]) == derive_memory(config)


def test_the_page_derives_the_memory_that_a_pod_has():
    assert f"`{find_container('plain')['resources']['limits']['memory']}`" in PAGE.read_text()
