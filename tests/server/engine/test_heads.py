"""What is known of a call at its beginning."""

import pytest

from tensor_reshape.server.engine.heads import CallHead
from tensor_reshape.wire.request_ids import REQUEST_ID_KEY

METHOD = "/a.service/Method"


def test_new_head_has_no_client():
    head = CallHead(METHOD, ())
    assert (head.peer, head.identity, head.trailing, dict(head.read_tls())) == ("", "", (), {})


def test_name_caller_sets_peer_and_tls_properties():
    head = CallHead(METHOD, ())
    head.name_caller("ipv4:1.2.3.4:5", lambda: {"x509_common_name": [b"somebody"]})
    assert (head.peer, head.read_tls()["x509_common_name"]) == ("ipv4:1.2.3.4:5", [b"somebody"])


def test_find_values_returns_all_values_in_order():
    head = CallHead(METHOD, (("a", "1"), ("b-bin", b"\xff"), ("a", "2")))
    assert (head.find_values("a"), head.find_values("b-bin"), head.find_values("c")) == (["1", "2"], [b"\xff"], [])


@pytest.mark.parametrize("sent", ["7", "a-1_B.c:d/e=f+g", "x" * 128])
def test_valid_request_id_of_the_client_is_kept(sent: str):
    assert CallHead(METHOD, ((REQUEST_ID_KEY, sent),)).request_id == sent


@pytest.mark.parametrize("sent", ["", "x" * 129, "two words", "a\tb", "a\x1b[31m", "caf\u00e9"])
def test_unusable_request_id_is_replaced(sent: str):
    head = CallHead(METHOD, ((REQUEST_ID_KEY, sent),))
    assert (len(head.request_id), head.request_id.isalnum(), head.request_id != sent) == (16, True, True)


def test_generated_request_id_is_unique_and_stable():
    head = CallHead(METHOD, ())
    assert head.request_id == head.request_id != CallHead(METHOD, ()).request_id


def test_leave_notifies_each_gate_once():
    head, heard = CallHead(METHOD, ()), list[CallHead]()
    head.leavers.append(heard.append)
    head.leave()
    head.leave()
    assert heard == [head]


def test_bug_in_one_gate_does_not_stop_other_leaves():
    head, heard = CallHead(METHOD, ()), list[CallHead]()

    def fail(head: CallHead) -> None:
        raise ValueError(head)

    head.leavers += [heard.append, fail]
    with pytest.raises(ValueError, match="CallHead"):
        head.leave()
    assert heard == [head]
