"""Request ids: what names a call in the logs of both sides, and how it travels.

A caller sends one in the metadata, or the server makes one; the server returns it in the trailing metadata. It goes
into logs and error messages of either side, so what is no id is none, whoever sent it.
"""

import re
from collections.abc import Iterable

REQUEST_ID_KEY = "x-request-id"
"""Where it travels in the metadata, either way: the name that proxies and meshes give it."""

MAX_REQUEST_ID_CHARACTERS = 128

_REQUEST_ID = re.compile(f"[!-~]{{1,{MAX_REQUEST_ID_CHARACTERS}}}")  # visible ASCII: without spaces or line ends


def is_request_id(value: object) -> bool:
    """Whether a value may name a call."""
    return isinstance(value, str) and _REQUEST_ID.fullmatch(value) is not None


def find_request_id(metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
    """Returns the request id in the metadata of a call; None where they have none."""
    sent = next((value for key, value in metadata if key == REQUEST_ID_KEY), None)
    return str(sent) if is_request_id(sent) else None
