"""The routes of the explorer: the page, its files, and the answers that it asks for.

Laws: nothing is loaded from elsewhere, and the content policy allows nothing else: no script, style or frame that these
files do not hold. A file is kept by browsers, and asked for again.
"""

from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tensor_reshape.server.http.apps import MethodApp
from tensor_reshape.server.http.askers import Asker
from tensor_reshape.server.http.explorer.methods import build_explorer_method
from tensor_reshape.server.service.methods import ReshapeService

_PAGE = "index.html"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def build_routes(ask: Asker, service: ReshapeService, listen: Sequence[str]) -> list[Route]:
    """Returns the routes of the page and of its answers.

    Args:
        ask: has a method answer a request.
        service: what answers.
        listen: the addresses of gRPC, with their real ports: for the code that the page shows.
    """
    folder = files("tensor_reshape.explorer") / "static"
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(tuple(_TYPES)))
    routes = [
        Route("/" if name == _PAGE else f"/explore/{name}", _build_file(name, (folder / name).read_bytes()))
        for name in names
    ]
    answers = MethodApp(build_explorer_method(service, listen), ask)
    return [*routes, Route("/explore/answer", answers, methods=["GET"])]


def _build_file(name: str, content: bytes) -> Callable[[Request], Awaitable[Response]]:
    tag = f'"{sha256(content).hexdigest()[:16]}"'
    headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache", "ETag": tag}

    async def send(request: Request) -> Response:  # a plain function would have a thread for itself
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=_TYPES[f".{name.rpartition('.')[2]}"])

    return send
