"""Who is let in: the gate that asks each call for what the server was told to demand.

- Everything that is demanded has to be there: a certificate is by TLS, before there is a call; one of the identities
  that are allowed; a token; and the permission for the method.
- Who does not prove to be anybody is told UNAUTHENTICATED, who may not do that, PERMISSION_DENIED. Neither says what was
  wrong, nor whom the server knows.
- A connection proves nothing for its calls but its certificate: a token that is taken back is refused from the next
  call on. Calls that have begun go on.
- Where nothing is demanded there is no gate.
"""

import time
from collections.abc import Callable, Collection, Sequence

from tensor_reshape.rules.errors import PermissionDeniedError, Reason, UnauthenticatedError
from tensor_reshape.server.calls.gates import Gate
from tensor_reshape.server.calls.heads import CallHead
from tensor_reshape.server.config import Config
from tensor_reshape.server.security.identities import IdentityPattern, read_identities
from tensor_reshape.server.security.permissions import Permissions
from tensor_reshape.server.security.tokens import Tokens

AUTHORIZATION_KEY = "authorization"
"""The metadata that a token is shown in."""


class AccessGate:
    """Lets in the calls of those who may make them."""

    def __init__(
        self, allowed: Sequence[IdentityPattern], tokens: Tokens | None, permissions: Permissions | None
    ) -> None:
        """Demands what is given.

        Args:
            allowed: of whose identities a certificate proves one; empty: no certificate is demanded.
            tokens: of which one is shown; None: no token is demanded.
            permissions: None: whoever is let in may call every method.
        """
        self._allowed = tuple(allowed)
        self._tokens = tokens
        self._permissions = permissions

    def admit(self, head: CallHead) -> None:
        """Lets a call in and notes who makes it.

        Raises:
            ReshapeError: UNAUTHENTICATED or PERMISSION_DENIED.
        """
        # A token is asked for first: to compare it is cheaper than to read a certificate.
        shown = self._identify_by_token(head)
        proven = read_identities(head.read_tls()) if self._allowed or self._permissions else []
        head.identity = shown or (proven[0] if proven else "")
        if self._allowed and not any(pattern.matches(identity) for pattern in self._allowed for identity in proven):
            message = "this caller may not call this server"
            raise PermissionDeniedError.of(Reason.PERMISSION_DENIED, message)
        if self._permissions is not None and not self._permissions.permit([shown, *proven], head.method):
            message = f"this caller may not call {head.method}"
            raise PermissionDeniedError.of(Reason.PERMISSION_DENIED, message)

    def leave(self, head: CallHead) -> None:
        """Hears that a call is over, of which nothing is kept."""

    def _identify_by_token(self, head: CallHead) -> str:
        if self._tokens is None:
            return ""
        identity = self._tokens.find_identity(head.find_values(AUTHORIZATION_KEY))
        if not identity:
            message = "the call shows no token that this server takes: send authorization: Bearer TOKEN"
            raise UnauthenticatedError.of(Reason.UNAUTHENTICATED, message)
        return identity
