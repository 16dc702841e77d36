"""What deploy/ray names is there, and is what this project has. That it runs is seen by `scripts/ray`."""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from tensor_reshape.server.config import Config
from tensor_reshape.server.ray.replicas import add_reshape_service, read_limits

ROOT = Path(__file__).parents[2]
APPLICATIONS = ROOT / "server/tensor_reshape/server/ray/applications.py"


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    """The file that is deployed."""
    settings = yaml.safe_load((ROOT / "deploy/ray/serve.yaml").read_text())
    assert isinstance(settings, dict)
    return settings


@pytest.fixture(scope="module")
def application(settings: dict[str, Any]) -> dict[str, Any]:
    """Its one application."""
    (application,) = settings["applications"]
    assert isinstance(application, dict)
    return application


def test_the_proxies_are_told_of_the_contract(settings: dict[str, Any]):
    (path,) = settings["grpc_options"]["grpc_servicer_functions"]
    module, _, name = path.rpartition(".")
    assert getattr(import_module(module), name) is add_reshape_service


def test_what_is_imported_builds_an_application_with_a_deployment_of_this_name(application: dict[str, Any]):
    assert application["import_path"] == "tensor_reshape.server.ray.applications:build"
    source = APPLICATIONS.read_text()  # read: it imports Ray
    assert "build" in {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    (deployment,) = application["deployments"]
    assert f'serve.deployment(name="{deployment["name"]}")' in source


def test_its_arguments_are_settings_of_the_server(application: dict[str, Any]):
    assert read_limits(application["args"]) == Config().limits
