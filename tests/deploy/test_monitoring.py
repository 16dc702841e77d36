"""The files of deploy/monitoring, tested with Debian's Prometheus on a running server."""

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import grpc
import numpy as np
import pytest
import yaml

from plain_requests import catch_status, send_raw
from server_processes import run_server
from telemetry import find_metrics
from tensor_reshape.client import Client
from tensor_reshape.server.telemetry.metrics import HISTOGRAM, PROCESS_FAMILIES, SERVER_FAMILIES
from tensor_reshape.server.telemetry.prometheus import PROCESS_PREFIX

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
RULES = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"][0]["rules"]
EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
SUFFIXES = ("_bucket", "_sum", "_count")
WAIT_SECONDS = 60.0
GRAFANA_TYPES = ("@grafana/schema@13.2.3", "typescript@7.0.2")
SIX = np.arange(6, dtype=np.float32)

needs_prometheus = pytest.mark.skipif(shutil.which("promtool") is None, reason="needs prometheus of Debian")


def test_metrics_page_names_existing_prometheus_alerts():
    page = (MONITORING.parents[1] / "docs/deployment/metrics.md").read_text()
    named = set(re.findall(r"`(TensorReshape\w+)`", page))
    critical = {rule["alert"] for rule in RULES if rule["labels"]["severity"] == "critical"}
    assert critical <= named <= {rule["alert"] for rule in RULES}


def test_dashboards_and_alerts_together_use_exactly_the_existing_metrics():
    names = {family.shown_name for family in (*PROCESS_FAMILIES, *SERVER_FAMILIES)}
    histograms = {family.name for family in PROCESS_FAMILIES if family.kind == HISTOGRAM}
    shown = (names - histograms) | {name + suffix for name in histograms for suffix in SUFFIXES}
    expressions = [*EXPRESSIONS, *(rule["expr"] for rule in RULES)]
    for expression in expressions:
        asked = set(re.findall(r"tensor_reshape_[a-z_]+", expression))
        assert asked or expression.startswith("up{"), expression
        assert [name for name in asked - shown if not name.startswith(f"{PROCESS_PREFIX}_process_")] == [], expression
    assert [name for name in sorted(names) if not any(name in expression for expression in expressions)] == []


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_dashboard_has_the_types_of_grafana(tmp_path: Path):
    """No test loads the dashboard into Grafana, which neither Debian nor a registry of packages has."""
    install = ["npm", "install", "--silent", "--no-audit", "--ignore-scripts", *GRAFANA_TYPES]
    if subprocess.run(install, cwd=tmp_path, check=False).returncode:
        pytest.skip("the packages cannot be installed")
    text = f"import type {{Dashboard}} from '@grafana/schema';\nexport const it: Dashboard = {json.dumps(DASHBOARD)};\n"
    (tmp_path / "dashboard.ts").write_text(text)
    check = ["node_modules/.bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--moduleResolution", "bundler"]
    done = subprocess.run(
        [*check, "--module", "esnext", "dashboard.ts"], cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout.decode()) == (0, "")


@needs_prometheus
@pytest.mark.parametrize(
    "arguments", ["check config prometheus.yml", "check rules alerts.yml", "test rules alerts.test.yml"]
)
def test_promtool_accepts_the_prometheus_configuration_and_alert_rules(arguments: str):
    command = ["promtool", *arguments.split()]
    outcome = subprocess.run(command, cwd=MONITORING, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_promtool_tests_cover_each_alert_firing_and_not_firing():
    cases = yaml.safe_load((MONITORING / "alerts.test.yml").read_text())["tests"]
    expectations = [expectation for case in cases for expectation in case["alert_rule_test"]]
    names = {rule["alert"] for rule in RULES}
    assert {one["alertname"] for one in expectations if one.get("exp_alerts")} == names
    assert {one["alertname"] for one in expectations if not one.get("exp_alerts")} == names


@contextmanager
def run_prometheus(folder: Path, target: str) -> Iterator[str]:
    """Runs Prometheus with prometheus.yml, but with another target and interval."""
    config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(MONITORING / "alerts.yml")]
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [target]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    files = (f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data")
    command = ["prometheus", *files, f"--web.listen-address={address}"]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield f"http://{address}"
        finally:
            process.kill()


def ask(url: str, expression: str) -> list[Any]:
    """Returns the result of a query; empty while Prometheus starts."""
    try:
        with urlopen(f"{url}/api/v1/query?{urlencode({'query': expression})}", timeout=WAIT_SECONDS) as response:
            result: list[Any] = json.load(response)["data"]["result"]
    except URLError as error:
        starts = isinstance(error, HTTPError) and error.code == HTTPStatus.SERVICE_UNAVAILABLE
        if not starts and not isinstance(error.reason, ConnectionRefusedError):
            raise
        return []
    return result


def has_numbers(result: list[Any]) -> bool:
    """Whether a series has a number. A quantile without observations is NaN."""
    return any(series["value"][1] != "NaN" for series in result)


@needs_prometheus
def test_each_dashboard_panel_has_data_for_a_server_with_calls(tmp_path: Path):
    with run_server("--workers", "2", "--metrics-listen", "127.0.0.1:0") as server:
        target = find_metrics(server).removeprefix("http://").removesuffix("/metrics")
        with (
            run_prometheus(tmp_path, target) as url,
            Client(server.address) as client,
            grpc.insecure_channel(server.address) as channel,
        ):
            left = [one.replace("$instance", ".*").replace("$__rate_interval", "1m") for one in EXPRESSIONS]
            deadline = time.monotonic() + WAIT_SECONDS
            while left and time.monotonic() < deadline:
                # Successful calls and a failed one, so that the rates between two scrapes are positive.
                for transfer in ("inline", "stream"):
                    client.static_reshape(SIX, [2, 3], special_zero=False, transfer=transfer)
                catch_status(lambda: send_raw(channel, "StaticReshape", b"\xff"))
                left = [expression for expression in left if not has_numbers(ask(url, expression))]
            assert left == [], (tmp_path / "log").read_text()
            assert ask(url, 'ALERTS{alertstate="firing"}') == []
            server.stop()
            while not ask(url, 'ALERTS{alertname="TensorReshapeDown"}'):
                assert time.monotonic() < deadline + WAIT_SECONDS
                time.sleep(0.2)
