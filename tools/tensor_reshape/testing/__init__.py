"""Helps to test programs that call the service.

The function `run_server` starts a server on a free port. For pytest, there are the fixtures `reshape_server` and
`reshape_client`.

Invariant: importing this package needs only the standard library.
"""

from tensor_reshape.testing.servers import ReshapeServer, run_server

__all__ = ["ReshapeServer", "run_server"]
