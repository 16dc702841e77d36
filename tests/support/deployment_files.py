"""The files that deploy a server: lock files, environment files, and the manifests that kustomize renders."""

import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tensor_reshape.server.__main__ import serve
from tensor_reshape.server.config import VARIABLE_PREFIX, Config
from tensor_reshape.server.grpc.services import MAX_SILENT, MAX_SILENT_REFLECTIONS
from tensor_reshape.server.http.guards import MAX_CONNECTIONS
from tensor_reshape.server.process.resources import PROCESS_BYTES

Manifest = dict[str, Any]
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/kubernetes"
OVERLAYS = tuple(sorted(path.parent.name for path in FOLDER.glob("overlays/*/kustomization.yaml")))
TLS_FOLDER, TOKENS_FOLDER = "/etc/tensor-reshape/tls", "/etc/tensor-reshape/tokens"
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
_LEAST_VERSION = 5  # of kustomize; the version in kubectl before 1.27 does not support these components and labels
_UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


@cache
def find_renderer() -> tuple[str, ...]:
    """Returns the command that renders a folder; empty if none is installed, or if it is too old."""
    if shutil.which("kustomize") and _parse_version(_run("kustomize", "version")) >= _LEAST_VERSION:
        return ("kustomize", "build")
    if shutil.which("kubectl"):
        # Debian's kubectl is too old for components and prints no version of kustomize.
        versions = json.loads(_run("kubectl", "version", "--client", "--output=json"))
        if _parse_version(versions.get("kustomizeVersion", "v0")) >= _LEAST_VERSION:
            return ("kubectl", "kustomize")
    return ()


@cache
def render(overlay: str) -> tuple[Manifest, ...]:
    """Returns all objects of an overlay, by its name in deploy/kubernetes or by its folder."""
    return tuple(yaml.safe_load_all(_run(*find_renderer(), str(FOLDER / "overlays" / overlay))))


def find(overlay: str, kind: str) -> Manifest:
    (found,) = [one for one in render(overlay) if one["kind"] == kind]
    return found


def find_pod(overlay: str) -> Manifest:
    template = find(overlay, "Deployment")["spec"]["template"]
    assert isinstance(template, dict)
    return template


def find_container(overlay: str) -> Manifest:
    (container,) = find_pod(overlay)["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def find_variables(overlay: str) -> dict[str, str]:
    """Returns the environment of the container, which comes from the ConfigMap."""
    config_map = find(overlay, "ConfigMap")
    assert find_container(overlay)["envFrom"] == [{"configMapRef": {"name": config_map["metadata"]["name"]}}]
    assert "env" not in find_container(overlay)
    return dict(config_map["data"])


def read_config(overlay: str, tls_folder: Path) -> Config:
    """Returns the configuration that follows from the arguments and the environment."""
    variables = {
        name: value.replace(TLS_FOLDER, str(tls_folder)).replace(TOKENS_FOLDER, str(tls_folder))
        for name, value in find_variables(overlay).items()
    }
    return read_variables(variables, find_container(overlay)["args"])


def read_variables(variables: Mapping[str, str], arguments: Sequence[str]) -> Config:
    """Returns the configuration that follows from an environment and arguments."""
    before = dict(os.environ)
    try:
        for name in [name for name in before if name.startswith(VARIABLE_PREFIX)]:
            del os.environ[name]
        os.environ.update(variables)
        return parse_arguments(arguments)
    finally:
        os.environ.clear()
        os.environ.update(before)


def parse_arguments(arguments: Sequence[str]) -> Config:
    """Returns the configuration that follows from the arguments of a container."""
    command, *flags = arguments
    assert command == "serve"
    values = serve.make_context("serve", list(flags)).params
    values.pop("check_config")  # not a setting
    return Config(**values)


def list_ports(container: Manifest) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container["ports"]}


def parse_bytes(quantity: str) -> int:
    match = re.fullmatch(r"(\d+)(|Ki|Mi|Gi)", quantity)
    assert match, quantity
    return int(match[1]) * _UNITS[match[2]]


_MIB = 2**20
_LOST_BY_THE_ALLOCATOR = 0.4  # fraction of the budget in the worst flood
_AHEAD_BYTES = 256 * 1024  # bytes that gRPC receives for a waiting call
_SUPERVISOR_BYTES = 32 * _MIB
_TLS_CONNECTION_BYTES = 300 * 1024
_MEMORY_STEP = 256 * _MIB


class Memory:
    """The memory of a server in bytes, as docs/deployment/sizing.md adds it."""

    def __init__(self, config: Config) -> None:
        has_http = config.http_listen is not None
        budget, self._workers = config.memory_budget_bytes, config.workers
        self._shared = (budget, budget * _LOST_BY_THE_ALLOCATOR, config.max_calls * _AHEAD_BYTES)
        self._own = (PROCESS_BYTES, (MAX_SILENT + MAX_SILENT_REFLECTIONS) * config.max_message_bytes)
        self._rest = [_SUPERVISOR_BYTES] * (config.workers > 1 or has_http)
        if has_http:
            self._rest += [PROCESS_BYTES, MAX_CONNECTIONS * _TLS_CONNECTION_BYTES]
        self.sum = sum(self._shared) + config.workers * sum(self._own) + sum(self._rest)
        self.limit = math.ceil(self.sum / _MEMORY_STEP) * _MEMORY_STEP

    def __str__(self) -> str:
        """Returns the sum as pages write it."""
        shared, own, rest = (
            [f"{part / _MIB:.0f}" for part in parts] for parts in (self._shared, self._own, self._rest)
        )
        workers = own if self._workers == 1 else [f"{self._workers} * ({' + '.join(own)})"]
        return f"{' + '.join([*shared, *workers, *rest])} MiB"


def build_podman_flags(overlay: str, secrets: Mapping[str, Path]) -> Iterator[str]:
    """Yields the flags with which podman runs a container as the kubelet would."""
    pod, container = find_pod(overlay)["spec"], find_container(overlay)
    of_pod, of_container = pod["securityContext"], container["securityContext"]
    yield f"--user={of_pod['runAsUser']}:{of_pod['runAsGroup']}"
    if "fsGroup" in of_pod:
        yield f"--group-add={of_pod['fsGroup']}"
    if of_container["readOnlyRootFilesystem"]:
        yield from ("--read-only", "--read-only-tmpfs=false")
    if not of_container["allowPrivilegeEscalation"]:
        yield "--security-opt=no-new-privileges"
    yield from (f"--cap-drop={capability}" for capability in of_container["capabilities"]["drop"])
    assert set(container["resources"]["limits"]) == {"memory"}
    size = parse_bytes(container["resources"]["limits"]["memory"])
    yield from (f"--memory={size}b", f"--memory-swap={size}b")  # no swap, as on a node
    yield from (f"--env={name}={value}" for name, value in find_variables(overlay).items())
    folders = {volume["name"]: secrets[volume["secret"]["secretName"]] for volume in pod.get("volumes", [])}
    for mount in container.get("volumeMounts", []):
        yield f"--volume={folders[mount['name']]}:{mount['mountPath']}:{'ro' if mount['readOnly'] else 'rw'}"


def _parse_version(text: str) -> int:
    match = re.search(r"v(\d+)\.", text)
    return int(match[1]) if match else 0


def _run(*command: str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


LOCKS = ("requirements.lock", "requirements-build.lock")

_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def read_locked(name: str, folder: Path = ROOT) -> dict[str, list[str]]:
    """Returns each requirement of a lock file with the hashes of its files."""
    entries = (folder / name).read_text().replace("\\\n", " ").splitlines()
    lines = [line for line in entries if line.strip() and not line.startswith("#")]
    return {line.partition(" --hash")[0].strip(): _HASH.findall(line) for line in lines}


def read_pins(name: str) -> set[tuple[str, str]]:
    """Returns the name and version of each package in a lock file, for all platforms."""
    requirements = map(Requirement, read_locked(name))
    return {(canonicalize_name(one.name), bound.version) for one in requirements for bound in one.specifier}
