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
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tensor_reshape.rules.limits import MAX_MESSAGE_BYTES
from tensor_reshape.rules.sizes import format_size, parse_size
from tensor_reshape.runtime import experiments
from tensor_reshape.runtime.requirements import describe_unmet_requirements
from tensor_reshape.server.config import SETTINGS, STOP_SIGNALS, Config, ConfigError, SettingsError, fit_memory
from tensor_reshape.server.grpc_core.binding import check_release
from tensor_reshape.server.process.logs import configure_logs
from tensor_reshape.server.process.resources import find_available_memory, raise_descriptor_limit
from tensor_reshape.server.process.signals import ignore_signals
from tensor_reshape.server.settings.declarations import VARIABLE_PREFIX, Setting
from tensor_reshape.server.transport.engines import Engine, choose_engine

# Other modules import the packages of the extra `[server]` only when they need them. They are looked for here, so that
# the command reports at once that the extra is not installed.
for _package in ("prometheus_client", "pythonjsonlogger"):
    if find_spec(_package) is None:
        message = f"No module named '{_package}'"
        raise ModuleNotFoundError(message, name=_package)

_LOGGER = logging.getLogger(__name__)
_VERBOSITY = "GRPC_VERBOSITY"
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"
_CHECK = "check_config"
_FAULTS = f"{__name__}.faults"


class Size(click.IntRange):
    """A number of bytes with an optional unit (see `rules.sizes`)."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Returns the number of bytes."""
        try:
            size = parse_size(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return int(super().convert(size, param, ctx))


class SettingOption(click.Option):
    """The click option for a setting.

    With --check-config, the default replaces an invalid value, and the fault is recorded.
    """

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Returns the value of the option and the remaining arguments, like the method of `click.Option`."""
        try:
            return super().handle_parse_result(ctx, opts, args)
        except click.BadParameter as error:
            if not ctx.params.get(_CHECK):  # click has already parsed --check-config, because this option is eager
                raise
            ctx.meta.setdefault(_FAULTS, []).append(error.format_message())
            value = ctx.params[str(self.name)] = self.type_cast_value(ctx, self.get_default(ctx))
            return value, args


def _build_option(setting: Setting) -> click.Option:
    """Returns the option of a setting."""
    declared = setting.declaration
    default: Any = list(setting.default) if setting.is_repeatable else setting.default
    if setting.is_size:
        default = format_size(default)  # click parses a default like a command-line value, so the default is a text
    return SettingOption(
        [f"{setting.flag}/--no-{setting.flag.removeprefix('--')}" if setting.type is bool else setting.flag],
        type=_choose_type(setting),
        multiple=setting.is_repeatable,
        # If the default of a setting depends on the system, the option has the default None, which differs from every
        # configured value.
        default=None if declared.system_default else default,
        show_default=declared.system_default or True,
        metavar=declared.metavar or None,
        help=declared.help,
    )


def _choose_type(setting: Setting) -> "click.ParamType[Any] | type":
    declared = setting.declaration
    if declared.choices:
        return click.Choice(declared.choices, case_sensitive=not declared.ignores_case)
    whole = Size if setting.is_size else click.IntRange
    types: dict[type, click.ParamType[Any]] = {
        int: whole(declared.least, declared.most),  # type: ignore[arg-type] # bounds of whole numbers are whole
        float: click.FloatRange(declared.least, declared.most),
        Path: click.Path(exists=True, dir_okay=False, path_type=Path),
    }
    return types.get(setting.type, setting.type)


@click.command(
    context_settings={"auto_envvar_prefix": VARIABLE_PREFIX, "help_option_names": ["-h", "--help"]},
    params=[_build_option(setting) for setting in SETTINGS],
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
    # With a wrong package, an import would fail, perhaps only in the workers.
    if unmet := describe_unmet_requirements():
        raise click.ClickException(unmet)
    try:
        configure_logs(values["log_format"], values["log_level"])
        check_release()
        if check_config:
            _check(values)
            return
        _serve({**values, "io_engine": _set_engine(values)})
    except ConfigError as error:
        raise _choose_failure([error])(str(error)) from error


def _choose_failure(faults: Sequence[ConfigError]) -> type[click.ClickException]:
    """Returns the kind of error, which determines the exit code. For a wrong setting, it is a usage error."""
    return click.UsageError if any(isinstance(fault, SettingsError) for fault in faults) else click.ClickException


def _check(values: dict[str, Any]) -> None:
    """Prints each fault on a line, and exits with the status that a start would have.

    If nothing is wrong, prints that the configuration is valid.
    """
    found: list[ConfigError] = list(map(SettingsError, click.get_current_context().meta.get(_FAULTS, ())))
    try:
        values["io_engine"] = _set_engine(values)
    except ConfigError as error:
        found.append(error)
    raise_descriptor_limit()
    from tensor_reshape.server.checks import find_faults  # noqa: PLC0415 - imports grpc

    config = None
    try:
        config = _build_config(values)
    except ConfigError as error:
        found.append(error)
    found += find_faults(values, config)
    for fault in dict.fromkeys(text for error in found for text in error.faults):
        click.echo(f"Error: {fault}", err=True)
    if found:
        raise click.exceptions.Exit(_choose_failure(found).exit_code)
    click.echo("configuration is valid")


def _set_engine(values: Mapping[str, Any]) -> str:
    """Selects the I/O engine of gRPC's core from the settings and the addresses, and returns the engine's name.

    Raises:
        ConfigError: the configured engine is not available.
    """
    addresses = [*values["listen"], *filter(None, [values["health_listen"]])]
    variable = os.environ.get(experiments.VARIABLE)  # noqa: TID251
    engine = choose_engine(values["io_engine"], addresses, variable, is_imported="grpc" in sys.modules)
    _prepare_libraries(engine)
    return engine.name


def _prepare_libraries(engine: Engine) -> None:
    """Sets environment variables that libraries read when they are imported. Workers inherit these variables.

    - One variable selects the I/O engine of gRPC's core.
    - The log of gRPC's core is off by default, because its lines have another format and clients can cause any number
      of them. A thread that writes a log line would wait for the process that reads the log.
    - numpy's linear algebra uses one thread instead of one thread for each processor, because the server does not need
      linear algebra.
    """
    os.environ.setdefault(_VERBOSITY, "NONE")  # noqa: TID251
    os.environ.setdefault(_BLAS_THREADS, "1")  # noqa: TID251
    if engine.experiments is not None:
        os.environ[experiments.VARIABLE] = engine.experiments  # noqa: TID251
    if engine.obstacle:
        _LOGGER.warning(
            "io_engine is not chosen by the addresses", extra={"io_engine": engine.name, "cause": engine.obstacle}
        )


def _serve(settings: dict[str, Any]) -> None:
    """Serves until a signal.

    Raises:
        ConfigError: the settings are invalid, or a server cannot start with them on this system.
    """
    # With the default action of SIGINT, Ctrl-C during the imports below ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise_descriptor_limit()
    config = _build_config(settings)
    if config.workers > 1:
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

    The tool then expects each server to use its function, but this server does not call `grpc.server`.
    """
    grpc = sys.modules.get("grpc")
    return grpc is not None and (inspect.unwrap(grpc.server) is not grpc.server or grpc.server.__module__ != "grpc")


def _build_config(settings: dict[str, Any]) -> Config:
    """Returns the configuration. If the system has little memory, lowers the memory limits that are not configured.

    Logs a warning if the memory is too small, and if every machine in the network may call the server.

    Raises:
        ConfigError: the settings are invalid.
    """
    available = find_available_memory(settings["workers"])
    # The server never lowers a configured message size, even if it equals the default size.
    source = click.get_current_context().get_parameter_source("max_message_bytes")
    configured = None if source is ParameterSource.DEFAULT else settings["max_message_bytes"]
    if settings["memory_budget_bytes"] is None:
        budget, message = fit_memory(available, settings["workers"], configured)
        settings = {**settings, "memory_budget_bytes": budget, "max_message_bytes": message}
    config = Config(**settings)
    if settings["max_message_bytes"] != (configured or MAX_MESSAGE_BYTES):
        _warn("memory limits are lowered to the memory of the system", config)
    elif config.memory_budget_bytes > 2 * available:
        _warn("memory_budget_bytes exceeds the memory of the system", config)
    if config.exposed_addresses and config.tls is None and config.token_file is None:
        _LOGGER.warning(
            "other machines can call this server without TLS and without a token",
            extra={"addresses": ",".join(config.exposed_addresses), "page": "docs/deployment/authentication.md"},
        )
    return config


def _warn(message: str, config: Config) -> None:
    values = {"memory_budget_bytes": config.memory_budget_bytes, "max_message_bytes": config.max_message_bytes}
    _LOGGER.warning(message, extra=values)


if __name__ == "__main__":
    serve(prog_name="python -m tensor_reshape.server")
