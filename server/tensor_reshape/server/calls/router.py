"""Where grpcio hands its calls to: those of some methods go another way than to the server's threads.

grpcio finds a pool of its own for a method in an attribute of the method's function. That is lost as soon as anything
wraps the function, as the interceptors of an instrumentation do; so the way is chosen here, by the method's name.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeAlias

Submit: TypeAlias = "Callable[..., Future[Any]]"
"""As `ThreadPoolExecutor.submit`."""


class CallRouter(ThreadPoolExecutor):
    """What grpcio takes for a pool of threads; it has none itself."""

    def __init__(self, threads: ThreadPoolExecutor, routes: Mapping[str, Submit]) -> None:
        """Hands the calls of a method to its route, if it has one, and all others to `threads`."""
        super().__init__(max_workers=1)  # grpcio asks for an executor; no thread is started, since none is asked for
        self._server_threads = threads
        # By the bytes of the name: so grpcio has it, and a name that is no text is looked up all the same.
        self._routes = {method.encode(): submit for method, submit in routes.items()}

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Has a call served; called on the thread that receives calls."""
        submit: Submit = self._routes.get(_find_method(args), self._server_threads.submit)
        return submit(function, *args, **kwargs)


def _find_method(args: tuple[Any, ...]) -> bytes:
    """Returns the name of the method, empty where this grpcio does not hand over its event in the known place."""
    event = args[1] if len(args) > 1 else None
    name = getattr(getattr(event, "call_details", None), "method", b"")
    return name if isinstance(name, bytes) else b""
