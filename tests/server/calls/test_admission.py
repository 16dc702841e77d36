"""The budget by itself: who may receive, who waits, and who is refused."""

import pytest

from admission_calls import MESSAGE, WORK, Caller, fill, make
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.calls.budgets import MAX_READS
from tensor_reshape.server.calls.lifecycle import ASK_BELOW_UNSENT, State
from tensor_reshape.server.calls.places import CROWDED_CALLS
from tensor_reshape.server.config import COST_FACTOR


def test_a_read_begins_at_once_where_there_is_room():
    admission = make(1)
    assert (Caller(admission).read().started, admission.used_bytes) == (1, MESSAGE)


def test_a_read_without_room_waits_until_another_call_leaves():
    admission = make(1)
    first, second = Caller(admission, "a").read(), Caller(admission, "b").read()
    assert (second.started, second.waits) == (0, True)
    first.leave()
    assert (second.started, second.waits) == (1, False)


def test_a_small_message_is_answered_within_the_room_in_which_it_came():
    admission = make(1)
    first, second = Caller(admission, "a").read(), Caller(admission, "b").read()
    first.arrive(10).end(8)
    assert (second.started, admission.used_bytes) == (0, COST_FACTOR * 10)
    first.leave()
    assert (second.started, admission.used_bytes) == (1, MESSAGE)


def test_answers_that_nobody_takes_never_exceed_the_room():
    admission = make(10)
    streams = [Caller(admission, f"stream {number % 5}").read() for number in range(100)]
    for _ in range(5):
        for stream in streams:
            if stream.life.state is State.RECEIVING:
                stream.arrive(MESSAGE // 7)
                assert admission.fits(stream.life, MESSAGE // 7) == (stream.life.unsent < 2)
                stream.answer(MESSAGE // 7) if admission.fits(stream.life, MESSAGE // 7) else stream.work()
    assert admission.used_bytes <= 10 * MESSAGE


def test_what_arrives_never_keeps_what_has_arrived_from_being_answered():
    admission = make(4)
    arrived = Caller(admission, "arrived").read()
    silent = fill(admission, 9)
    arrived.arrive()
    assert (sum(caller.started for caller in silent), arrived.work().works) == (3, 1)
    assert sum(caller.started for caller in silent) == 4  # its message is accounted to its answer now


def test_an_answer_without_room_waits_and_keeps_its_message():
    admission = make(4)
    first, second = Caller(admission, "a").read().arrive().work(), Caller(admission, "b").read()
    second.arrive(MESSAGE - 1).work()
    assert (first.works, second.works, admission.used_bytes) == (1, 0, WORK + MESSAGE - 1)
    first.leave()
    assert (second.works, admission.used_bytes) == (1, WORK)


def test_what_an_answer_does_not_need_is_free_when_it_is_known():
    admission = make(4)
    Caller(admission).read().arrive(5).work().take_up().end(10)
    assert admission.used_bytes == COST_FACTOR * 10


def test_a_silent_connection_receives_only_so_many_messages_at_once():
    admission = make(100)
    silent = [Caller(admission, "silent").read() for _ in range(64)]
    assert sum(caller.started for caller in silent) == MAX_READS
    assert Caller(admission, "polite").read().started == 1


def test_many_silent_connections_leave_room_for_those_that_have_nothing():
    admission = make(24)
    silent = [Caller(admission, f"silent {number % 16}").read() for number in range(16 * 40)]
    assert sum(caller.started for caller in silent) == 18
    assert [Caller(admission, f"polite {number}").read().started for number in range(6)] == [1] * 6


def test_a_call_leaves_once_however_often_it_says_so():
    admission = make(4)
    first, second = Caller(admission).read(), Caller(admission).read()
    first.leave()
    first.leave()
    assert (admission.used_bytes, admission.is_idle) == (MESSAGE, False)
    second.leave()
    assert (admission.used_bytes, admission.is_idle) == (0, True)


def test_a_call_that_leaves_while_it_waits_never_begins():
    admission = make(1)
    first, second, third = (Caller(admission, peer).read() for peer in "abc")
    second.leave()
    first.leave()
    assert (second.started, third.started, admission.used_bytes) == (0, 1, MESSAGE)


def test_a_call_that_ends_while_it_waits_to_receive_takes_no_room():
    admission = make(1)
    first, second, third = (Caller(admission, peer).read() for peer in "abc")
    second.end()
    first.leave()
    assert (second.started, third.started, admission.used_bytes) == (0, 1, MESSAGE)


def test_a_call_that_ends_while_it_waits_to_be_answered_takes_no_room():
    admission = make(4)
    first, second = (Caller(admission, peer).read().arrive().work() for peer in "ab")
    second.end()
    first.leave()
    assert (second.works, admission.used_bytes) == (0, MESSAGE)
    second.leave()
    assert admission.used_bytes == 0


def test_what_is_held_and_what_is_kept_are_accounted_beside_what_is_read():
    admission = make(8)
    caller = Caller(admission).read().arrive(10).answer(10)
    assert admission.used_bytes == MESSAGE + COST_FACTOR * 10
    admission.sent(caller.life, 10)
    assert admission.used_bytes == MESSAGE
    admission.reserve(caller.life, 500)
    assert admission.used_bytes == MESSAGE + 500
    caller.arrive(20).answer(20)
    assert admission.used_bytes == MESSAGE + 500  # its answers are within what it holds
    admission.reserve(caller.life, 0)
    assert admission.used_bytes == MESSAGE + COST_FACTOR * 20
    caller.leave()
    assert admission.used_bytes == 0


def test_what_is_no_longer_held_makes_room():
    admission = make(4)
    holder, waiting = Caller(admission, "holder"), Caller(admission, "waiting").read()
    admission.reserve(holder.life, WORK)
    assert waiting.arrive().work().works == 0
    admission.reserve(holder.life, 0)
    assert waiting.works == 1


def test_nothing_is_accounted_to_a_call_that_is_over():
    admission = make(2)
    caller = Caller(admission).read()
    caller.leave()
    caller.read().arrive().work().take_up().answer(10).end(10)
    admission.reserve(caller.life, 10)
    assert (caller.started, caller.works, admission.used_bytes, admission.is_idle) == (1, 0, 0, True)


def test_the_memory_of_a_call_that_is_over_comes_back_when_the_thread_that_works_on_it_is_done():
    admission = make(4)
    caller = Caller(admission).read().arrive().work().take_up()
    caller.leave()
    assert (admission.used_bytes, admission.is_idle) == (WORK, False)
    caller.end(10)
    assert (admission.used_bytes, admission.is_idle) == (0, True)


def test_a_stream_is_told_that_there_are_answers_to_send_in_the_order_in_which_they_were_made():
    stream = Caller(make(8)).read().arrive(3).answer(1, 2).arrive(4).answer(4)
    assert (stream.sends, [len(answer) for answer in stream.life.outbox]) == (2, [1, 2, 4])


def test_a_stream_with_many_answers_on_their_way_is_not_read_from_until_some_have_gone():
    admission = make(8)
    stream = Caller(admission).read()
    for _ in range(ASK_BELOW_UNSENT):
        stream.arrive(1).answer(1)
    assert (stream.life.state, stream.started) == (State.SENDING, ASK_BELOW_UNSENT)
    admission.sent(stream.life, 1)
    assert (stream.life.state, stream.started) == (State.RECEIVING, ASK_BELOW_UNSENT + 1)


def test_what_does_not_fit_is_not_held():
    admission = make(4)
    other, caller = Caller(admission, "other"), Caller(admission)
    admission.reserve(other.life, 10)
    admission.reserve(caller.life, 100)
    with pytest.raises(LimitError) as caught:
        admission.reserve(caller.life, 4 * MESSAGE)
    assert (caught.value.reason, admission.used_bytes) == (Reason.SERVER_BUSY, 110)


def test_a_lone_call_may_hold_the_most_that_one_can():
    admission = make(3)
    caller = Caller(admission)
    admission.reserve(caller.life, 4 * MESSAGE)
    assert (caller.read().started, admission.used_bytes) == (1, 5 * MESSAGE)


def test_what_a_lone_call_holds_already_does_not_keep_it_from_holding_the_most():
    admission = make(3)
    caller = Caller(admission)
    admission.reserve(caller.life, 1)
    admission.reserve(caller.life, 4 * MESSAGE)
    assert admission.used_bytes == 4 * MESSAGE


def test_a_call_above_the_number_of_calls_is_refused():
    admission = make(100, max_calls=2)
    first = Caller(admission)
    Caller(admission)
    with pytest.raises(LimitError) as caught:
        Caller(admission)
    assert caught.value.reason == Reason.SERVER_BUSY
    first.leave()
    Caller(admission)


def test_when_most_places_are_taken_a_connection_has_only_a_few():
    admission = make(100, max_calls=100)
    for number in range(75):
        Caller(admission, f"hostile {number % 3}")
    with pytest.raises(LimitError) as caught:
        Caller(admission, "hostile 0")
    assert caught.value.reason == Reason.SERVER_BUSY
    polite = [Caller(admission, "polite") for _ in range(CROWDED_CALLS)]
    with pytest.raises(LimitError):
        Caller(admission, "polite")
    polite[0].leave()
    Caller(admission, "polite")


def test_a_call_whose_connection_is_known_later_counts_for_it():
    admission = make(100, max_calls=100)
    for _ in range(75):
        Caller(admission, "hostile")
    late = Caller(admission, "")
    with pytest.raises(LimitError):
        admission.identify(late.life, "hostile")
    late.leave()
    assert Caller(admission, "polite").read().started == 1


class Broken(Caller):
    """A call that cannot begin to receive."""

    def start_read(self) -> None:
        message = "a bug"
        raise RuntimeError(message)


def test_a_call_that_cannot_begin_keeps_no_other_from_it():
    admission = make(1)
    running = Caller(admission, "a").read()

    broken = Broken(admission, "b").read()
    waiting = Caller(admission, "c").read()
    running.leave()
    broken.leave()
    assert waiting.started == 1


def test_what_waits_for_an_idle_connection_is_done_when_its_calls_have_left():
    admission, done = make(8), list[str]()

    def note() -> bool:
        done.append("done")
        return True

    running = Caller(admission).read()
    admission.do_if_idle("a", note)
    later, other = Caller(admission).read(), Caller(admission, "b").read()
    assert (done, later.started, other.started) == ([], 0, 1)
    running.leave()
    admission.do_if_idle("a", note)
    assert (done, later.started) == (["done"], 1)


def test_a_call_under_way_goes_on_while_something_waits_for_an_idle_connection():
    admission = make(8)
    running = Caller(admission).read()
    admission.do_if_idle("a", lambda: True)
    running.arrive(1).answer(1)
    assert running.started == 2


def test_calls_that_waited_in_vain_are_resumed():
    admission = make(8)
    Caller(admission).read()
    admission.do_if_idle("a", lambda: True)
    waiting, left = Caller(admission).read(), Caller(admission).read()
    left.leave()
    admission.resume()
    assert (waiting.started, left.started, Caller(admission).read().started) == (1, 0, 1)


def test_what_could_not_be_done_is_tried_again():
    admission = make(8)
    admission.do_if_idle("a", lambda: False)
    waiting = Caller(admission).read()
    assert waiting.started == 0
    admission.do_if_idle("a", lambda: True)
    assert waiting.started == 1


def test_a_call_that_has_left_is_not_resumed_and_keeps_no_connection_busy():
    admission, done = make(8), list[str]()

    def note() -> bool:
        done.append("done")
        return True

    running, gone = Caller(admission).read(), Caller(admission)
    admission.do_if_idle("a", note)
    gone.leave()
    gone.read()
    admission.do_if_idle("a", note)
    assert done == []
    running.leave()
    admission.do_if_idle("a", note)
    assert done == ["done"]
