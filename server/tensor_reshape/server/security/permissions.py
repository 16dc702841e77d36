"""The permissions of identities. A TOML file contains the methods that each identity may call.

    [callers]
    "token:batch" = ["*"]
    "uri:spiffe://example.org/ns/*/sa/viewer" = ["/tensor_reshape.v1.ReshapeService/InferShape"]
    "dns:*.example.org" = ["/inference.GRPCInferenceService/*"]

- A key in the permission file is an identity or a pattern (see `identities`). The value of a key is a list of methods.
  An item of this list is the path of one method, `/package.Service/*` for all methods of a service, or `*` for all
  methods.
- A caller may not call a method unless the file permits it. A caller with several identities may call every method that
  one of its identities may call.
- A method in the file that this server does not have is an error, because its name is probably misspelled. If a
  misspelled method were not an error, the intended method would be forbidden.
- Health checks need no permission, so this module does not check their methods.
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
    """The permissions that the TOML file contains."""

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
        """Returns whether at least one of the identities may call a method."""
        return any(method in methods and any(map(pattern.matches, identities)) for pattern, methods in self.value)


def _load(path: Path, known: frozenset[str]) -> _Grants:
    import tomllib  # noqa: PLC0415 - saves memory without an authorization file

    try:
        content = tomllib.loads(read_file(path).decode())
    # Numbers with too many digits raise ValueError, and deeply nested lists raise RecursionError.
    except (ValueError, RecursionError) as error:
        place = re.search(r"at line \d+, column \d+|at end of document", str(error))
        message = f"{path} is not valid TOML{f' {place[0]}' if place else ''}"
        raise ConfigError(message) from None
    callers = content.get(_TABLE)
    if set(content) != {_TABLE} or not isinstance(callers, dict):
        message = f"{path} must have one table, [{_TABLE}], and nothing else"
        raise ConfigError(message)
    return [_read_grant(path, pattern, methods, known) for pattern, methods in callers.items()]


def _read_grant(
    path: Path,
    pattern: str,
    methods: Any,  # noqa: ANN401 - what a file holds
    known: frozenset[str],
) -> tuple[IdentityPattern, frozenset[str]]:
    if not isinstance(methods, list):
        message = f"{path}: {pattern!r} must have a list of methods as its value"
        raise ConfigError(message)
    try:
        return IdentityPattern(pattern), frozenset().union(*(_find_methods(method, known) for method in methods))
    except ConfigError as error:
        message = f"{path}: {error}"
        raise ConfigError(message) from None


def _find_methods(text: Any, known: frozenset[str]) -> frozenset[str]:  # noqa: ANN401 - what a file holds
    """Returns the methods that an item of a method list permits."""
    written = str(text)
    if written == "*":
        return known
    service = written.removesuffix("*") if _SERVICE.fullmatch(written) else None
    found = frozenset(name for name in known if name == written or (service and name.startswith(service)))
    if not found:
        message = f"{written!r} is not a method of this server: write /package.Service/Method, /package.Service/* or *"
        raise ConfigError(message)
    return found
