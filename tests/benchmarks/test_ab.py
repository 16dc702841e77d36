from contextlib import ExitStack

import pytest
from benchmarks.cells import Cell
from benchmarks.contestants import TRANSPORT
from benchmarks.peers import sdk
from benchmarks.rounds import Entry, Sample
from benchmarks.sessions import Job
from benchmarks.suites.ab import build_tables

from tensor_reshape.client import Client


def build_entry(*seconds: float) -> Entry:
    samples = {number: Sample(1, one, one, one, 0) for number, one in enumerate(seconds)}
    return Entry(TRANSPORT[0], Cell(1024), samples=samples)


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        ([1.1] * 7 + [0.9], "slower"),
        ([0.9] * 7 + [1.1], "faster"),
        ([0.9] * 4 + [1.1] * 4, "no difference"),
        ([1.1] * 7, "too few rounds"),
    ],
)
def test_a_verdict_takes_quartiles_on_one_side_of_1_and_eight_rounds(seconds: list[float], verdict: str):
    (table,) = build_tables([[build_entry(*[1.0] * len(seconds)), build_entry(*seconds)]])

    ((*_, told),) = table.rows
    assert told == verdict


def test_a_work_that_fails_is_told_by_its_error():
    failed = Entry(TRANSPORT[0], Cell(1024), "failed: AttributeError")

    (table,) = build_tables([[build_entry(1.0), failed]])

    ((_, _, base, candidate, ratio, *_),) = table.rows
    assert (base, candidate, ratio) == ("1,000,000", "failed: AttributeError", "-")


def test_an_older_checkout_is_asked_for_nothing_that_it_may_not_know(monkeypatch: pytest.MonkeyPatch):
    class OlderClient(Client):
        def __init__(self, target: str, *, timeout: float) -> None:
            super().__init__(target, timeout=timeout)

    monkeypatch.setattr(sdk, "Client", OlderClient)
    with ExitStack() as stack:
        assert sdk.open_session("auto", Job("127.0.0.1:1", Cell(1024)), stack)
