"""The optional listeners for health checks and HTTP."""

import sys

import pytest

from tensor_reshape.server.config import ConfigError
from tensor_reshape.server.extra_listeners import import_gateway


def test_missing_http_extra_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tensor_reshape.server.http.gateways", None)
    with pytest.raises(ConfigError, match=r"--http-listen needs the extra http, because .* is missing: pip install"):
        import_gateway()
