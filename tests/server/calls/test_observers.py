"""Observers that raise exceptions affect neither calls nor other observers."""

import pytest

from tensor_reshape.server.calls.call_info import CallInfo, Metadata
from tensor_reshape.server.calls.observers import begin_observers, choose_observers
from tensor_reshape.server.calls.results import EndedCall


class Recording:
    def __init__(self) -> None:
        self.records: list[object] = []

    def chooses(self, metadata: Metadata) -> bool:
        return not metadata

    def begin(self, info: CallInfo) -> None:
        self.records.append(info)

    def write(self, call: EndedCall) -> None:
        self.records.append(call)


class Broken(Recording):
    def chooses(self, metadata: Metadata) -> bool:
        raise ValueError(metadata)

    def begin(self, info: CallInfo) -> None:
        raise ValueError(info)


def test_chosen_call_is_recorded_although_another_observer_raises_exceptions(caplog: pytest.LogCaptureFixture):
    observer, broken = Recording(), Broken()
    assert choose_observers([broken, observer], ()) == [observer]
    call = EndedCall(CallInfo("/a.service/Method", ()), 0.0)
    begin_observers([broken, observer], call)
    call.info.leave()
    assert (observer.records, broken.records) == ([call.info, call], [call])
    assert [record.message for record in caplog.records] == ["bug", "bug"]


def test_call_with_other_metadata_has_no_observer():
    assert choose_observers([Recording()], [("name", "value")]) == []
