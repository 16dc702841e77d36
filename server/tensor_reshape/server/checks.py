"""The checks of `serve --check-config`, which find faults that would prevent a start.

- Each file and address is checked separately, so one fault does not hide another fault.
- The check also creates a whole server on a spare address, without starting the server. Creating the server finds
  further faults, for example a method in the authorization file that does not exist. The check reports only the first
  fault that creating the server finds.
- For a moment, the check binds all configured addresses at the same time. If another server already listens on an
  address, the check reports a fault.
- The check leaves no files or sockets, and clients cannot connect during the check.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from tensor_reshape.server.config import Config, ConfigError, TlsFiles
from tensor_reshape.server.http import import_server
from tensor_reshape.server.process.listeners import find_unbindable
from tensor_reshape.server.runner import Runner
from tensor_reshape.server.security.certificates import Certificates
from tensor_reshape.server.security.tokens import Tokens

_OTHER_LISTENERS = ("health_listen", "http_listen", "metrics_listen")
# the checked server gets this address, because a unix socket would leave its file in the file system
_SPARE_ADDRESS = "127.0.0.1:0"


def find_faults(settings: Mapping[str, Any], config: Config | None) -> Iterator[ConfigError]:
    """Yields faults in files, addresses and other resources of the system. The same fault may be yielded twice.

    Args:
        settings: the values of the settings. Each value must be within the bounds of its setting.
        config: the configuration, or None if the values conflict.
    """
    for attempt in _list_attempts(settings):
        yield from _collect(attempt)
    addresses = [*settings["listen"], *filter(None, map(settings.get, _OTHER_LISTENERS))]
    yield from map(ConfigError, find_unbindable(addresses))
    if config is not None:
        yield from _collect(partial(Runner, config.for_worker((_SPARE_ADDRESS,))))
        if config.http_listen is not None:
            yield from _collect(partial(_check_http, config))


def _list_attempts(settings: Mapping[str, Any]) -> Iterator[Callable[[], object]]:
    """Yields functions, each of which raises ConfigError if the file or value that it checks has a fault."""
    certificate, key = settings["tls_certificate"], settings["tls_key"]
    if certificate and key:
        yield partial(Certificates, TlsFiles(certificate=certificate, key=key, client_ca=settings["tls_client_ca"]))
    if settings["token_file"]:
        yield partial(Tokens, settings["token_file"])
    if settings["http_listen"]:
        yield import_server


def _check_http(config: Config) -> None:
    import_server()
    from tensor_reshape.server.http.applications import Application  # noqa: PLC0415 - an optional extra

    Application(config).end()


def _collect(attempt: Callable[[], object]) -> Iterator[ConfigError]:
    try:
        attempt()
    except ConfigError as error:
        yield error
    except OSError as error:
        yield ConfigError(f"{error.filename}: {error.strerror}" if error.filename else error.strerror or "")
