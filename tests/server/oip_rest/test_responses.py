"""Errors over REST."""

import json

from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.oip_rest.responses import build_error


def test_error_has_its_reason_in_the_text_and_in_a_header():
    response = build_error(401, Reason.UNAUTHENTICATED, "no token", {"x-request-id": "mine"})
    assert json.loads(bytes(response.body)) == {"error": "UNAUTHENTICATED: no token"}
    headers = {name: response.headers[name] for name in ("tensor-reshape-reason", "www-authenticate", "x-request-id")}
    assert headers == {"tensor-reshape-reason": "UNAUTHENTICATED", "www-authenticate": "Bearer", "x-request-id": "mine"}
