"""Helpers for tests of programs that call the service.

`run_server` starts a server on a free port. The pytest fixtures are `reshape_server` and `reshape_client`.

Invariant: importing this package needs only the standard library.
"""

from tensor_reshape.testing.servers import ReshapeServer, run_server

__all__ = ["ReshapeServer", "run_server"]
