"""What a start would find wrong, all of it, without serving: `serve --check-config`.

- Each subject is looked at by itself, so that one fault hides no other. Then a server is made of all but the addresses,
  and not started, so that nothing is passed over that a start looks at. What takes a whole server to judge may hide
  behind another fault: whether the methods in an authorization file are its own.
- Every address is taken, all at the same time, and given back. So a server that serves there already is a fault.
- Nothing is left behind, and nobody can connect meanwhile.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from tensor_reshape.server.config import Config, ConfigError, TlsFiles
from tensor_reshape.server.extra_listeners import import_gateway
from tensor_reshape.server.runner import Runner
from tensor_reshape.server.security.certificates import Certificates
from tensor_reshape.server.security.identities import IdentityPattern
from tensor_reshape.server.security.tokens import Tokens
from tensor_reshape.server.transport.listeners import find_unbindable

_OTHER_LISTENERS = ("health_listen", "http_listen", "metrics_listen")
_SOMEWHERE = "127.0.0.1:0"  # a unix socket would stay


def find_faults(settings: Mapping[str, Any], config: Config | None) -> Iterator[str]:
    """Yields what the system, or a file, keeps from being served; some of it may come twice.

    Args:
        settings: the values, each within its bounds.
        config: what they come to; None where they do not go together.
    """
    for attempt in _list_attempts(settings):
        yield from _collect(attempt)
    yield from find_unbindable([*settings["listen"], *filter(None, map(settings.get, _OTHER_LISTENERS))])
    if config is not None:
        yield from _collect(partial(Runner, config.for_worker((_SOMEWHERE,))))


def _list_attempts(settings: Mapping[str, Any]) -> Iterator[Callable[[], object]]:
    """Yields what raises ConfigError where a subject has a fault."""
    certificate, key = settings["tls_certificate"], settings["tls_key"]
    if certificate and key:
        yield partial(Certificates, TlsFiles(certificate=certificate, key=key, client_ca=settings["tls_client_ca"]))
    if settings["token_file"]:
        yield partial(Tokens, settings["token_file"])
    if settings["http_listen"]:
        yield import_gateway
    for text in settings["allow_identity"]:
        yield partial(IdentityPattern, text)


def _collect(attempt: Callable[[], object]) -> Iterator[str]:
    try:
        attempt()
    except ConfigError as error:
        yield from error.faults
    except OSError as error:
        yield str(error)
