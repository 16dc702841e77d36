"""A run of the kit: questions are asked, by several processes at once where that is wanted, and their replies judged.

Laws: of a program that answers each question for itself, the results do not depend on how many processes ask; and
however a run ends, Ctrl-C included, nothing of the program is left.
"""

import asyncio
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from tensor_reshape.conformance.cases import Question
from tensor_reshape.conformance.programs import ProgramAsker, Reply
from tensor_reshape.rules.json_format import Json

Result = TypeVar("Result")

_END_SIGNALS = [signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__]


class Program(NamedTuple):
    """A program that is asked.

    Attributes:
        command: it and its arguments.
        seconds: how long it may take for an answer.
        jobs: how many processes of it run at a time.
    """

    command: Sequence[str]
    seconds: float
    jobs: int = 1


def split_command(text: str) -> Sequence[str]:
    """Returns a program and its arguments, as a shell splits them. No shell is run.

    Raises:
        ValueError: a quote is not closed, or there is nothing.
    """
    command = shlex.split(text)
    if not command:
        message = "there is no program"
        raise ValueError(message)
    return command


def find_function_command(name: str) -> Sequence[str]:
    """Returns the program that a Python function is."""
    return (sys.executable, "-m", "tensor_reshape.conformance.functions", name)


def ask_program(
    program: Program, questions: Sequence[Question], told: Callable[[], object] = bool
) -> tuple[Mapping[str, Reply], Json]:
    """Asks a program.

    Args:
        program: which one.
        questions: what it is asked.
        told: is called after each reply.

    Returns:
        A reply to each question, by its id; and what the program says of itself.

    Raises:
        OSError: it cannot be started.
        ProgramError: it answers nothing.
    """
    askers = [ProgramAsker(program.command, program.seconds, told) for _ in range(program.jobs)]

    async def ask() -> list[dict[str, Reply]]:
        # A failure, or a signal, ends `run`, which cancels all that ask.
        return await asyncio.gather(*map(ProgramAsker.ask, askers, _share(questions, program.jobs)))

    replies = {name: reply for part in _run(ask()) for name, reply in part.items()}
    return replies, next((asker.introduction for asker in askers if asker.introduction), {})


def _share(questions: Sequence[Question], jobs: int) -> Iterator[Sequence[Question]]:
    # In turns: what is slow stands together in the kit.
    return (questions[job::jobs] for job in range(jobs))


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs `work`; a signal with a handler cancels it first, and its handler is called when it has ended.

    A handler that raises in the middle of a loop's own steps can leave the loop waiting for what never comes.
    """
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in _END_SIGNALS} if is_main else {}
    handlers = {number: handler for number, handler in before.items() if callable(handler)}
    came: list[signal.Signals] = []

    async def run() -> Result:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

        def cancel(number: signal.Signals) -> None:
            came.append(number)
            task.cancel()

        for number in handlers:
            loop.add_signal_handler(number, cancel, number)
        try:
            return await task
        finally:
            for number, handler in handlers.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        for number in came:
            handlers[number](number, None)
        raise
