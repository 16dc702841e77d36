"""The page of the shape explorer, the drawings that it shows, and the OpenAPI description.

- The page loads nothing from other servers, and its content security policy forbids such loads.
- Browsers may cache the files of the page. Before each use of a cached file, the browser checks with the server whether
  the file has changed.
- A drawing is a call of the method InferShape, whose permissions, metrics and limits apply.
"""

from functools import partial
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from types import MappingProxyType

from tensor_reshape.explorer.pictures import draw_question
from tensor_reshape.server.http.asgi import Request
from tensor_reshape.server.http.calls import JSON_MEMORY_FACTOR, Exchange
from tensor_reshape.server.http.replies import JSON_FORM, JSON_TYPE, Reply
from tensor_reshape.server.http.transcoder import MAX_QUESTION_BYTES, check_encoding, decode_json
from tensor_reshape.server.service.method_tables import IsOver
from tensor_reshape.server.service.methods import ReshapeService
from tensor_reshape.server.service.works import Work
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.inference import read_question
from tensor_reshape.wire.json_messages import parse_json, read_message
from tensor_reshape.wire.methods import INFER_SHAPE

DRAWING_PATH, OPENAPI_PATH = "/explore/drawing", "/openapi.json"

_PAGE = "index.html"
_TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Pages:
    """The files of the page, and its drawings."""

    def __init__(self, service: ReshapeService) -> None:
        """Reads the files. `service` answers the questions that are drawn."""
        self._service = service
        folder = files("tensor_reshape.explorer") / "static"
        named = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith(tuple(_TYPES))}
        self.files = {
            "/" if name == _PAGE else f"/explore/{name}": partial(_send_file, _describe_file(name, content))
            for name, content in named.items()
        }

    def prepare_drawing(self, request: Request) -> Exchange:
        """Returns the call of a request for a drawing, whose body is the JSON of an InferShapeRequest.

        Raises:
            HttpError: the body is compressed.
        """
        check_encoding(request)
        return Exchange(
            INFER_SHAPE.path,
            JSON_FORM,
            self._draw,
            lambda _: None,
            MAX_QUESTION_BYTES,
            JSON_MEMORY_FACTOR,
            work=Work.QUERIES,
        )

    def _draw(self, body: bytes, is_over: IsOver) -> Reply:
        question = read_question(read_message(reshape_pb2.InferShapeRequest, parse_json(decode_json(body))))
        drawing = draw_question(
            question, lambda asked: self._service.infer(lambda: asked, lambda answer: answer, is_over)
        )
        return Reply(HTTPStatus.OK, (drawing.encode(),), _TYPES[".svg"])


def read_openapi() -> Reply:
    """Returns the OpenAPI description, which the build has generated."""
    return Reply(HTTPStatus.OK, ((files(__package__) / "openapi.json").read_bytes(),), JSON_TYPE)


def _describe_file(name: str, content: bytes) -> Reply:
    tag = f'"{sha256(content).hexdigest()[:16]}"'
    headers = {"content-security-policy": _POLICY, "cache-control": "no-cache", "etag": tag}
    return Reply(HTTPStatus.OK, (content,), _TYPES[f".{name.rpartition('.')[2]}"], MappingProxyType(headers))


def _send_file(file: Reply, request: Request) -> Reply:
    if request.find(b"if-none-match") == file.headers["etag"]:
        return Reply(HTTPStatus.NOT_MODIFIED, (), "", file.headers)
    return file
