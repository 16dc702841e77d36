"""The OpenAPI 3.1 description of the HTTP port, which the build of the package generates (see `protos/openapi.py`)."""

from functools import cache
from importlib.resources import files

OPENAPI_PATH, HEALTH_PATH = "/openapi.json", "/healthz"


@cache
def describe() -> bytes:
    """Returns the OpenAPI document as JSON."""
    return files(__package__).joinpath("openapi.json").read_bytes()
