"""Reports that a server has started. Logs its addresses and main settings, and sends a message to systemd.

The supervisor process uses this module and must not import grpc, so the module imports neither grpc nor protobuf.
"""

import logging
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version

from tensor_reshape.server.config import Config
from tensor_reshape.server.process.engines import name_engine

_LOGGER = logging.getLogger(__name__)
_LIMITS = ("max_message_bytes", "memory_budget_bytes", "max_calls")


def announce(
    addresses: Sequence[str],
    config: Config,
    *,
    health_address: str | None = None,
    http_address: str | None = None,
    metrics_address: str | None = None,
) -> None:
    """Logs a record for each address, with its bound port, and one record with the main settings.

    Args:
        addresses: the addresses that serve calls over gRPC. Empty if the server serves only HTTP.
        config: the configuration of the whole server.
        health_address: the address that serves only health checks, or None if it is not configured.
        http_address: the address that serves HTTP, or None if it is not configured.
        metrics_address: the address that serves metrics, or None if it is not configured. This function logs no record
            for this address, because `telemetry.prometheus` has already logged it.
    """
    tls = config.tls is not None
    if health_address is not None:
        _LOGGER.info("listening for health checks", extra={"address": health_address})
    if http_address is not None:
        _LOGGER.info("listening for HTTP", extra={"address": http_address, "tls": tls})
    for address in addresses:
        _LOGGER.info("listening", extra={"address": address, "tls": tls, "io_engine": name_engine()})
    ports = {"health_address": health_address, "http_address": http_address, "metrics_address": metrics_address}
    facts = {
        "version": version("tensor-reshape"),
        **({"io_engine": name_engine(), "workers": config.workers} if addresses else {}),
        **{name: getattr(config, name) for name in _LIMITS},
        "addresses": ",".join(addresses) or http_address,
        "tls": "none" if config.tls is None else "mutual" if config.tls.client_ca else "server",
        "tokens": "none" if config.token_file is None else "required",
        **{name: address for name, address in ports.items() if address is not None},
    }
    _LOGGER.info("serving", extra=facts)
    _notify_systemd()


def _notify_systemd() -> None:
    """If the server runs in a systemd unit with Type=notify, reports to systemd that the server now serves calls."""
    path = os.environ.get("NOTIFY_SOCKET", "")  # noqa: TID251 - set by systemd
    if path:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
            notifier.sendto(b"READY=1", path.replace("@", "\0", 1) if path.startswith("@") else path)
