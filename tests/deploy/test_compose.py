"""The files of deploy/compose match each other, the server and deploy/monitoring. No test starts the containers."""

import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from deployment_files import Memory, read_variables
from documents import ROOT, read_blocks
from http_calls import ANSWER, find_http, post
from server_processes import run_server
from telemetry import find_metrics
from tensor_reshape.client import Client
from tensor_reshape.server.config import Config
from tensor_reshape.server.workers.supervisor import STOP_MARGIN_SECONDS

FOLDER, MONITORING = ROOT / "deploy/compose", ROOT / "deploy/monitoring"
PAGE = ROOT / "docs/deployment/compose.md"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
SERVER = SERVICES["server"]
VARIABLES = {name: str(value) for name, value in SERVER["environment"].items()}
ANY = "127.0.0.1:0"
MEBIBYTE = 2**20


def find_compose() -> list[str]:
    """Returns the command of Compose; empty if none is installed."""
    version = ["docker", "compose", "version"]
    if shutil.which("docker") and not subprocess.run(version, capture_output=True, check=False).returncode:
        return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else []


def read(path: Path) -> Any:  # noqa: ANN401 - YAML
    return yaml.safe_load(path.read_text())


def list_mounts(service: str) -> dict[str, Path]:
    """Returns the files of this repository that a container has, by their paths in it."""
    mounts = [volume.split(":") for volume in SERVICES[service]["volumes"]]
    return {target: (FOLDER / source).resolve() for source, target, *_ in mounts if source.startswith(".")}


@pytest.fixture(scope="module")
def config() -> Config:
    return read_variables(VARIABLES, SERVER["command"])


@pytest.mark.skipif(not find_compose(), reason="needs docker compose, or docker-compose of Debian")
def test_compose_accepts_its_file_with_the_changes_of_the_page(tmp_path: Path):
    (change,) = [block.text for block in read_blocks(PAGE) if block.language == "yaml"]
    (tmp_path / "changes.yaml").write_text(change)
    files = [f"--file={FOLDER}/compose.yaml", f"--file={tmp_path}/changes.yaml"]
    done = subprocess.run([*find_compose(), *files, "config"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    given = {
        name: str(value) for name, value in yaml.safe_load(done.stdout)["services"]["server"]["environment"].items()
    }
    changed = {name: str(value) for name, value in yaml.safe_load(change)["services"]["server"]["environment"].items()}
    assert given == {**VARIABLES, **changed}
    assert read_variables(given, SERVER["command"]) != read_variables(VARIABLES, SERVER["command"])


def test_compose_publishes_each_port_only_on_loopback(config: Config):
    ports = [port.rpartition(":")[2] for port in SERVER["ports"]]
    assert ports == [str(address).rpartition(":")[2] for address in (*config.listen, config.http_listen)]
    published = [port for service in SERVICES.values() for port in service["ports"]]
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


def test_compose_leaves_enough_memory_and_time_for_the_settings(config: Config):
    assert SERVER["mem_limit"] == f"{Memory(config).limit // MEBIBYTE}m"
    seconds = float(SERVER["stop_grace_period"].removesuffix("s"))
    assert seconds > config.drain_seconds + config.shutdown_grace_seconds + STOP_MARGIN_SECONDS


def test_server_with_the_settings_of_compose_serves_grpc_http_and_metrics():
    flags = ("--http-listen", ANY, "--metrics-listen", ANY)
    with run_server(*flags, env=VARIABLES) as server:
        with Client(server.address) as client:
            assert client.infer_shape((2, 3), (3, -1), special_zero=False).dims == (3, 2)
        assert post(find_http(server)).document == ANSWER
        with urlopen(find_metrics(server)) as response:
            assert b"tensor_reshape_calls_total" in response.read()


def test_prometheus_of_compose_scrapes_the_server_and_has_the_usual_settings(config: Config, tmp_path: Path):
    mounts = list_mounts("prometheus")
    theirs, usual = read(mounts["/etc/prometheus/prometheus.yml"]), read(MONITORING / "prometheus.yml")
    (target,) = theirs["scrape_configs"][0]["static_configs"][0]["targets"]
    assert target == f"server:{str(config.metrics_listen).rpartition(':')[2]}"
    usual["scrape_configs"][0]["static_configs"][0]["targets"] = [target]
    assert theirs == usual

    if shutil.which("promtool"):
        for path, source in mounts.items():
            shutil.copy(source, tmp_path / Path(path).name)
        subprocess.run(["promtool", "check", "config", tmp_path / "prometheus.yml"], check=True)


def test_grafana_of_compose_has_the_data_source_and_the_dashboard():
    mounts = list_mounts("grafana")
    (source,) = read(mounts["/etc/grafana/provisioning/datasources/datasources.yaml"])["datasources"]
    (provider,) = read(mounts["/etc/grafana/provisioning/dashboards/dashboards.yaml"])["providers"]
    dashboards = {path: file for path, file in mounts.items() if Path(path).parent == Path(provider["options"]["path"])}
    assert dashboards == {
        SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]: MONITORING / "dashboard.json"
    }
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    interval = read(MONITORING / "prometheus.yml")["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == interval
