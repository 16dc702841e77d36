"""The page of the shape explorer, the drawings that it shows, and the OpenAPI description.

- The page loads nothing from other servers, and its content security policy forbids such loads.
- A drawing is a call of the method InferShape, whose permissions, metrics and limits apply.
"""

from collections.abc import Callable
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType

from tensor_reshape.explorer.drawings import draw_question
from tensor_reshape.server.http.asgi import Request
from tensor_reshape.server.http.calls import JSON_MEMORY_FACTOR, Exchange
from tensor_reshape.server.http.replies import JSON_TYPE, Reply, write_status
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
        self.files = {
            "/" if file.name == _PAGE else f"/explore/{file.name}": _read_file(file)
            for file in folder.iterdir()
            if file.name.endswith(tuple(_TYPES))
        }

    def prepare_drawing(self, request: Request) -> Exchange:
        """Returns the call of a request for a drawing, whose body is the JSON of an InferShapeRequest.

        Raises:
            HttpError: the body is compressed.
        """
        check_encoding(request)
        return Exchange(
            INFER_SHAPE.path,
            write_status,
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


def _read_file(file: Traversable) -> Callable[[Request], Reply]:
    """Returns the function that sends a file. It has no validator, so browsers load it at each visit."""
    headers = {"content-security-policy": _POLICY, "cache-control": "no-cache"}
    content_type = _TYPES[f".{file.name.rpartition('.')[2]}"]
    reply = Reply(HTTPStatus.OK, (file.read_bytes(),), content_type, MappingProxyType(headers))
    return lambda _: reply
