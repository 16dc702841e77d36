"""Helpers for tests of programs that call the service.

`run_server` starts a server on a free port. `FakeClient` and `AsyncFakeClient` are clients without a server. Both fake
clients apply the real rules, and fail on request. The pytest fixtures are `reshape_server`, `reshape_client` and
`fake_reshape_client`.

Invariant: importing this package needs only the standard library, because pytest imports it in every session.
"""

from typing import TYPE_CHECKING

from tensor_reshape.runtime.lazy_imports import build_getters

if TYPE_CHECKING:
    from tensor_reshape.testing.fakes import AsyncFakeClient, FakeClient
    from tensor_reshape.testing.servers import ReshapeServer, run_server

__all__ = ["AsyncFakeClient", "FakeClient", "ReshapeServer", "run_server"]

_FAKES, _SERVERS = "tensor_reshape.testing.fakes", "tensor_reshape.testing.servers"
_LATER = {"AsyncFakeClient": _FAKES, "FakeClient": _FAKES, "ReshapeServer": _SERVERS, "run_server": _SERVERS}

if not TYPE_CHECKING:  # type checkers do not see this function, because they would otherwise accept every name
    __getattr__, __dir__ = build_getters(__name__, _LATER)
