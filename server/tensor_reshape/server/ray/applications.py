"""The application that Ray Serve deploys with `import_path: tensor_reshape.server.ray.applications:build`."""

from collections.abc import Mapping
from typing import Any

from ray import serve

from tensor_reshape.server.ray.replicas import ReshapeReplica, read_limits


def build(arguments: Mapping[str, Any]) -> serve.Application:
    """Returns the Ray Serve application with the deployment `Reshape`.

    Args:
        arguments: the arguments from the Ray Serve configuration (see `read_limits`).

    Raises:
        ValueError: the arguments contain a setting that a replica does not support.
    """
    application: serve.Application = serve.deployment(name="Reshape")(ReshapeReplica).bind(read_limits(arguments))
    return application
