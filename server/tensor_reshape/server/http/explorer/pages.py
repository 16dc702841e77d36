"""The routes of the explorer: the page, its files, and the answers that it asks for.

Laws: nothing is loaded from elsewhere, and the content policy allows nothing else: no script, style or frame that these
files do not hold. An answer is never kept by a cache; a file is kept, and asked for again.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from hashlib import sha256
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tensor_reshape.server.http.explorer.answers import answer_typed
from tensor_reshape.server.http.explorer.typed_questions import TypedQuestion
from tensor_reshape.wire.methods import INFER_SHAPE

Asker = Callable[[str, bytes, Mapping[str, str]], Awaitable[bytes]]
"""Answers a method's request, with the headers that came with it, or raises the refusal."""

INFER_PATH = "/v1/infer_shape"

_PAGE = "index.html"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # a link holds the question
    "Cross-Origin-Resource-Policy": "same-origin",
}


def build_routes(asker: Asker) -> list[Route]:
    """Returns the routes of the page and of its answers, which come from `asker`."""
    folder = files(__package__) / "static"
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(tuple(_TYPES)))
    routes = [
        Route("/" if name == _PAGE else f"/explore/{name}", _build_file(name, (folder / name).read_bytes()))
        for name in names
    ]
    return [*routes, Route("/explore/answer", partial(_answer, asker))]


def _build_file(name: str, content: bytes) -> Callable[[Request], Response]:
    tag = f'"{sha256(content).hexdigest()[:16]}"'
    headers = {**_HEADERS, "Cache-Control": "no-cache", "ETag": tag}

    def send(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=_TYPES[f".{name.rpartition('.')[2]}"])

    return send


async def _answer(asker: Asker, request: Request) -> Response:
    url = f"{str(request.base_url).removesuffix('/')}{INFER_PATH}"
    typed = TypedQuestion.of(request.query_params)
    record = await answer_typed(typed, lambda raw: asker(INFER_SHAPE.path, raw, request.headers), url)
    return JSONResponse(record, headers={**_HEADERS, "Cache-Control": "no-store"})
