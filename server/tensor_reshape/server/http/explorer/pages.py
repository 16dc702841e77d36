"""The HTTP routes of the shape explorer, which serve its page, its files, and the results of queries.

- The explorer page loads nothing from other servers, and its content security policy forbids such loads.
- Browsers may cache the files of the explorer. Before each use of a cached file, the browser checks with the server
  whether the file has changed.
"""

from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tensor_reshape.server.http.apps import MethodApp, ServeCall
from tensor_reshape.server.http.explorer.methods import build_explorer_method
from tensor_reshape.server.service.methods import ReshapeService

_PAGE = "index.html"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def build_routes(serve_call: ServeCall, service: ReshapeService, listen: Sequence[str]) -> list[Route]:
    """Returns the routes of the explorer page and of its queries.

    Args:
        serve_call: function that runs a method on the message of a request.
        service: the service that computes the results.
        listen: the gRPC addresses with their bound ports, which the example code on the page contains.
    """
    folder = files("tensor_reshape.explorer") / "static"
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(tuple(_TYPES)))
    routes = [
        Route("/" if name == _PAGE else f"/explore/{name}", _build_file(name, (folder / name).read_bytes()))
        for name in names
    ]
    queries = MethodApp(build_explorer_method(service, listen), serve_call)
    return [*routes, Route("/explore/answer", queries, methods=["GET"])]


def _build_file(name: str, content: bytes) -> Callable[[Request], Awaitable[Response]]:
    tag = f'"{sha256(content).hexdigest()[:16]}"'
    headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache", "ETag": tag}

    # The handler is async, because starlette would run a function that is not async on another thread.
    async def send(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=_TYPES[f".{name.rpartition('.')[2]}"])

    return send
