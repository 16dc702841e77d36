"""The application that Ray Serve deploys with `import_path: tensor_reshape.server.ray.applications:build`."""

from collections.abc import Mapping
from typing import Any

from ray import serve

from tensor_reshape.server.ray.replicas import ReshapeReplica, read_limits


def build(arguments: Mapping[str, Any]) -> serve.Application:
    """Returns the Ray Serve application.

    Args:
        arguments: the arguments of `read_limits`.

    Raises:
        ValueError: `read_limits` rejects the arguments.
    """
    application: serve.Application = serve.deployment(name="Reshape")(ReshapeReplica).bind(read_limits(arguments))
    return application
