"""The explorer's responses as a method, with a query as input and JSON as output."""

import pytest

from explorations import LISTEN, SERVICE
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.http.explorer.methods import build_explorer_method
from tensor_reshape.server.service.works import Work
from tensor_reshape.wire.methods import INFER_SHAPE

METHOD = build_explorer_method(SERVICE, LISTEN)
QUERY = b"data=2,3,4&shape=0,-1&special_zero=true"


def test_explorer_method_has_the_name_and_limits_of_infer_shape():
    assert METHOD.name == INFER_SHAPE.path
    assert METHOD.find_work(QUERY) is Work.QUERIES
    assert METHOD.respond_light(QUERY) is None


def test_explorer_query_is_aborted_when_its_client_disconnects():
    with pytest.raises(LimitError) as caught:
        METHOD.respond(b"data=N,7&shape=M,K&special_zero=true", lambda: True)
    assert caught.value.reason == Reason.STALLED
