"""Who is let in: the gate that asks each call for what the server was told to demand.

- Everything that is demanded has to be there: a certificate is by TLS, before there is a call; one of the identities
  that are allowed; a token; and the permission for the method.
- Who does not prove to be anybody is told UNAUTHENTICATED, who may not do that, PERMISSION_DENIED. Neither says what
  was wrong, nor whom the server knows.
- A connection proves nothing for its calls but its certificate: a token that is taken back is refused from the next
  call on. Calls that have begun go on.
- Where nothing is demanded there is no gate.
"""

import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import grpc

from tensor_reshape.rules.errors import PermissionDeniedError, Reason, UnauthenticatedError
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.gates import Gate
from tensor_reshape.server.engine.heads import CallHead
from tensor_reshape.server.security.certificates import Certificates
from tensor_reshape.server.security.identities import IdentityPattern, read_identities
from tensor_reshape.server.security.permissions import Permissions
from tensor_reshape.server.security.reloads import Reloaded
from tensor_reshape.server.security.tokens import Tokens

AUTHORIZATION_KEY = "authorization"
"""The metadata that a token is shown in."""

_UNKNOWN = "the call shows no token that this server takes"
_NOT_ALLOWED = "this caller may not call this server"
_NOT_PERMITTED = "this caller may not call this method"


class Access:
    """What a server was told of who may call.

    Attributes:
        certificates: what TLS is served with; None: plain text.
        gates: what calls are asked by; empty where nothing is demanded of them.
    """

    def __init__(self, config: Config, methods: Iterable[str]) -> None:
        """Reads what `config` names; `methods` are the paths of what is served.

        Raises:
            ConfigError: a file, or a pattern, is none that can be used.
        """
        self.certificates = None if config.tls is None else Certificates(config.tls)
        tokens = None if config.token_file is None else Tokens(config.token_file)
        permissions = (
            None if config.authorization_file is None else Permissions(config.authorization_file, frozenset(methods))
        )
        patterns = [IdentityPattern(text) for text in config.allow_identity]
        gate = AccessGate(patterns, tokens, permissions, reads_certificates=config.tls_client_ca is not None)
        self.gates: tuple[Gate, ...] = (gate,) if config.authenticates else ()
        self._files: list[Reloaded[Any]] = [one for one in (self.certificates, tokens, permissions) if one is not None]

    def build_credentials(self) -> grpc.ServerCredentials | None:
        """Returns what one address is served with; None: plain text."""
        return None if self.certificates is None else self.certificates.build_credentials()

    @property
    def find_context(self) -> Callable[[], ssl.SSLContext] | None:
        """Returns the context of a connection that is not the core's, with the current certificates; None: no TLS."""
        return None if self.certificates is None else self.certificates.find_context

    def look(self) -> None:
        """Reads again what has changed; to be called every RELOAD_SECONDS, on one thread."""
        for one in self._files:
            one.look()


class AccessGate:
    """Lets in the calls of those who may make them."""

    def __init__(
        self,
        allowed: Sequence[IdentityPattern],
        tokens: Tokens | None,
        permissions: Permissions | None,
        *,
        reads_certificates: bool,
    ) -> None:
        """Demands what is given.

        Args:
            allowed: of whose identities a certificate proves one; empty: any that TLS has verified will do.
            tokens: of which one is shown; None: no token is demanded.
            permissions: None: whoever is let in may call every method.
            reads_certificates: whether clients have them. To read one takes five microseconds.
        """
        self._allowed = tuple(allowed)
        self._tokens = tokens
        self._permissions = permissions
        self._reads_certificates = reads_certificates

    def admit(self, head: CallHead) -> None:
        """Lets a call in and notes who makes it: by its token, or by the first name in its certificate.

        Raises:
            ReshapeError: UNAUTHENTICATED or PERMISSION_DENIED.
        """
        # A token is asked for first: to compare it is cheaper than to read a certificate.
        identities = [] if self._tokens is None else [_find_owner(self._tokens, head)]
        proven = read_identities(head.read_tls()) if self._reads_certificates else []
        identities += proven
        head.identity = next(iter(identities), "")
        if self._allowed and not any(pattern.matches(identity) for pattern in self._allowed for identity in proven):
            raise PermissionDeniedError.of(Reason.PERMISSION_DENIED, _NOT_ALLOWED)
        if self._permissions is not None and not self._permissions.permit(identities, head.method):
            raise PermissionDeniedError.of(Reason.PERMISSION_DENIED, _NOT_PERMITTED)

    def leave(self, head: CallHead) -> None:
        """Hears that a call is over, of which nothing is kept."""


def _find_owner(tokens: Tokens, head: CallHead) -> str:
    identity = tokens.find_identity(head.find_values(AUTHORIZATION_KEY))
    if not identity:
        raise UnauthenticatedError.of(Reason.UNAUTHENTICATED, _UNKNOWN)
    return identity
