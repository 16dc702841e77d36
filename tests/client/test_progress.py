"""The option `progress`, and progress bars on a terminal inside this process."""

import fcntl
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TextIO

import grpc
import numpy as np
import pytest

from both_clients import interrupt_call, open_client
from command_line import strip_styles
from in_process import StreamBehavior, run_stock
from server_processes import ServerProcess
from tensor_reshape.client import InvalidRequestError, Reason
from tensor_reshape.client.progress import draw_bar
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.wire.methods import STREAM_RESHAPE
from tensor_reshape.wire.reshapes import encode_accept, encode_chunk
from tensor_reshape.wire.status import encode_rejection
from tensor_reshape.wire.tensors import TensorView
from waits import WAIT_SECONDS

NOBODY = "127.0.0.1:1"  # nothing listens here, so a sent request would end with another error
SIX = np.arange(6, dtype=np.uint8)
BYTES = memoryview(SIX.tobytes())
ACCEPT = encode_accept(TensorView(DataType.U8, (6,), None, BYTES))
HIDDEN, SHOWN, ERASED = "\x1b[?25l", "\x1b[?25h", "\x1b[2K"
"""Control sequences that hide the cursor, show it again, and erase a line."""


class Terminal:
    """A terminal whose output a thread reads all the time, so no program waits for its reader."""

    def __init__(self) -> None:
        try:
            self._outer, inner = pty.openpty()
        except OSError:
            pytest.skip("needs a pseudo-terminal, which a folder with another Debian does not have")
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 100, 0, 0))
        self.stream: TextIO = os.fdopen(inner, "w")
        self._text, self._has_more = b"", threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def await_text(self, *parts: str) -> None:
        """Waits until the terminal shows the parts one after another."""
        pattern = re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
        with self._has_more:
            assert self._has_more.wait_for(lambda: pattern.search(self.text), WAIT_SECONDS)

    def close(self) -> None:
        self.stream.close()
        self._reader.join(WAIT_SECONDS)
        os.close(self._outer)

    @property
    def text(self) -> str:
        """The output. It is complete after the terminal was closed."""
        return strip_styles(self._text.decode())

    def _read(self) -> None:
        while True:
            try:
                more = os.read(self._outer, 65536)
            except OSError:  # EIO: the stream was closed
                return
            with self._has_more:
                self._text += more
                self._has_more.notify_all()


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")


@contextmanager
def open_terminal() -> Iterator[Terminal]:
    """Makes a terminal the standard error of this process during the block. A fixture cannot do this, because pytest
    replaces the standard error after it has made the fixtures."""
    terminal = Terminal()
    with pytest.MonkeyPatch.context() as patch, closing(terminal):
        patch.setattr(sys, "stderr", terminal.stream)
        yield terminal


def is_removed(text: str) -> bool:
    """Whether the bar is erased after its last text, and each hidden cursor is shown again, in any order."""
    return text.count(HIDDEN) == text.count(SHOWN) > 0 and ERASED in text.rpartition(" bytes")[2]


def call_stream(kind: str, behave: StreamBehavior) -> bytes:
    """Makes a stream call with a bar to a server with this behaviour."""
    with run_stock({}, streams={STREAM_RESHAPE.name: behave}) as address, open_client(kind, address) as client:
        return client.reshape(SIX, [6], transfer="stream", progress=True).tobytes()


def test_progress_bar_shows_the_arrived_bytes_and_is_removed(kind: str):
    def behave(requests: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        next(requests)
        yield ACCEPT
        terminal.await_text("0/6 bytes")
        yield encode_chunk(0, BYTES[:3])
        terminal.await_text("3/6 bytes")
        yield encode_chunk(3, BYTES[3:])

    with open_terminal() as terminal:
        assert call_stream(kind, behave) == SIX.tobytes()
    assert is_removed(terminal.text)


def test_progress_bar_is_removed_if_the_call_fails(kind: str):
    def behave(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        next(requests)
        yield ACCEPT
        terminal.await_text("0/6 bytes")
        status = encode_rejection(InvalidRequestError.of(Reason.CHUNK_OUT_OF_ORDER, "no", "offset"))
        context.set_trailing_metadata(status.trailing_metadata)
        context.abort(grpc.StatusCode[status.code], status.details)

    with open_terminal() as terminal, pytest.raises(InvalidRequestError):
        call_stream(kind, behave)
    assert is_removed(terminal.text)


def hold_stream(terminal: Terminal, act: Callable[[], None]) -> StreamBehavior:
    """Returns the behaviour of a server that acts when the bar is shown, and then holds the stream until it ends."""

    def behave(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        ended = threading.Event()
        context.add_callback(ended.set)
        next(requests)
        yield ACCEPT
        terminal.await_text("0/6 bytes")
        act()
        ended.wait(WAIT_SECONDS)

    return behave


# In another process, because after an interruption a thread of grpcio may fail, and pytest would report it.
def test_progress_bar_is_removed_after_ctrl_c():
    entered = threading.Event()
    call = "client.reshape(np.arange(6, dtype=np.uint8), [6], special_zero=False, transfer='stream', progress=True)"
    with open_terminal() as terminal:
        streams = {STREAM_RESHAPE.name: hold_stream(terminal, entered.set)}
        with run_stock({}, streams=streams) as address:
            assert interrupt_call(address, "auto", call, entered, stderr=terminal.stream) == "interrupted\n"
    assert is_removed(terminal.text)


def test_progress_bar_of_an_async_call_is_removed_after_ctrl_c():
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests may have inherited an ignored SIGINT
    try:
        with open_terminal() as terminal, pytest.raises(KeyboardInterrupt):
            call_stream("AsyncClient", hold_stream(terminal, lambda: os.kill(os.getpid(), signal.SIGINT)))
    finally:
        signal.signal(signal.SIGINT, earlier)
    assert is_removed(terminal.text)


def test_progress_bar_starts_again_with_a_stream_that_is_sent_again(kind: str):
    attempts = 0

    def behave(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        nonlocal attempts
        attempts += 1
        next(requests)
        yield ACCEPT
        if attempts == 1:
            yield encode_chunk(0, BYTES[:3])
            terminal.await_text("3/6 bytes")
            context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        terminal.await_text("3/6 bytes", "0/6 bytes")
        yield encode_chunk(0, BYTES)

    with open_terminal() as terminal:
        assert call_stream(kind, behave) == SIX.tobytes()
    assert (attempts, terminal.text.count(HIDDEN), is_removed(terminal.text)) == (2, 1, True)


def test_progress_bars_of_parallel_calls_share_the_terminal():
    with open_terminal() as terminal, draw_bar(7) as advance:
        with draw_bar(6):
            terminal.await_text("0/7 bytes", "0/6 bytes")
        assert advance is not None
        advance(5, 7)
        terminal.await_text("0/6 bytes", "5/7 bytes")
    assert (terminal.text.count(HIDDEN), is_removed(terminal.text)) == (1, True)


def test_update_after_the_end_of_a_progress_bar_is_ignored():
    with open_terminal() as terminal, draw_bar(7):
        with draw_bar(6) as advance:
            terminal.await_text("0/7 bytes", "0/6 bytes")
        assert advance is not None
        advance(5, 6)
    assert is_removed(terminal.text)


# The thread of rich may write before the bar ends.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_closing_standard_error_during_a_bar_keeps_the_result(kind: str):
    def behave(requests: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        next(requests)
        yield ACCEPT
        terminal.await_text("0/6 bytes")
        terminal.stream.close()
        yield encode_chunk(0, BYTES)

    with open_terminal() as terminal:
        assert call_stream(kind, behave) == SIX.tobytes()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_progress_bar_is_drawn_after_a_failed_removal():
    with open_terminal() as closed, draw_bar(7):
        closed.stream.close()
    with open_terminal() as terminal, draw_bar(6):
        terminal.await_text("0/6 bytes")
    assert is_removed(terminal.text)


FORK_DURING_A_WRITE = """
import os, signal, sys, threading
from tensor_reshape.client.progress import draw_bar

write, is_writing, may_write = sys.stderr.write, threading.Event(), threading.Event()

def write_later(text):
    is_writing.set()
    may_write.wait()
    return write(text)

with draw_bar(7) as advance:
    sys.stderr.write = write_later
    is_writing.wait()  # rich's thread writes, and holds its locks
    child = os.fork()
    sys.stderr.write = write
    may_write.set()
    if child == 0:
        signal.alarm(30)  # ends the process if it waits for a lock
        with draw_bar(6):
            advance(5, 7)
if child == 0:
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


def test_process_forked_during_a_bar_draws_its_own():
    with open_terminal() as terminal:
        # From Python 3.12 on, a fork with threads is a warning, which would wait for the write.
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK_DURING_A_WRITE]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal.stream, check=True, timeout=WAIT_SECONDS)
    assert done.stdout == b"0\n"
    assert "0/6 bytes" in terminal.text


@pytest.mark.parametrize(("transfer", "is_imported"), [("stream", True), ("inline", False)])
def test_rich_is_imported_before_the_deadline_starts(transfer: str, is_imported: bool):
    program = (
        "import sys; from tensor_reshape.client import Client\n"
        f"client = Client({NOBODY!r})\n"
        "try:\n"  # a wrong timeout ends the call before its deadline starts
        f"    client.reshape(bytes(6), [6], special_zero=False, transfer={transfer!r}, progress=True, timeout=-1)\n"
        "except ValueError:\n"
        "    print('rich.progress' in sys.modules)"
    )
    with open_terminal() as terminal:
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal.stream, check=True, timeout=WAIT_SECONDS)
    assert done.stdout.decode() == f"{is_imported}\n"


@pytest.mark.parametrize("progress", [None, False])
def test_call_without_progress_draws_no_bar(server: ServerProcess, progress: bool | None):
    with open_client("Client", server.address) as client, open_terminal() as terminal:
        client.reshape(SIX, [6], transfer="stream", progress=progress)
    assert terminal.text == ""


def test_dumb_terminal_shows_no_progress_bar(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "dumb")
    with open_terminal() as terminal, draw_bar(6) as advance:
        assert advance is None
    assert terminal.text == ""


def test_progress_bar_without_a_terminal_writes_nothing_and_imports_no_rich():
    program = (
        "import sys; from tensor_reshape.client.progress import draw_bar\n"
        "with draw_bar(6) as advance: print(advance, 'rich' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "FORCE_COLOR": "1", "TTY_COMPATIBLE": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_SECONDS,
    )
    assert (done.stdout, done.stderr) == ("None False\n", "")


def test_program_without_standard_error_gets_no_bar():
    closed = io.StringIO()
    closed.close()
    for stream in (None, closed):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            with draw_bar(6) as advance:
                assert advance is None


@pytest.mark.parametrize("progress", ["yes", 1, 0, np.True_, []], ids=repr)
def test_progress_of_another_type_is_rejected_before_the_call(kind: str, progress: object):
    text = f"progress is {progress!r}: write True for a progress bar, or a function of two numbers"
    with open_client(kind, NOBODY) as client, pytest.raises(TypeError, match=f"^{re.escape(text)}.*$"):
        client.reshape(SIX, [6], progress=progress)
