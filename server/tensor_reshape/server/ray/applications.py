"""The application that Ray Serve deploys: `import_path: tensor_reshape.server.ray.applications:build`."""

from collections.abc import Mapping
from typing import Any

from ray import serve

from tensor_reshape.server.config import Config
from tensor_reshape.server.ray.replicas import ReshapeReplica


def build(arguments: Mapping[str, Any]) -> serve.Application:
    """Returns the application.

    Args:
        arguments: settings of the server that are limits of one message, by their names in `Config`:
            `max_message_bytes`, `max_tensor_bytes`, `max_rank`. Everything else is Ray Serve's to decide.
    """
    application: serve.Application = serve.deployment(name="Reshape")(ReshapeReplica).bind(Config(**arguments).limits)
    return application
