"""`python -m tensor_reshape.server`, and what `tensor-reshape serve` runs.

- The options are made from `SETTINGS`; none is declared here.
- No other module of the server reads the environment. gRPC's core does, once, when it is imported: that is late.
- So what is for the core is decided from the flags and the environment alone, by modules that do not import grpc.
"""

import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tensor_reshape.rules.limits import MAX_MESSAGE_BYTES
from tensor_reshape.rules.sizes import format_size, parse_size
from tensor_reshape.runtime import experiments
from tensor_reshape.server.config import SETTINGS, STOP_SIGNALS, Config, ConfigError, fit_memory
from tensor_reshape.server.process.logs import configure_logs
from tensor_reshape.server.process.resources import find_memory_room, raise_descriptor_limit
from tensor_reshape.server.process.signals import ignore_signals
from tensor_reshape.server.settings.declarations import VARIABLE_PREFIX, Setting
from tensor_reshape.server.transport.engines import Engine, choose_engine

_LOGGER = logging.getLogger(__name__)
_VERBOSITY = "GRPC_VERBOSITY"
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"
_CHECK = "check_config"
_FAULTS = f"{__name__}.faults"


class Size(click.IntRange):
    """A number of bytes, written as `rules.sizes` reads it."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Returns the bytes."""
        try:
            size = parse_size(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return int(super().convert(size, param, ctx))


class SettingOption(click.Option):
    """The option of a setting; with --check-config what cannot be read is one fault of several, and as if not given."""

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Returns the value."""
        try:
            return super().handle_parse_result(ctx, opts, args)
        except click.BadParameter as error:
            if not ctx.params.get(_CHECK):  # eager: it has been read by now
                raise
            ctx.meta.setdefault(_FAULTS, []).append(error.format_message())
            value = ctx.params[str(self.name)] = self.type_cast_value(ctx, self.get_default(ctx))
            return value, args


def _build_option(setting: Setting) -> click.Option:
    """Returns the option of a setting."""
    declared = setting.declaration
    default: Any = list(setting.default) if setting.is_repeatable else setting.default
    if setting.is_size:
        default = format_size(default)  # as people write it: click reads a default as it reads a flag
    return SettingOption(
        [f"{setting.flag}/--no-{setting.flag.removeprefix('--')}" if setting.type is bool else setting.flag],
        type=_choose_type(setting),
        multiple=setting.is_repeatable,
        # None, where the system decides: so that it can be told from the same value that was asked for.
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
        Path: click.Path(
            exists=True, file_okay=not declared.is_directory, dir_okay=declared.is_directory, path_type=Path
        ),
    }
    return types.get(setting.type, setting.type)


@click.command(
    context_settings={"auto_envvar_prefix": VARIABLE_PREFIX}, params=[_build_option(setting) for setting in SETTINGS]
)
@click.option(
    "--check-config",
    is_flag=True,
    is_eager=True,
    allow_from_autoenv=False,
    help="Say what is wrong with the options, the files that they name, and the addresses, and do not serve.",
)
def serve(*, check_config: bool, **values: Any) -> None:
    """Serve tensor reshape over gRPC until SIGTERM, SIGINT or SIGHUP.

    Every option can be set in the environment: --max-calls as TENSOR_RESHAPE_MAX_CALLS. A flag wins. A SIZE is a whole
    number of bytes, KiB, MiB, GiB or TiB: 64MiB.
    """
    try:
        configure_logs(values["log_format"], values["log_level"])
        if check_config:
            _check(values)
            return
        _serve({**values, "io_engine": _take_engine(values)})
    except ConfigError as error:
        raise click.ClickException(str(error)) from error


def _check(values: dict[str, Any]) -> None:
    """Says all that is wrong, a line each, and ends with 1; or that nothing is."""
    found: list[str] = list(click.get_current_context().meta.get(_FAULTS, ()))
    try:
        values["io_engine"] = _take_engine(values)
    except ConfigError as error:
        found += error.faults
    raise_descriptor_limit()
    from tensor_reshape.server.checks import find_faults  # noqa: PLC0415 - it imports grpc, as below

    config = None
    try:
        config = _build_config(values)
    except ConfigError as error:
        found += error.faults
    faults = dict.fromkeys([*found, *find_faults(values, config)])
    for fault in faults:
        click.echo(f"Error: {fault}", err=True)
    if faults:
        raise click.exceptions.Exit(1)
    click.echo("this can be served")


def _take_engine(values: Mapping[str, Any]) -> str:
    """Has gRPC's core read connections by the engine that goes with the addresses, and returns its name.

    Raises:
        ConfigError: the engine that was asked for cannot be had.
    """
    addresses = [*values["listen"], *filter(None, [values["health_listen"]])]
    variable = os.environ.get(experiments.VARIABLE)  # noqa: TID251
    engine = choose_engine(values["io_engine"], addresses, variable, is_imported="grpc" in sys.modules)
    _prepare_libraries(engine)
    return engine.name


def _prepare_libraries(engine: Engine) -> None:
    """Sets the environment that libraries read when they are imported, and that workers inherit.

    gRPC's core reads connections by the engine. It logs nothing unless the environment says otherwise: its lines are in
    a format of their own, come as often as a stranger likes, and wait for the reader of the log. numpy starts no
    threads: it would start one for each processor, for linear algebra, which the server does not use.
    """
    os.environ.setdefault(_VERBOSITY, "NONE")  # noqa: TID251
    os.environ.setdefault(_BLAS_THREADS, "1")  # noqa: TID251
    if engine.experiments is not None:
        os.environ[experiments.VARIABLE] = engine.experiments  # noqa: TID251
    if engine.obstacle:
        _LOGGER.warning("I/O engine not chosen by address", extra={"io_engine": engine.name, "cause": engine.obstacle})


def _serve(settings: dict[str, Any]) -> None:
    """Serves until a signal.

    Raises:
        ConfigError: the settings cannot be served.
    """
    # What is imported now takes a while, and would make a traceback of Ctrl-C. Nothing is served yet: it ends at once.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise_descriptor_limit()
    config = _build_config(settings)
    if config.workers > 1:
        from tensor_reshape.server.workers.supervisor import supervise  # noqa: PLC0415 - it never imports grpc

        supervise(config)
    else:
        from tensor_reshape.server.runner import serve_until_signal  # noqa: PLC0415 - grpc reads the environment once

        serve_until_signal(config)
    ignore_signals(STOP_SIGNALS)


def _build_config(settings: dict[str, Any]) -> Config:
    """Returns the configuration; what the memory of the system decides follows it, unless it was asked for.

    Raises:
        ConfigError: it cannot be served.
    """
    room = find_memory_room(settings["workers"], settings["threads"])
    # A flag with the value of the default was asked for all the same: it is never lowered in silence.
    source = click.get_current_context().get_parameter_source("max_message_bytes")
    asked = None if source is ParameterSource.DEFAULT else settings["max_message_bytes"]
    if settings["memory_budget_bytes"] is None:
        budget, message = fit_memory(room, settings["workers"], asked)
        settings = {**settings, "memory_budget_bytes": budget, "max_message_bytes": message}
    config = Config(**settings)
    if settings["max_message_bytes"] != (asked or MAX_MESSAGE_BYTES):
        _warn("the system has less memory than the defaults take", config)
    elif config.memory_budget_bytes > 2 * room:
        _warn("memory_budget_bytes is more than the system has", config)
    return config


def _warn(message: str, config: Config) -> None:
    values = {"memory_budget_bytes": config.memory_budget_bytes, "max_message_bytes": config.max_message_bytes}
    _LOGGER.warning(message, extra=values)


if __name__ == "__main__":
    serve(prog_name="python -m tensor_reshape.server")
