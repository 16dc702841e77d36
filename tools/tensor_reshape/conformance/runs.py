"""Runs the conformance suite with one process of a program, or with several processes at the same time.

Invariants: if a program answers each query independently, the results do not depend on the number of processes. No
process of the program remains after a run, even if Ctrl-C, SIGTERM or SIGHUP ends the run.
"""

import asyncio
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from tensor_reshape.conformance.cases import Case
from tensor_reshape.conformance.programs import ProgramRunner, Reply
from tensor_reshape.wire.json_messages import Json

Result = TypeVar("Result")

_END_SIGNALS = [signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__]


class Program(NamedTuple):
    """A program to run.

    Attributes:
        command: the program and its arguments.
        seconds: the timeout of each answer in seconds.
        jobs: the number of processes that run at the same time.
    """

    command: Sequence[str]
    seconds: float
    jobs: int = 1


def split_command(text: str) -> Sequence[str]:
    """Splits a command line into the program and its arguments, as a shell does.

    The program is started without a shell.

    Raises:
        ValueError: a quote is not closed, or the text is empty.
    """
    try:
        command = shlex.split(text)
    except ValueError:
        message = f"{text!r} is not a command: a quote or an escape is not complete"
        raise ValueError(message) from None
    if not command:
        message = "the command is empty"
        raise ValueError(message)
    return command


def build_function_command(name: str) -> Sequence[str]:
    """Returns a program that calls a Python function."""
    return (sys.executable, "-m", "tensor_reshape.conformance.functions", name)


def run_program(
    program: Program, cases: Sequence[Case], on_reply: Callable[[], object] = bool
) -> tuple[Mapping[str, Reply], Json]:
    """Runs a program on test cases.

    Args:
        program: the program.
        cases: the cases.
        on_reply: a function that is called after each reply.

    Returns:
        The reply to each case, by the id of the case, and the program's description of itself.

    Raises:
        OSError: the program cannot be started.
        ProgramError: the program fails on every query.
    """
    runners = [ProgramRunner(program.command, program.seconds, on_reply) for _ in range(program.jobs)]
    # The test cases are distributed to the processes in turn, because slow cases are next to each other in the suite.
    parts = [cases[job :: program.jobs] for job in range(program.jobs)]

    async def run() -> list[dict[str, Reply]]:
        return await asyncio.gather(*map(ProgramRunner.run, runners, parts))

    replies = {name: reply for part in _run_until_signal(run()) for name, reply in part.items()}
    return replies, next((runner.introduction for runner in runners if runner.introduction), {})


def _run_until_signal(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs `work`. SIGTERM and SIGHUP cancel `work`, so that it can clean up, and then raise SystemExit.

    asyncio handles SIGINT (Ctrl-C) in the same way. An exception that a signal handler raises would break the event
    loop.
    """
    received: list[int] = []

    async def run() -> Result:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

        def cancel(number: int) -> None:
            received.append(number)
            task.cancel()

        # If a signal is ignored because of nohup, the signal stays ignored. Python lets only the main thread set signal
        # handlers.
        is_main = threading.current_thread() is threading.main_thread()
        numbers = [one for one in _END_SIGNALS if is_main and signal.getsignal(one) != signal.SIG_IGN]
        for number in numbers:
            loop.add_signal_handler(number, cancel, number)
        try:
            return await task
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        if received:
            sys.exit(128 + received[0])
        raise
