"""Which of its experiments gRPC's core takes part in, where this package loads it.

By default threads of the core read a client's connections, and wake the thread that waits for an answer. Without the
experiment `event_engine_client` whoever waits reads by itself, which saves the client a quarter of its time for a small
call.

Laws:

- The core reads `GRPC_EXPERIMENTS` once, when grpc is imported: nothing here can change what is loaded already.
- What the environment says is left alone, and so is a release that this was not tried with: a name that the core does
  not know is a line in the log of everybody who uses this package.
- The variable is there only while grpc is imported: no child of this process inherits what is meant for this one, a
  server in particular.
"""

import os
import sys
from importlib import import_module

from tensor_reshape.runtime.experiments import VARIABLE, find_release

_EXPERIMENTS = "-event_engine_client"
# The releases that this was tried with, clients that are made and closed all the time while their server restarts
# included. There 1.82 crashed without the experiment (SIGSEGV in two runs of three), and did not with it; 1.85 did not
# in six runs.
_RELEASES = {(1, 85)}


def load_grpc() -> None:
    """Imports grpc, with the experiments of a client where nobody has decided on any."""
    if not _are_open():
        return  # grpc is loaded by whoever needs it
    os.environ[VARIABLE] = _EXPERIMENTS  # noqa: TID251 - the core can be told in no other way
    try:
        import_module("grpc")
    finally:
        del os.environ[VARIABLE]  # noqa: TID251 - as above


def _are_open() -> bool:
    """Whether it is still to be decided which experiments the core takes part in, and for this package to decide."""
    is_decided = "grpc" in sys.modules or VARIABLE in os.environ  # noqa: TID251 - set by whoever runs this process
    return not is_decided and find_release() in _RELEASES
