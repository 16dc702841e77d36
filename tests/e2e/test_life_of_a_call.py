"""The functions that a small call runs, in order, as the page about the life of a call lists them."""

import sys
import threading
from pathlib import Path
from types import FrameType

import numpy as np

from in_process import ANY_PORT, WAIT_SECONDS, hurry_stop
from tensor_reshape.client import Client
from tensor_reshape.server.config import Config
from tensor_reshape.server.runner import Runner

PAGE = Path(__file__).parents[2] / "docs/architecture/calls.md"
PACKAGE = "/tensor_reshape/"
CALLS = 20
RECEIVING_THREAD = "serve"
EVENT = "server/grpc/servers.py Server._process"
ACCEPT = "server/grpc/servers.py Server._accept"
RELEASE = "server/engine/engine.py Engine._release"


class Recorder:
    """Records the functions of the product in the order of their first call, for each thread."""

    def __init__(self) -> None:
        self.functions: dict[str, list[str]] = {}
        self.is_over = threading.Event()  # whether the server releases the call

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        path, _, module = frame.f_code.co_filename.rpartition(PACKAGE)
        if event != "call" or not path:
            return
        functions = self.functions.setdefault(threading.current_thread().name, [])
        name = f"{module} {frame.f_code.co_qualname}"
        if name == EVENT and ACCEPT not in functions:
            functions.clear()  # the events before belong to the last call
        if name not in functions:
            functions.append(name)
        if name == RELEASE:
            self.is_over.set()


def record_call() -> dict[str, list[str]]:
    """Runs a server and a client in this process, makes the same call often, and returns what the last one ran."""
    recorder = Recorder()
    threading.setprofile(recorder)
    runner = Runner(Config(listen=(ANY_PORT,), drain_seconds=0, shutdown_grace_seconds=0))
    runner.start()
    threading.setprofile(None)
    array = np.zeros(256, np.float32)
    try:
        with Client(runner.addresses[0]) as client:
            for _ in range(CALLS):
                recorder.functions = {}
                recorder.is_over.clear()
                sys.setprofile(recorder)
                client.static_reshape(array, [16, 16], special_zero=False)
                sys.setprofile(None)
                assert recorder.is_over.wait(WAIT_SECONDS)
            # a copy, because the thread of the server continues to record
            return {thread: list(functions) for thread, functions in recorder.functions.items()}
    finally:
        sys.setprofile(None)
        hurry_stop(runner)


def read_functions(title: str) -> list[str]:
    """Reads the functions in the first block below a title of the page, one module in each line."""
    block = PAGE.read_text().partition(f"**{title}**")[2].split("```")[1]
    lines = [line.split(maxsplit=1) for line in block.splitlines()[1:]]
    return [f"{module} {name}" for module, names in lines for name in names.split(", ")]


def test_page_names_every_function_of_a_small_call_in_order():
    functions = record_call()
    assert functions[threading.current_thread().name] == read_functions("In the client")
    assert functions[RECEIVING_THREAD] == read_functions("In the server")
