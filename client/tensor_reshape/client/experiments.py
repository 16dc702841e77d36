"""Which of its experiments gRPC's core takes part in, where this package was there before it.

By default threads of the core read a client's connections, and wake the thread that waits for an answer. Without the
experiment `event_engine_client` whoever waits reads by itself, which saves the client a quarter of its time for a small
call.

Laws:

- The core reads `GRPC_EXPERIMENTS` once, when grpc is imported: nothing here can change what is loaded already.
- What the environment says is left alone, and so is a release that this was not tried with: a name that the core does
  not know is a line in the log of everybody who uses this package.
- The variable is there only while grpc is imported: no child of this process inherits what is meant for this one, a
  server in particular, unless another thread starts it just then.
- Threads import at once, and tools look for modules that they do not import: to find grpc changes nothing here.
- Nothing here imports grpc: whoever needs it does, and it alone costs as much as all else of a process that is short.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from itertools import dropwhile
from types import ModuleType
from typing import TYPE_CHECKING

from tensor_reshape.runtime.experiments import VARIABLE, find_release

if TYPE_CHECKING:
    from importlib.abc import Loader  # which imports a lot

_EXPERIMENTS = "-event_engine_client"
# The releases that this was tried with, clients that are made and closed all the time while their server restarts
# included. There 1.82 crashed without the experiment (SIGSEGV in two runs of three), and did not with it; 1.85 did not
# in six runs.
_RELEASES = {(1, 85)}


def await_grpc() -> None:
    """Has grpc imported, when somebody does, with the experiments of a client where nobody has decided on any."""
    if "grpc" not in sys.modules and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds grpc as the interpreter would; it says nothing of any other module, nor of grpc once that is there.

    It stays: whoever takes a finder away makes another thread that looks for a module just then miss the next finder.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "grpc" or path is not None or target is not None:
            return None
        spec = self._ask_the_others(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _ClientLoader(spec.loader)  # type: ignore[assignment] # one in all but its base
        return spec

    def _ask_the_others(self, fullname: str) -> ModuleSpec | None:
        # Those after this one alone: of two such finders, each would otherwise ask the other for ever.
        _, *later = dropwhile(lambda finder: finder is not self, [*sys.meta_path])
        found = (finder.find_spec(fullname, None) for finder in later if hasattr(finder, "find_spec"))
        return next((spec for spec in found if spec is not None), None)


class _ClientLoader:
    """Loads grpc as its own loader does, with the variable set meanwhile."""

    def __init__(self, loader: "Loader") -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> object:
        """What else a loader is asked for, as where its file is."""
        return getattr(object.__getattribute__(self, "_loader"), name)  # which a copy in the making has not

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader  # from here on all is as if nobody had been in between
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        if not _are_open():
            self._loader.exec_module(module)
            return
        os.environ[VARIABLE] = _EXPERIMENTS  # noqa: TID251 - the core can be told in no other way
        try:
            self._loader.exec_module(module)
        finally:
            os.environ.pop(VARIABLE, None)  # noqa: TID251 - as above; whoever clears the environment may come first


def _are_open() -> bool:
    """Whether it is still to be decided which experiments the core takes part in, and for this package to decide."""
    return VARIABLE not in os.environ and find_release() in _RELEASES  # noqa: TID251 - set by whoever runs this process
