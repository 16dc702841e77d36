"""The experiment of gRPC's core that a process may leave to make small calls faster.

By default, threads of the core read a client's connections and wake the thread that waits for an answer. Without the
experiment `event_engine_client`, the waiting thread reads the connection itself. This saves the client a quarter of its
time for a small call.

- The core reads `GRPC_EXPERIMENTS` once, when grpc is imported. Nothing here imports grpc before it is asked to.
- The variable is set only while grpc is imported, so that no child process inherits it; a server in particular.
- A release that was not tried is left as it is: if the core does not know a name, it logs an error in every process.
"""

import os
import sys

from tensor_reshape.runtime.experiments import VARIABLE, find_release

_EXPERIMENTS = "-event_engine_client"
# The releases that this was tried with, clients that are made and closed all the time while their server restarts
# included. There 1.82 crashed without the experiment (SIGSEGV in two runs of three), and did not with it; 1.85 did not
# in six runs.
_RELEASES = {(1, 85)}


def use_fast_polling() -> bool:
    """Imports grpc so that small calls of this process take less time; call it before anything imports grpc.

    The thread that waits for an answer then reads it from the connection, and no thread of grpcio has to wake it. This
    holds for the whole process, other gRPC clients included, but not for its child processes.

    Returns:
        Whether grpc was imported in that way. False if the environment has `GRPC_EXPERIMENTS`, which then decides, or
        if the installed grpcio is not 1.85: no other release was tried.

    Raises:
        RuntimeError: grpc is imported already, and keeps what it has read.

    >>> import subprocess, sys
    >>> program = "from tensor_reshape.client import use_fast_polling; use_fast_polling(); import grpc"
    >>> subprocess.run([sys.executable, "-c", program]).returncode
    0
    """
    if "grpc" in sys.modules:
        message = "use_fast_polling comes too late: grpc is imported already. Call it before other imports."
        raise RuntimeError(message)
    if VARIABLE in os.environ or find_release() not in _RELEASES:  # noqa: TID251 - set by whoever runs this process
        return False
    os.environ[VARIABLE] = _EXPERIMENTS  # noqa: TID251 - the core can be told in no other way
    try:
        import grpc  # noqa: F401, PLC0415 - this is when it reads the variable
    finally:
        os.environ.pop(VARIABLE, None)  # noqa: TID251 - as above; other threads may have cleared the environment
    return True
