"""The manifests for Kubernetes are valid, and match each other and the server."""

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from certificates import issue_certificates
from deployment_files import (
    FOLDER,
    OVERLAYS,
    PROBES,
    TLS_FOLDER,
    TOKENS_FOLDER,
    Manifest,
    Memory,
    find,
    find_container,
    find_pod,
    find_renderer,
    find_variables,
    list_ports,
    parse_bytes,
    read_config,
    render,
)
from documents import read_blocks
from tensor_reshape.server.config import SETTINGS, Config
from tensor_reshape.server.security.tokens import Tokens
from tensor_reshape.server.workers.supervisor import STOP_MARGIN_SECONDS

pytestmark = pytest.mark.skipif(not find_renderer(), reason="needs kubectl 1.27 or newer, or kustomize 5")

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PAGE = ROOT / "docs/deployment/kubernetes.md"
MONITORING = ROOT / "deploy/monitoring"
CUSTOM = {("cert-manager.io/v1", "Certificate"), ("monitoring.coreos.com/v1", "ServiceMonitor")}
"""Kinds that Kubernetes itself does not have. Their schemas belong to their operators."""

every_overlay = pytest.mark.parametrize("overlay", OVERLAYS)


@pytest.fixture(scope="module")
def tls_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of a Secret of cert-manager, and a list of tokens."""
    folder = tmp_path_factory.mktemp("tls")
    files = issue_certificates(folder)
    for path, name in ((files.server, "tls.crt"), (files.server_key, "tls.key"), (files.authority, "ca.crt")):
        path.rename(folder / name)
    (folder / "tokens").write_text(f"batch:{'0' * 64}\n")
    return folder


@pytest.fixture
def config(overlay: str, tls_folder: Path) -> Config:
    return read_config(overlay, tls_folder)


@every_overlay
def test_kubernetes_objects_are_valid_and_in_one_namespace(overlay: str):
    # The import takes seconds, and each test process would import it to collect this file.
    import kubernetes_validate  # noqa: PLC0415

    for one in render(overlay):
        if (one["apiVersion"], one["kind"]) not in CUSTOM:
            for version in ("1.29", kubernetes_validate.latest_version()):
                kubernetes_validate.validate(one, version, strict=True)
    name = find(overlay, "Namespace")["metadata"]["name"]
    assert {one["metadata"]["namespace"] for one in render(overlay) if one["kind"] != "Namespace"} == {name}


@every_overlay
def test_kubernetes_image_and_user_match_the_dockerfile(overlay: str):
    version, user = (re.search(one, DOCKERFILE) for one in (r'image\.version="(.*)"', r"\nUSER (\d+):(\d+)"))
    assert version
    assert user
    assert find_container(overlay)["image"] == f"tensor-reshape:{version[1]}"
    assert find(overlay, "Deployment")["metadata"]["labels"]["app.kubernetes.io/version"] == version[1]
    context = find_pod(overlay)["spec"]["securityContext"]
    assert [context["runAsUser"], context["runAsGroup"]] == [int(user[1]), int(user[2])]


@every_overlay
def test_kubernetes_environment_variables_are_server_settings(overlay: str):
    assert set(find_variables(overlay)) <= {setting.variable for setting in SETTINGS}
    assert find_pod(overlay)["spec"]["enableServiceLinks"] is False  # its variables would look like settings


@every_overlay
def test_kubernetes_probes_use_the_plain_text_health_port(overlay: str, config: Config):
    container = find_container(overlay)
    ports, (address,) = list_ports(container), config.listen
    addresses = {
        "grpc": address,
        "health": config.health_listen,
        "http": config.http_listen,
        "metrics": config.metrics_listen,
    }
    assert ports == {name: int(address.rpartition(":")[2]) for name, address in addresses.items() if address}
    assert all(address.startswith("0.0.0.0:") for address in addresses.values() if address)
    asked = ports["health" if config.tls else "grpc"]
    assert [container[probe]["grpc"] for probe in PROBES] == [{"port": asked}] * len(PROBES)


@every_overlay
def test_kubernetes_pod_has_enough_time_to_stop(overlay: str, config: Config):
    takes = config.drain_seconds + config.shutdown_grace_seconds + STOP_MARGIN_SECONDS
    assert find_pod(overlay)["spec"]["terminationGracePeriodSeconds"] > takes


def check_resources(container: Manifest, config: Config) -> None:
    """Fails unless the container requests a core for each worker, and the memory of docs/deployment/sizing.md."""
    resources = container["resources"]
    assert resources["requests"]["cpu"] == f"{config.workers}"
    assert parse_bytes(resources["limits"]["memory"]) == Memory(config).limit
    assert resources["requests"]["memory"] == resources["limits"]["memory"]


@every_overlay
def test_kubernetes_pod_requests_the_cores_and_memory_of_its_workers(overlay: str, config: Config):
    check_resources(find_container(overlay), config)
    # Without a CPU limit, the number of workers must be fixed.
    assert "cpu" not in find_container(overlay)["resources"]["limits"]
    assert find_variables(overlay)["TENSOR_RESHAPE_WORKERS"].isdecimal()


def test_autoscaler_target_is_that_of_the_page():
    (metric,) = find("plain", "HorizontalPodAutoscaler")["spec"]["metrics"]
    percent = metric["resource"]["target"]["averageUtilization"]
    words = " ".join(PAGE.read_text().split())
    assert f"The target of {percent} % of the requested CPU is {percent / 100} cores for each worker." in words
    assert f"by {percent / 100}, and by the number of workers" in words


@every_overlay
def test_kubernetes_selectors_match_the_pod_labels(overlay: str):
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
def test_autoscaler_targets_the_deployment_and_rollouts_keep_all_replicas(overlay: str):
    deployment, autoscaler = find(overlay, "Deployment"), find(overlay, "HorizontalPodAutoscaler")["spec"]
    named = {"apiVersion": deployment["apiVersion"], "kind": "Deployment", "name": deployment["metadata"]["name"]}
    assert autoscaler["scaleTargetRef"] == named
    assert "replicas" not in deployment["spec"]
    assert find(overlay, "PodDisruptionBudget")["spec"]["maxUnavailable"] < autoscaler["minReplicas"]
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


@every_overlay
def test_kubernetes_network_policy_admits_only_the_service_ports(overlay: str):
    service, policy = find(overlay, "Service")["spec"], find(overlay, "NetworkPolicy")["spec"]
    ports = {name: port for name, port in list_ports(find_container(overlay)).items() if name != "health"}
    assert service["clusterIP"] == "None"
    assert {port["targetPort"]: port["port"] for port in service["ports"]} == ports
    admitted = [[port["port"] for port in rule["ports"]] for rule in policy["ingress"]]
    assert admitted == [[port] for _, port in sorted(ports.items())]
    peers = [peer for rule in policy["ingress"] for peer in rule["from"]]
    assert len(peers) == len(admitted)  # each rule has a peer, because a rule without one admits all clients
    assert all(peer["namespaceSelector"]["matchLabels"] for peer in peers)
    assert (set(policy["policyTypes"]), policy["egress"]) == ({"Ingress", "Egress"}, [])


def list_breaches(pod: Manifest) -> list[str]:
    """Returns the violations of the Pod Security Standard "restricted" that are possible in these manifests."""
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    own: Manifest = container.get("securityContext", {})
    merged: Manifest = {**spec.get("securityContext", {}), **own}
    kinds = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
    checks = {
        "host namespaces": not any(spec.get(name) for name in ("hostNetwork", "hostPID", "hostIPC")),
        "host ports": not any("hostPort" in port for port in container["ports"]),
        "privileged": not own.get("privileged"),
        "privilege escalation": own.get("allowPrivilegeEscalation") is False,
        "capabilities": own.get("capabilities") == {"drop": ["ALL"]},
        "not root": merged.get("runAsNonRoot") is True and merged.get("runAsUser") != 0,
        "seccomp": merged.get("seccompProfile", {}).get("type") in {"RuntimeDefault", "Localhost"},
        "other fields": not {"procMount", "sysctls", "seLinuxOptions", "appArmorProfile", "windowsOptions"}
        & set(merged),
        "volumes": all(set(volume) - {"name"} <= kinds for volume in spec.get("volumes", [])),
        "more containers": not {"initContainers", "ephemeralContainers"} & set(spec),
    }
    return [name for name, holds in checks.items() if not holds]


@every_overlay
def test_pod_meets_the_restricted_pod_security_standard(overlay: str):
    assert list_breaches(find_pod(overlay)) == []
    assert find_container(overlay)["securityContext"]["readOnlyRootFilesystem"]
    assert find_pod(overlay)["spec"]["automountServiceAccountToken"] is False
    enforced = find(overlay, "Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert enforced == "restricted"


def test_kubernetes_tls_overlays_require_their_certificates(tls_folder: Path):
    settings = {overlay: read_config(overlay, tls_folder).tls for overlay in OVERLAYS}
    assert {overlay for overlay, tls in settings.items() if tls} == {"tls", "mtls", "production", "tokens"}
    assert {overlay for overlay, tls in settings.items() if tls and tls.client_ca} == {"mtls", "production"}


@pytest.mark.parametrize("overlay", ["tls", "mtls", "production"])
def test_only_the_server_user_can_read_the_certificates(overlay: str):
    spec, container = find_pod(overlay)["spec"], find_container(overlay)
    (volume,), (mount,) = spec["volumes"], container["volumeMounts"]
    assert (mount["mountPath"], mount["readOnly"]) == (TLS_FOLDER, True)
    assert "subPath" not in mount  # with it, renewed certificates would not arrive
    assert (mount["name"], volume["secret"]["defaultMode"]) == (volume["name"], 0o440)
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]


def test_tokens_overlay_mounts_the_secret_of_the_page(tls_folder: Path):
    spec, container = find_pod("tokens")["spec"], find_container("tokens")
    (volume,) = [volume for volume in spec["volumes"] if volume["name"] == "tokens"]
    (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "tokens"]
    assert (mount["mountPath"], mount["readOnly"], "subPath" in mount) == (TOKENS_FOLDER, True, False)
    assert volume["secret"] == {"secretName": "tensor-reshape-tokens", "defaultMode": 0o440}
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]
    config = read_config("tokens", tls_folder)
    assert (config.token_file, config.authenticates) == (tls_folder / "tokens", True)
    assert read_config("production", tls_folder).token_file is None
    (command,) = [
        line for line in PAGE.read_text().splitlines() if "create secret generic tensor-reshape-tokens" in line
    ]
    assert command.endswith(
        "--namespace tensor-reshape --from-file=tokens"
    )  # the key of the Secret is the name of the file


def test_token_commands_of_the_page_make_valid_tokens(tmp_path: Path):
    (block,) = [block.text for block in read_blocks(PAGE) if "sha256sum" in block.text]
    make = block.partition("kubectl")[0]
    printed = subprocess.run(
        ["sh", "-ec", f'{make}printf %s "$token"'], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    assert Tokens(tmp_path / "tokens").find_identity([f"Bearer {printed}"]) == "token:batch"


def test_cert_manager_certificate_matches_service_name_and_mount():
    certificate, service = find("production", "Certificate")["spec"], find("production", "Service")["metadata"]
    (volume,) = find_pod("production")["spec"]["volumes"]
    assert certificate["secretName"] == volume["secret"]["secretName"]
    short = f"{service['name']}.{service['namespace']}"
    assert certificate["dnsNames"] == [service["name"], short, f"{short}.svc", f"{short}.svc.cluster.local"]


@pytest.mark.parametrize("overlay", ["monitoring", "production"])
def test_prometheus_service_monitor_selects_the_kubernetes_service(overlay: str):
    monitor, service = find(overlay, "ServiceMonitor")["spec"], find(overlay, "Service")
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    (job,) = yaml.safe_load((MONITORING / "prometheus.yml").read_text())["scrape_configs"]
    assert ("jobLabel" in monitor, service["metadata"]["name"]) == (False, job["job_name"])


def test_documented_command_installs_the_prometheus_alerts():
    (block,) = [block.text for block in read_blocks(PAGE) if "PrometheusRule" in block.text]
    command = block.rpartition("|")[0]
    printed = subprocess.run(["sh", "-c", command], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    rule, alerts = yaml.safe_load(printed), yaml.safe_load((MONITORING / "alerts.yml").read_text())
    assert (rule["kind"], rule["metadata"]["namespace"]) == ("PrometheusRule", "tensor-reshape")
    assert rule["spec"] == alerts


def test_every_kustomize_component_is_used_and_documented():
    files = [FOLDER / "overlays" / overlay / "kustomization.yaml" for overlay in OVERLAYS]
    named = [component for file in files for component in yaml.safe_load(file.read_text()).get("components", [])]
    assert {Path(component).name for component in named} == {path.name for path in (FOLDER / "components").iterdir()}
    folders = [*(FOLDER / "overlays").iterdir(), *(FOLDER / "components").iterdir()]
    assert [path.name for path in folders if f"`{path.name}`" not in PAGE.read_text()] == []


@pytest.mark.parametrize("number", [0, 1])
def test_documented_overlay_changes_settings_and_resources_together(tmp_path: Path, tls_folder: Path, number: int):
    block = [block for block in read_blocks(PAGE) if block.language == "yaml"][number]
    code = block.text.replace("deploy/kubernetes", os.path.relpath(FOLDER, tmp_path))  # must be relative
    (tmp_path / "kustomization.yaml").write_text(code)
    container, config = find_container(str(tmp_path)), read_config(str(tmp_path), tls_folder)
    assert (config.workers, config.memory_budget_bytes) == ((1, 4)[number], 2**30)
    check_resources(container, config)


def test_documented_patch_sets_the_number_of_replicas(tmp_path: Path):
    overlay, _, patch = [block.text for block in read_blocks(PAGE) if block.language == "yaml"]
    code = (overlay.rstrip() + "\n" + patch).replace("deploy/kubernetes", os.path.relpath(FOLDER, tmp_path))
    (tmp_path / "kustomization.yaml").write_text(code)
    spec = find(str(tmp_path), "HorizontalPodAutoscaler")["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (4, 24)
    spec = find("plain", "HorizontalPodAutoscaler")["spec"]
    assert f"keeps {spec['minReplicas']} to {spec['maxReplicas']} replicas" in " ".join(PAGE.read_text().split())


def test_sums_of_the_kubernetes_page_are_those_of_its_manifests(tls_folder: Path):
    plain, http = (read_config(overlay, tls_folder) for overlay in ("plain", "http"))
    large = replace(plain, workers=4, memory_budget_bytes=2**30)
    page = PAGE.read_text()
    assert f"| sum | | {Memory(plain).sum / 2**20:.0f} |" in page
    assert f"the sum is {Memory(http).sum / 2**20:.0f} MiB" in page
    assert f"The sum is {Memory(large)}" in page
    limits = [find_container(overlay)["resources"]["limits"]["memory"] for overlay in ("plain", "http")]
    assert all(f"`{limit}`" in page for limit in limits)
