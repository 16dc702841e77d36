"""Describes the server for clients that call the method ServerInfo.

The description reveals nothing about the machine, such as paths, addresses or the number of processes.
"""

from importlib.metadata import version

from tensor_reshape.rules.limits import MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MAX_HEADER_BYTES, MAX_RANK
from tensor_reshape.rules.operations import OPERATIONS
from tensor_reshape.server.config import Config
from tensor_reshape.wire.servers import Feature, ServerInfo, ServerLimits, describe_operation


def describe_server(config: Config) -> ServerInfo:
    """Returns the response of the method ServerInfo for a configuration."""
    return ServerInfo(
        version=version("tensor-reshape"),
        limits=ServerLimits(
            max_message_bytes=config.max_message_bytes,
            max_output_bytes=config.limits.max_output_bytes,
            max_tensor_bytes=config.limits.max_tensor_bytes,
            max_header_bytes=MAX_HEADER_BYTES,
            max_batch_bytes=MAX_BATCH_BYTES,
            max_batch_items=MAX_BATCH_ITEMS,
        ),
        operations={one.name: describe_operation(one, MAX_RANK) for one in OPERATIONS.values()},
        features=frozenset({Feature.OPEN_INFERENCE, Feature.REFLECTION}),
    )
