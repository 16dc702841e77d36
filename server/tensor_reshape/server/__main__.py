"""`python -m tensor_reshape.server`, and what `tensor-reshape serve` runs."""

from pathlib import Path

import click

from tensor_reshape.core.limits import MAX_PROTOBUF_BYTES, MAX_RANK
from tensor_reshape.server.config import MAX_STOP_SECONDS, Config, ConfigError, TlsFiles
from tensor_reshape.server.logs import configure_logs
from tensor_reshape.server.runner import serve_until_signal
from tensor_reshape.server.supervisor import supervise

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_SECONDS = click.FloatRange(0, MAX_STOP_SECONDS)
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
    type=click.IntRange(1024, MAX_PROTOBUF_BYTES),
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
    default=_DEFAULTS.memory_budget_bytes,
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
    """Serve tensor reshape over gRPC until SIGTERM or SIGINT.

    Every option can be set in the environment: --max-rank as TENSOR_RESHAPE_MAX_RANK. A flag wins.
    """
    configure_logs(log_format, log_level)
    try:
        tls = _build_tls(tls_certificate, tls_key, tls_client_ca)
        config = Config(tls=tls, **settings)  # type: ignore[arg-type] # click has converted each option
        if config.workers > 1:
            supervise(config, log_format=log_format, log_level=log_level)
        else:
            serve_until_signal(config)
    except ConfigError as error:
        raise click.ClickException(str(error)) from error


def _build_tls(certificate: Path | None, key: Path | None, client_ca: Path | None) -> TlsFiles | None:
    if certificate and key:
        return TlsFiles(certificate=certificate, key=key, client_ca=client_ca)
    if certificate or key or client_ca:
        message = "--tls-certificate and --tls-key go together, and --tls-client-ca needs both"
        raise ConfigError(message)
    return None


if __name__ == "__main__":
    serve(prog_name="python -m tensor_reshape.server")
