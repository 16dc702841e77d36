"""Facts about a call that are known before its message arrives."""

from functools import partial

import pytest

from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.wire.status import REQUEST_ID_KEY

METHOD = "/a.service/Method"


def test_new_call_info_has_no_client_identity():
    info = CallInfo(METHOD, ())
    assert (info.peer, info.identity, info.trailing, dict(info.read_tls())) == ("", "", (), {})


def test_find_values_returns_all_metadata_values_in_order():
    info = CallInfo(METHOD, (("a", "1"), ("b-bin", b"\xff"), ("a", "2")))
    assert (info.find_values("a"), info.find_values("b-bin"), info.find_values("c")) == (["1", "2"], [b"\xff"], [])


@pytest.mark.parametrize("sent", ["7", "a-1_B.c:d/e=f+g", "x" * 128])
def test_valid_client_request_id_is_kept(sent: str):
    assert CallInfo(METHOD, ((REQUEST_ID_KEY, sent),)).request_id == sent


@pytest.mark.parametrize("sent", ["", "x" * 129, "two words", "a\tb", "a\x1b[31m", "caf\u00e9"])
def test_invalid_client_request_id_is_replaced(sent: str):
    info = CallInfo(METHOD, ((REQUEST_ID_KEY, sent),))
    assert (len(info.request_id), info.request_id.isalnum(), info.request_id != sent) == (16, True, True)


def test_generated_request_id_is_unique_and_stable():
    info = CallInfo(METHOD, ())
    assert info.request_id == info.request_id != CallInfo(METHOD, ()).request_id


def test_leaving_a_call_notifies_each_admission_check_once():
    info, heard = CallInfo(METHOD, ()), list[str]()
    info.at_end += [partial(heard.append, "first"), partial(heard.append, "last")]
    info.leave()
    info.leave()
    assert heard == ["last", "first"]


def test_exception_in_one_admission_check_does_not_skip_others():
    info, heard = CallInfo(METHOD, ()), list[str]()

    def fail() -> None:
        raise ValueError(METHOD)

    info.at_end += [partial(heard.append, "first"), fail]
    with pytest.raises(ValueError, match=METHOD):
        info.leave()
    assert heard == ["first"]
