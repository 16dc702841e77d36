"""deploy/ray/serve.yaml names existing parts of this project. `scripts/verify ray` runs it."""

import ast
from importlib import import_module
from pathlib import Path

import yaml

from tensor_reshape.server.config import Config
from tensor_reshape.server.ray.replicas import add_reshape_service, read_limits

ROOT = Path(__file__).parents[2]
APPLICATIONS = ROOT / "server/tensor_reshape/server/ray/applications.py"


def test_ray_serve_yaml_refers_to_existing_code():
    settings = yaml.safe_load((ROOT / "deploy/ray/serve.yaml").read_text())
    (path,), (application,) = settings["grpc_options"]["grpc_servicer_functions"], settings["applications"]
    (deployment,) = application["deployments"]

    module, _, name = path.rpartition(".")
    assert getattr(import_module(module), name) is add_reshape_service
    assert application["import_path"] == "tensor_reshape.server.ray.applications:build"
    source = APPLICATIONS.read_text()  # read and not imported, because it imports Ray
    assert "build" in {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    assert f'serve.deployment(name="{deployment["name"]}")' in source
    assert read_limits(application["args"]) == Config().limits
