"""Which identities may call which methods: a file in TOML.

    [callers]
    "token:batch" = ["*"]
    "uri:spiffe://example.org/ns/*/sa/viewer" = ["/tensor_reshape.v1.ReshapeService/InferShape"]
    "dns:*.example.org" = ["/inference.GRPCInferenceService/*"]

- Left of the equals sign is an identity, or a pattern of `identities`; right of it are methods: one in full, all of a
  service, or all.
- What nobody is permitted is forbidden. A caller with several identities may do what any of them may.
- A method that this server does not have is an error: it is a slip of the pen, and would forbid what was to be allowed.
- Methods that are open to everybody, which are those of health, are not asked for here.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.security.identities import IdentityPattern
from tensor_reshape.server.security.reloads import Reloaded, read_file

_TABLE = "callers"
_SERVICE = re.compile(r"/[\w.]+/\*")
_Grants = Sequence[tuple[IdentityPattern, frozenset[str]]]


class Permissions(Reloaded[_Grants]):
    """The permissions in the file."""

    def __init__(self, path: Path, methods: Collection[str]) -> None:
        """Reads the file.

        Args:
            path: the path of the file.
            methods: the paths of this server's methods.

        Raises:
            ConfigError: the file cannot be read, or is invalid.
        """
        super().__init__("authorization", [path], partial(_load, path, frozenset(methods)))

    def permit(self, identities: Iterable[str], method: str) -> bool:
        """Whether one of the identities may call a method."""
        return any(method in methods and any(map(pattern.matches, identities)) for pattern, methods in self.value)


def _load(path: Path, known: frozenset[str]) -> _Grants:
    import tomllib  # noqa: PLC0415 - saves memory without an authorization file

    try:
        content = tomllib.loads(read_file(path).decode())
    except (ValueError, RecursionError) as error:  # these include overlong numbers and deeply nested lists
        message = f"{path} is not TOML: {error}"
        raise ConfigError(message) from None
    callers = content.get(_TABLE)
    if set(content) != {_TABLE} or not isinstance(callers, dict):
        message = f"{path} must have one table, [{_TABLE}]"
        raise ConfigError(message)
    return [_read_grant(path, pattern, methods, known) for pattern, methods in callers.items()]


def _read_grant(
    path: Path,
    pattern: str,
    methods: Any,  # noqa: ANN401 - what a file holds
    known: frozenset[str],
) -> tuple[IdentityPattern, frozenset[str]]:
    if not isinstance(methods, list):
        message = f"{path}: {pattern!r} must have a list of methods"
        raise ConfigError(message)
    try:
        return IdentityPattern(pattern), frozenset().union(*(_find_methods(method, known) for method in methods))
    except ConfigError as error:
        message = f"{path}: {error}"
        raise ConfigError(message) from None


def _find_methods(text: Any, known: frozenset[str]) -> frozenset[str]:  # noqa: ANN401 - what a file holds
    """Returns the methods that a text names."""
    written = str(text)
    if written == "*":
        return known
    service = written.removesuffix("*") if _SERVICE.fullmatch(written) else None
    found = frozenset(name for name in known if name == written or (service and name.startswith(service)))
    if not found:
        message = f"{written!r} is not a method of this server: write /package.Service/Method, /package.Service/* or *"
        raise ConfigError(message)
    return found
