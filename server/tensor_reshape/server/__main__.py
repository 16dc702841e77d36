"""`python -m tensor_reshape.server`, and what `tensor-reshape serve` runs."""

import logging
import os
import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tensor_reshape.rules.limits import MAX_PROTOBUF_BYTES, MAX_RANK
from tensor_reshape.server.config import MAX_STOP_SECONDS, MIN_MESSAGE_BYTES, Config, ConfigError, TlsFiles, fit_memory
from tensor_reshape.server.process.logs import configure_logs
from tensor_reshape.server.process.resources import find_memory_room, raise_descriptor_limit

_LOGGER = logging.getLogger(__name__)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_VERBOSITY = "GRPC_VERBOSITY"
_SECONDS = click.FloatRange(0, MAX_STOP_SECONDS)
_MAX_SECONDS = 86400 * 20  # gRPC counts milliseconds in 32 bits
_DEFAULTS = Config()


@click.command(context_settings={"auto_envvar_prefix": "TENSOR_RESHAPE", "show_default": True})
@click.option(
    "--listen",
    multiple=True,
    default=list(_DEFAULTS.listen),
    metavar="ADDRESS",
    help="host:port (port 0: any free one) or unix:PATH; may be repeated, in the environment separated by spaces.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=_DEFAULTS.workers,
    help="Processes that share the ports; above 1, a supervisor replaces those that die or hang.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    default=_DEFAULTS.threads,
    help="Requests that each process works on at once.",
)
@click.option(
    "--max-message-bytes",
    type=click.IntRange(MIN_MESSAGE_BYTES, MAX_PROTOBUF_BYTES),
    default=_DEFAULTS.max_message_bytes,
    help="The largest request, and the largest output.",
)
@click.option(
    "--max-tensor-bytes",
    type=click.IntRange(1),
    default=_DEFAULTS.max_tensor_bytes,
    help="The largest tensor on a stream.",
)
@click.option(
    "--memory-budget-bytes",
    type=click.IntRange(1024),
    default=None,
    show_default="1 GiB, or half of what the system leaves",
    help="What all calls under way may take together; at least 8 times --max-message-bytes for each worker.",
)
@click.option("--max-calls", type=click.IntRange(1), default=_DEFAULTS.max_calls, help="Calls under way at once.")
@click.option(
    "--stall-seconds",
    type=click.FloatRange(0.1),
    default=_DEFAULTS.stall_seconds,
    help="How long a call may make no progress; less while others wait.",
)
@click.option(
    "--serving",
    type=click.Choice(["auto", "inline", "threads"]),
    default=_DEFAULTS.serving,
    help="inline answers small calls on the thread that received them; auto does where the installed grpcio allows it.",
)
@click.option(
    "--reflection/--no-reflection",
    default=_DEFAULTS.reflection,
    help="Whether tools that do not have the contract may ask for it.",
)
@click.option(
    "--max-rank", type=click.IntRange(1, MAX_RANK), default=_DEFAULTS.max_rank, help="The largest rank of Reshape-1."
)
@click.option(
    "--drain-seconds",
    type=_SECONDS,
    default=_DEFAULTS.drain_seconds,
    help="NOT_SERVING is announced so long before stopping.",
)
@click.option(
    "--grace-seconds",
    type=_SECONDS,
    default=_DEFAULTS.grace_seconds,
    help="Calls under way may take so long after that.",
)
@click.option(
    "--max-connections",
    type=click.IntRange(1, 1_000_000),
    default=_DEFAULTS.max_connections,
    help="Connections that each process takes on each address; fewer where there are not so many descriptors.",
)
@click.option(
    "--handshake-seconds",
    type=click.FloatRange(0.1, _MAX_SECONDS),
    default=_DEFAULTS.handshake_seconds,
    help="How long a connection may take until it speaks HTTP/2, and TLS where that is served.",
)
@click.option(
    "--max-connection-idle-seconds",
    type=click.FloatRange(1, _MAX_SECONDS),
    default=_DEFAULTS.max_connection_idle_seconds,
    help="How long a connection may have no call.",
)
@click.option(
    "--max-connection-age-seconds",
    type=click.FloatRange(0, _MAX_SECONDS),
    default=_DEFAULTS.max_connection_age_seconds,
    help="When clients are told to connect anew; calls under way go on. 0: never.",
)
@click.option(
    "--keepalive-seconds",
    type=click.FloatRange(1, _MAX_SECONDS),
    default=_DEFAULTS.keepalive_seconds,
    help="How long a connection may be silent until it is asked for a sign of life.",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", help="The form of the logs.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    help="debug logs every refusal.",
)
@click.option("--tls-certificate", type=_FILE, help="The server's certificate chain, PEM. With --tls-key.")
@click.option("--tls-key", type=_FILE, help="Its private key, PEM.")
@click.option("--tls-client-ca", type=_FILE, help="Demand client certificates signed by this authority, PEM.")
def serve(
    *,
    log_format: str,
    log_level: str,
    tls_certificate: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    **settings: object,
) -> None:
    """Serve tensor reshape over gRPC until SIGTERM, SIGINT or SIGHUP.

    Every option can be set in the environment: --max-rank as TENSOR_RESHAPE_MAX_RANK. A flag wins.
    """
    configure_logs(log_format, log_level)
    _set_core()
    raise_descriptor_limit()
    from tensor_reshape.server.runner import serve_until_signal  # noqa: PLC0415 - grpc reads the environment once,
    from tensor_reshape.server.workers.supervisor import supervise  # noqa: PLC0415 - when it is imported

    try:
        tls = _build_tls(tls_certificate, tls_key, tls_client_ca)
        config = _build_config({"tls": tls, **settings})
        if config.workers > 1:
            supervise(config, log_format=log_format, log_level=log_level)
        else:
            serve_until_signal(config)
    except ConfigError as error:
        raise click.ClickException(str(error)) from error


def _set_core() -> None:
    """Chooses what gRPC's core reads from the environment, unless that says it. Workers inherit the choice.

    The core's own lines have no format of ours, come as often as a stranger likes, and wait for whoever reads them.
    """
    before = dict(os.environ)  # noqa: TID251
    os.environ.setdefault(_VERBOSITY, "NONE")  # noqa: TID251
    if "grpc" in sys.modules and os.environ != before:  # noqa: TID251 - too late for this process
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - this very command


def _build_config(settings: dict[str, Any]) -> Config:
    """Returns the configuration; what the memory of the system decides follows it, unless it was asked for.

    Raises:
        ConfigError: it cannot be served.
    """
    from tensor_reshape.server.calls.threaded import CALL_THREADS  # noqa: PLC0415 - it imports grpc, as above

    waiting = 2 * CALL_THREADS if settings["serving"] == "threads" else 0  # one receives, one answers
    room = find_memory_room(settings["workers"], settings["threads"] + waiting)
    source = click.get_current_context().get_parameter_source("max_message_bytes")
    asked = None if source is ParameterSource.DEFAULT else settings["max_message_bytes"]
    if settings["memory_budget_bytes"] is None:
        budget, message = fit_memory(room, settings["workers"], asked)
        settings = {**settings, "memory_budget_bytes": budget, "max_message_bytes": message}
    config = Config(**settings)
    if settings["max_message_bytes"] != (asked or _DEFAULTS.max_message_bytes):
        _warn("the system has less memory than the defaults take", config)
    elif config.memory_budget_bytes > 2 * room:
        _warn("memory_budget_bytes is more than the system has", config)
    return config


def _warn(message: str, config: Config) -> None:
    values = {"memory_budget_bytes": config.memory_budget_bytes, "max_message_bytes": config.max_message_bytes}
    _LOGGER.warning(message, extra=values)


def _build_tls(certificate: Path | None, key: Path | None, client_ca: Path | None) -> TlsFiles | None:
    if certificate and key:
        return TlsFiles(certificate=certificate, key=key, client_ca=client_ca)
    if certificate or key or client_ca:
        message = "--tls-certificate and --tls-key go together, and --tls-client-ca needs both"
        raise ConfigError(message)
    return None


if __name__ == "__main__":
    serve(prog_name="python -m tensor_reshape.server")
