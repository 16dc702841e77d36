"""What gRPC's core calls experiments: switches between two of its own ways to do a thing."""

import mmap
from importlib.util import find_spec
from pathlib import Path

_LISTENER = "event_engine_listener"


def choose_experiments() -> str:
    """Returns the value of GRPC_EXPERIMENTS that serves best with the installed grpcio; read before gRPC begins.

    Without its event engine, connections are read by the thread that serves them, which saves a switch of threads for
    each message. The core complains about a name that it does not know, so one is chosen only where the library has it.
    """
    spec = find_spec("grpc")  # not its parts: to find one imports it
    if spec is None or spec.origin is None:
        return ""
    libraries = Path(spec.origin).parent.glob("_cython/cygrpc*.so")
    return f"-{_LISTENER}" if any(_contains(library, _LISTENER.encode()) for library in libraries) else ""


def _contains(library: Path, name: bytes) -> bool:
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(name) >= 0
