"""Makes the small calls of a single thread faster by switching off an experiment of gRPC's core.

By default, threads of gRPC's core read a client's connections and wake the thread that waits for a response. Without
the experiment `event_engine_client`, the waiting thread reads the connection itself. However, streams and the calls of
many threads then take a little longer. The page docs/how-to/python-client.md has the figures.

- gRPC's core reads the environment variable `GRPC_EXPERIMENTS` once, when grpc is imported. This module imports grpc
  only when `use_fast_polling` is called.
- `GRPC_EXPERIMENTS` is set only during the import of grpc, so that child processes, in particular servers, do not
  inherit it.
- The experiment is switched off only in releases of grpcio that were tested without it. If gRPC's core does not know
  the name of an experiment, it logs an error in every process.
"""

import os
import sys

from tensor_reshape.runtime.experiments import VARIABLE, find_release

_EXPERIMENTS = "-event_engine_client"
# The tested releases. In one stress test, clients are created and closed all the time while their server restarts. In
# this stress test, grpcio 1.82 crashed if the gRPC experiment was off (SIGSEGV in two runs of three), but not if it was
# on. Release 1.85 of grpcio did not crash in six runs.
_RELEASES = {(1, 85)}


def use_fast_polling() -> bool:
    """Imports grpc with a setting that makes the small calls of a single thread faster.

    Call this function before any other module imports grpc. With this setting, the thread that waits for a response
    reads the connection itself, so no other thread needs to wake the waiting thread. However, streams and the calls of
    many threads take a little longer. The setting applies to all gRPC clients of the process, but not to its child
    processes.

    Returns:
        True if the function has imported grpc with this setting. False if the environment already has
        `GRPC_EXPERIMENTS`, or if the installed grpcio is not 1.85, the only tested release.

    Raises:
        RuntimeError: grpc is already imported.

    >>> import subprocess, sys
    >>> program = "from tensor_reshape.client import use_fast_polling; use_fast_polling(); import grpc"
    >>> subprocess.run([sys.executable, "-c", program]).returncode
    0
    """
    if "grpc" in sys.modules:
        raise RuntimeError("grpc is already imported: call use_fast_polling before other imports")
    if VARIABLE in os.environ or find_release() not in _RELEASES:  # noqa: TID251 - the user's own setting wins
        return False
    os.environ[VARIABLE] = _EXPERIMENTS  # noqa: TID251 - the core has no other interface for it
    try:
        import grpc  # noqa: F401, PLC0415 - the core reads the variable during this import
    finally:
        os.environ.pop(VARIABLE, None)  # noqa: TID251 - see above; another thread may have removed it
    return True
