"""The command `tensor-reshape serve`, also available as `python -m tensor_reshape.server`.

- The command-line options are generated from the list `SETTINGS` in the module `config`.
- gRPC's core reads environment variables once, when grpc is imported. This module therefore sets the environment
  variables for gRPC first, and only then imports grpc.
"""

import inspect
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import click

from tensor_reshape.runtime.requirements import describe_unmet_requirements
from tensor_reshape.server.config import (
    SETTINGS,
    STOP_SIGNALS,
    VARIABLE_PREFIX,
    Config,
    ConfigError,
    SettingsError,
    TlsFiles,
)
from tensor_reshape.server.options import FAULTS, build_config, build_option
from tensor_reshape.server.process.engines import check_release, choose_engine
from tensor_reshape.server.process.listeners import find_unbindable
from tensor_reshape.server.process.logs import configure_logs
from tensor_reshape.server.process.resources import raise_descriptor_limit
from tensor_reshape.server.process.signals import ignore_signals

# Other modules import the packages of the extra `[server]` only when they need these packages. This loop looks for the
# packages, so that the command reports at once if the extra is not installed.
for _package in ("prometheus_client", "pythonjsonlogger"):
    if find_spec(_package) is None:
        raise ModuleNotFoundError(f"No module named '{_package}'", name=_package)

_LOGGER = logging.getLogger(__name__)
_VERBOSITY = "GRPC_VERBOSITY"
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


@click.command(
    context_settings={"auto_envvar_prefix": VARIABLE_PREFIX, "help_option_names": ["-h", "--help"]},
    params=[build_option(setting) for setting in SETTINGS],
)
@click.option(
    "--check-config",
    is_flag=True,
    is_eager=True,
    allow_from_autoenv=False,
    help="Check the options, their files and the addresses, print every fault, and exit without serving calls.",
)
def serve(*, check_config: bool, **values: Any) -> None:
    """Serve tensor reshape over gRPC until SIGTERM, SIGINT or SIGHUP.

    You can set every option in the environment, for example --max-calls as TENSOR_RESHAPE_MAX_CALLS. A flag overrides
    its variable. A SIZE is a whole number of bytes, KiB, MiB, GiB or TiB, for example 64MiB.
    """
    # If the installed release of a package is not supported, a later import would fail, perhaps only in the workers.
    if unmet := describe_unmet_requirements():
        raise click.ClickException(unmet)
    try:
        configure_logs(values["log_format"], values["log_level"])
        check_release()
        if check_config:
            _check(values)
            return
        _prepare_libraries(values)
        _serve(values)
    except ConfigError as error:
        raise _choose_failure([error])(str(error)) from error


def _choose_failure(faults: Sequence[ConfigError]) -> type[click.ClickException]:
    """Returns the class of the error to raise. The class determines the exit code. A wrong setting is a usage error."""
    return click.UsageError if any(isinstance(fault, SettingsError) for fault in faults) else click.ClickException


def _check(values: dict[str, Any]) -> None:
    """Prints each fault on its own line, and exits with the status of a server that cannot start for this reason.

    If nothing is wrong, prints that the configuration is valid.
    """
    found: list[ConfigError] = list(map(SettingsError, click.get_current_context().meta.get(FAULTS, ())))
    _prepare_libraries(values)
    raise_descriptor_limit()
    config = None
    try:
        config = build_config(values)
    except ConfigError as error:
        found.append(error)
    found += find_faults(values, config)
    for fault in dict.fromkeys(text for error in found for text in error.faults):
        click.echo(f"Error: {fault}", err=True)
    if found:
        raise click.exceptions.Exit(_choose_failure(found).exit_code)
    click.echo("configuration is valid")


def find_faults(settings: Mapping[str, Any], config: Config | None) -> Iterator[ConfigError]:
    """Yields faults of the files, addresses and other system resources in the configuration.

    A fault may be yielded twice.

    - Each file and address is checked separately, so one fault does not hide another fault.
    - The check also creates a whole server on a spare address, but does not start it. If this server cannot be created,
      the check reports only the first reason, for example an unknown method in the authorization file.
    - For a moment, the check binds all configured addresses at the same time. If another server already listens on an
      address, the check reports a fault.
    - The check leaves no files or sockets, and clients cannot connect during the check.

    Args:
        settings: the value of each setting, by the setting's name. Each value must be within the bounds of its setting.
        config: the configuration that these values make, or None if the values conflict.
    """
    # These modules import grpc.
    from tensor_reshape.server.http import import_server  # noqa: PLC0415
    from tensor_reshape.server.runner import Runner  # noqa: PLC0415
    from tensor_reshape.server.security.certificates import Certificates  # noqa: PLC0415
    from tensor_reshape.server.security.tokens import Tokens  # noqa: PLC0415

    def check_http(config: Config) -> None:
        import_server()
        from tensor_reshape.server.http.applications import Application  # noqa: PLC0415 - an optional extra

        Application(config).end()

    attempts: list[Callable[[], object]] = []  # the checks, in the order of the options
    if settings["http_listen"]:
        attempts.append(import_server)
    certificate, key = settings["tls_certificate"], settings["tls_key"]
    if certificate and key:
        files = TlsFiles(certificate=certificate, key=key, client_ca=settings["tls_client_ca"])
        attempts.append(partial(Certificates, files))
    if settings["token_file"]:
        attempts.append(partial(Tokens, settings["token_file"]))
    if config is not None:
        # The checked server gets a spare address, because a unix socket would leave its file in the file system.
        attempts.append(partial(Runner, config.for_worker(("127.0.0.1:0",))))
        if config.http_listen is not None:
            attempts.append(partial(check_http, config))
    others = filter(None, (settings[name] for name in ("health_listen", "http_listen", "metrics_listen")))
    yield from map(ConfigError, find_unbindable([*settings["listen"], *others]))
    for attempt in attempts:
        try:
            attempt()
        except ConfigError as error:
            yield error
        except OSError as error:
            yield ConfigError(f"{error.filename}: {error.strerror}" if error.filename else error.strerror or "")


def _prepare_libraries(values: Mapping[str, Any]) -> None:
    """Sets environment variables that libraries read when they are imported. Workers inherit these variables.

    - One variable selects the I/O engine of gRPC's core.
    - The log of gRPC's core is off by default, because its lines have another format and clients can cause any number
      of lines. In addition, if the program that reads the log is slow, a thread of gRPC waits while it writes a log
      line.
    - numpy's linear algebra uses one thread instead of one thread for each processor, because the server does not need
      linear algebra.
    """
    os.environ.setdefault(_VERBOSITY, "NONE")  # noqa: TID251
    os.environ.setdefault(_BLAS_THREADS, "1")  # noqa: TID251
    choose_engine([*values["listen"], *filter(None, [values["health_listen"]])])


def _serve(settings: dict[str, Any]) -> None:
    """Serves until a signal.

    Raises:
        ConfigError: the settings are invalid, or a server cannot start with them on this system.
    """
    # With the default action of SIGINT, Ctrl-C during the imports below ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise_descriptor_limit()
    config = build_config(settings)
    if config.workers > 1 or config.http_listen:
        from tensor_reshape.server.workers.supervisor import supervise as run  # noqa: PLC0415 - starts without grpc
    else:
        from tensor_reshape.server.runner import serve_until_signal as run  # noqa: PLC0415 - imports grpc
    if is_instrumented() and not config.tracing:
        _LOGGER.warning(
            "the tool that has replaced grpc.server creates no spans for calls of this server. Use --tracing"
        )
    run(config)
    ignore_signals(STOP_SIGNALS)


def is_instrumented() -> bool:
    """Whether a tracing tool has replaced the function `grpc.server` in this process.

    Such a tool traces only servers that are created with `grpc.server`, but this server does not call that function.
    """
    grpc = sys.modules.get("grpc")
    return grpc is not None and (inspect.unwrap(grpc.server) is not grpc.server or grpc.server.__module__ != "grpc")


if __name__ == "__main__":
    serve(prog_name="python -m tensor_reshape.server")
