"""Request ids. A request id identifies a call in the logs of the client and the server.

The client sends the request id in the metadata of a call. If the client sends no request id, the server creates one.
The server returns the request id in the trailing metadata. Request ids appear in logs and error messages, so both sides
ignore a value that is not a valid id.
"""

import re
from collections.abc import Iterable

REQUEST_ID_KEY = "x-request-id"
"""The metadata key of the id in both directions. Proxies and service meshes use the same key."""

MAX_REQUEST_ID_CHARACTERS = 128

# A request id has only visible ASCII characters, without spaces and line breaks.
_REQUEST_ID = re.compile(f"[!-~]{{1,{MAX_REQUEST_ID_CHARACTERS}}}")


def is_request_id(value: object) -> bool:
    """Whether a text is a valid request id."""
    return isinstance(value, str) and _REQUEST_ID.fullmatch(value) is not None


def find_request_id(metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
    """Returns the request id in the metadata of a call; None if the metadata has no valid id."""
    sent = next((value for key, value in metadata if key == REQUEST_ID_KEY), None)
    return str(sent) if is_request_id(sent) else None
