"""For tests of programs that call this service: servers, and clients that need none.

`run_server` starts a server on a free port. `FakeClient` and `AsyncFakeClient` are clients that answer by themselves by
the real rules, and fail when they are told to. pytest has them as fixtures: `reshape_server`, `reshape_client` and
`fake_reshape_client`.

Law: to import this, as pytest does wherever it is installed, takes the standard library alone.
"""

from typing import TYPE_CHECKING

from tensor_reshape.runtime.lazy_imports import build_getters

if TYPE_CHECKING:
    from tensor_reshape.testing.fakes import AsyncFakeClient, FakeClient
    from tensor_reshape.testing.servers import ReshapeServer, run_server

__all__ = ["AsyncFakeClient", "FakeClient", "ReshapeServer", "run_server"]

_FAKES, _SERVERS = "tensor_reshape.testing.fakes", "tensor_reshape.testing.servers"
_LATER = {"AsyncFakeClient": _FAKES, "FakeClient": _FAKES, "ReshapeServer": _SERVERS, "run_server": _SERVERS}

if not TYPE_CHECKING:  # or every name would exist to a type checker
    __getattr__, __dir__ = build_getters(__name__, _LATER)
