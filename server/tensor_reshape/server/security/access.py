"""Implements access control as an admission check (gate) that authenticates and authorizes each call.

- The configuration can require a client certificate, a token, and permission for the method. A call must meet all
  configured requirements. TLS checks certificates before a call begins.
- A call without a valid token gets UNAUTHENTICATED. A call without permission gets PERMISSION_DENIED. Neither error
  reveals the exact reason for the rejection, or which identities the server knows.
- The client must send its token with each call, so the server rejects a revoked token from the next call on. Running
  calls continue.
- If the configuration requires neither certificates nor tokens, the server has no access gate.
"""

from collections.abc import Iterable

from tensor_reshape.rules.errors import PermissionDeniedError, Reason, UnauthenticatedError
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.gates import Gate
from tensor_reshape.server.config import Config
from tensor_reshape.server.security.certificates import Certificates
from tensor_reshape.server.security.permissions import Permissions, read_identities
from tensor_reshape.server.security.tokens import Tokens

_AUTHORIZATION_KEY = "authorization"  # the metadata key for the token of a call
_UNKNOWN = "the call has no valid token"
_NOT_PERMITTED = "this caller may not call this method"


class Access:
    """Admits only calls that meet the access rules of the server.

    Attributes:
        certificates: the server's certificate, its key and the authority of client certificates. None if the server
            uses plain text.
        gates: a tuple with this object, which is the gate that checks calls. The tuple is empty if the configuration
            requires neither client certificates nor tokens.
    """

    def __init__(self, config: Config, methods: Iterable[str]) -> None:
        """Reads the certificates, tokens and permissions from the configured files.

        Args:
            config: the configuration.
            methods: the paths of all gRPC methods of the server.

        Raises:
            ConfigError: a file is invalid.
        """
        rules = config.authorization_file
        self.certificates = None if config.tls is None else Certificates(config.tls)
        self._tokens = None if config.token_file is None else Tokens(config.token_file)
        self._permissions = None if rules is None else Permissions(rules, frozenset(methods))
        # Without client certificates, the gate skips reading them, which saves five microseconds for each call.
        self._reads_certificates = config.tls_client_ca is not None
        self.gates: tuple[Gate, ...] = (self,) if config.authenticates else ()

    def reload_changed_files(self) -> None:
        """Reloads the files that have changed. One thread must call this method every RELOAD_SECONDS."""
        for one in (self.certificates, self._tokens, self._permissions):
            if one is not None:
                one.reload_if_changed()

    def admit(self, info: CallInfo) -> None:
        """Admits a call and records the identity of its caller.

        The identity comes from the token, or without a token, from the first name in the client's certificate.

        Raises:
            ReshapeError: the reason is UNAUTHENTICATED or PERMISSION_DENIED.
        """
        # The token is checked first, because checking a token takes less time than reading a certificate.
        identities: list[str] = []
        if self._tokens is not None:
            identities.append(self._tokens.find_identity(info.find_values(_AUTHORIZATION_KEY)))
            if not identities[0]:
                raise UnauthenticatedError.of(Reason.UNAUTHENTICATED, _UNKNOWN)
        identities += read_identities(info.read_tls()) if self._reads_certificates else []
        info.identity = next(iter(identities), "")
        if self._permissions is not None and not self._permissions.permit(identities, info.method):
            raise PermissionDeniedError.of(Reason.PERMISSION_DENIED, _NOT_PERMITTED)

    def leave(self, info: CallInfo) -> None:
        """Does nothing, because the access gate stores nothing about running calls."""
