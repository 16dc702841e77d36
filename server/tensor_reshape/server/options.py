"""Builds the command-line options from the settings, and the configuration from the values of the options.

The options are generated from the list `SETTINGS` of the module `config`. Every option can also be set in the
environment.
"""

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tensor_reshape.rules.limits import MAX_MESSAGE_BYTES
from tensor_reshape.rules.sizes import format_size, parse_size
from tensor_reshape.server.config import (
    AUTO,
    MAX_WORKERS,
    Config,
    ConfigError,
    Setting,
    count_shares,
    fit_memory,
)
from tensor_reshape.server.process.resources import (
    PROCESS_BYTES,
    count_cores,
    find_available_memory,
    find_memory_limit,
)

CHECK = "check_config"
"""The name of the option --check-config."""

FAULTS = f"{__name__}.faults"
"""The key of click's context with the faults that --check-config has found."""

# Other modules define the same numbers. They cannot be imported here, because they import grpc or the extra for HTTP.
_BUILTIN_MESSAGES = 20  # messages of waiting health checks and reflection calls
_HTTP_CONNECTIONS = 512

_LOST_PERCENT = 40  # memory that fragmentation took in the worst test, in percent of the memory budget
_AHEAD_BYTES = 256 * 1024  # data that gRPC receives for one waiting call
_SUPERVISOR_BYTES = 32 * 1024 * 1024
_TLS_CONNECTION_BYTES = 300 * 1024

_LOGGER = logging.getLogger(__name__)


class Size(click.IntRange):
    """The option type for a number of bytes with an optional unit (see `rules.sizes`)."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Returns the number of bytes."""
        try:
            size = parse_size(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return int(super().convert(size, param, ctx))


class AutoCount(click.IntRange):
    """The option type for a whole number or the word `AUTO`. It converts `AUTO` to 0."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Returns the number, or 0 for `AUTO`."""
        if value == AUTO:
            return 0
        try:
            return int(super().convert(str(value), param, ctx))  # type: ignore[arg-type] # it converts text
        except click.BadParameter:
            self.fail(f"{value!r} is neither a number from {self.min} to {self.max} nor {AUTO}", param, ctx)


class SettingOption(click.Option):
    """The click option for a setting.

    With --check-config, an invalid value is replaced by the default and its fault is recorded, so that all faults of
    the configuration are reported.
    """

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Returns the value of the option and the remaining arguments, like the method of `click.Option`."""
        try:
            return super().handle_parse_result(ctx, opts, args)
        except click.BadParameter as error:
            if not ctx.params.get(CHECK):  # click has already parsed --check-config, because this option is eager
                raise
            ctx.meta.setdefault(FAULTS, []).append(error.format_message())
            value = ctx.params[str(self.name)] = self.type_cast_value(ctx, self.get_default(ctx))
            return value, args


def build_option(setting: Setting) -> click.Option:
    """Returns the click option that sets a setting."""
    default: Any = list(setting.default) if setting.is_repeatable else setting.default
    if setting.is_size:
        default = format_size(default)  # click parses a default like a command-line value
    return SettingOption(
        [f"{setting.flag}/--no-{setting.flag.removeprefix('--')}" if setting.type is bool else setting.flag],
        type=_choose_type(setting),
        multiple=setting.is_repeatable,
        # If the default of a setting depends on the system, the option has the default None, which differs from every
        # configured value.
        default=None if setting.system_default else default,
        show_default=setting.system_default or True,
        metavar=setting.metavar or None,
        help=setting.help,
    )


def _choose_type(setting: Setting) -> "click.ParamType[Any] | type":
    if setting.choices:
        return click.Choice(setting.choices, case_sensitive=not setting.ignores_case)
    whole = Size if setting.is_size else AutoCount if setting.has_auto else click.IntRange
    types: dict[type, click.ParamType[Any]] = {
        int: whole(setting.least, setting.most),  # type: ignore[arg-type] # bounds of whole numbers are whole
        float: click.FloatRange(setting.least, setting.most),
        Path: click.Path(exists=True, dir_okay=False, path_type=Path),
    }
    return types.get(setting.type, setting.type)


def build_config(settings: dict[str, Any]) -> Config:
    """Returns the configuration. If the system has little memory, lowers the memory limits that are not configured.

    Logs a warning if the system may have too little memory, and another one if other machines may call the server
    without TLS and without a token.

    Raises:
        ConfigError: the settings are invalid.
    """
    # The server never lowers a configured message size, even if it equals the default size.
    source = click.get_current_context().get_parameter_source("max_message_bytes")
    configured = None if source is ParameterSource.DEFAULT else settings["max_message_bytes"]
    if settings["workers"] == 0:
        # Without addresses for gRPC, the server starts no workers, so their configured number has no effect.
        settings = {**settings, "workers": _choose_workers(settings, configured) if settings["listen"] else 1}
    config = _fit_config(settings, configured)
    if config.max_message_bytes != (configured or MAX_MESSAGE_BYTES):
        values = {"memory_budget_bytes": config.memory_budget_bytes, "max_message_bytes": config.max_message_bytes}
        _LOGGER.warning("memory limits are lowered to the memory of the system", extra=values)
    needed, limit = _find_memory(config)
    if needed > limit:
        _LOGGER.warning(
            "the server may need more memory than the system has",
            extra={"needed_bytes": needed, "limit_bytes": limit, "page": "docs/deployment/sizing.md"},
        )
    if config.exposed_addresses and config.tls is None and config.token_file is None:
        _LOGGER.warning(
            "other machines can call this server without TLS and without a token",
            extra={"addresses": ",".join(config.exposed_addresses), "page": "docs/deployment/authentication.md"},
        )
    return config


def find_needed_memory(config: Config) -> int:
    """Returns the memory in bytes that a server may need under load (see docs/deployment/sizing.md)."""
    workers, has_http = config.workers if config.listen else 0, config.http_listen is not None
    needed = config.memory_budget_bytes * (100 + _LOST_PERCENT) // 100
    needed += workers * (PROCESS_BYTES + _BUILTIN_MESSAGES * config.max_message_bytes)
    if workers:
        needed += config.max_calls * _AHEAD_BYTES
    if has_http:
        needed += PROCESS_BYTES + (0 if config.tls is None else _HTTP_CONNECTIONS * _TLS_CONNECTION_BYTES)
    return needed + _SUPERVISOR_BYTES * (workers + has_http > 1)


def _fit_config(settings: Mapping[str, Any], max_message_bytes: int | None) -> Config:
    """Returns the configuration. Memory limits that are not configured get values that fit the system's memory."""
    if settings["memory_budget_bytes"] is None:
        has_http = settings["http_listen"] is not None
        workers = settings["workers"] if settings["listen"] else 0
        shares = count_shares(workers, has_http=has_http)
        budget, message = fit_memory(find_available_memory(workers + has_http), shares, max_message_bytes)
        settings = {**settings, "memory_budget_bytes": budget, "max_message_bytes": message}
    return Config(**settings)


def _find_memory(config: Config) -> tuple[int, int]:
    """Returns the memory in bytes that a server may need, and the limit that the system sets."""
    processes = (config.workers if config.listen else 0) + (config.http_listen is not None)
    return find_needed_memory(config), find_memory_limit(processes)


def _choose_workers(settings: Mapping[str, Any], max_message_bytes: int | None) -> int:
    """Returns the number of workers, and logs the reason for this number.

    The server uses one worker for each core, or fewer if the system does not have the memory that these workers may
    need. With a unix socket, on another system than Linux, or if no number fits the memory, it uses one worker.

    Raises:
        ConfigError: the settings are invalid even for one worker.
    """
    _fit_config({**settings, "workers": 1}, max_message_bytes)  # raises errors that fewer workers would not solve

    def fits(workers: int) -> bool:
        try:
            config = _fit_config({**settings, "workers": workers}, max_message_bytes or MAX_MESSAGE_BYTES)
        except ConfigError:  # the memory budget is too small for so many workers
            return False
        needed, limit = _find_memory(config)
        return needed <= limit

    cores, reason = count_cores(), "cores"
    workers = min(cores, MAX_WORKERS)
    if workers < cores:
        reason = "maximum"
    if any(address.startswith("unix:") for address in (*settings["listen"], settings["health_listen"] or "")):
        workers, reason = 1, "unix socket"
    elif sys.platform != "linux":
        workers, reason = 1, "system"
    while workers > 1 and not fits(workers):
        workers, reason = workers - 1, "memory"
    _LOGGER.info("number of workers is chosen", extra={"workers": workers, "cores": cores, "limited_by": reason})
    return workers
