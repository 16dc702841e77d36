"""Callers of both SDKs, and by hand, who make the calls of a soak until there are no more to make."""

import asyncio
import faulthandler
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import grpc

from tensor_reshape.client import AsyncClient, Client
from tensor_reshape.rules.errors import ReshapeError
from verification.soak.inference_calls import InferenceCalls
from verification.soak.raw_calls import RawCalls
from verification.soak.steps import Deck, Step, judge

_THREADS, _TASKS = 4, 6
_RAW_SHARE, _INFERENCE_SHARE, _CANCELLED_SHARE = 0.08, 0.4, 0.04
_MAX_ERRORS = 1000
_STUCK_SECONDS = 90.0  # above the longest deadline of a call


class Turns:
    """The calls that are left to make, and what became of those that were made; safe to use from any thread."""

    def __init__(self, calls: int) -> None:
        """Starts with all calls left."""
        self.kinds: Counter[str] = Counter()
        self.errors: list[str] = []
        self._left = calls
        self._lock = threading.Lock()

    @property
    def done(self) -> int:
        """How many have ended."""
        return self.kinds.total()

    def take(self) -> bool:
        """Whether there is another call to make."""
        with self._lock:
            self._left -= 1
            return self._left >= 0 and len(self.errors) < _MAX_ERRORS

    def end(self, kind: str) -> None:
        """Counts a call that ended as it must."""
        with self._lock:
            self.kinds[kind] += 1

    def fail(self) -> None:
        """Keeps the exception that is being handled: it should not have come."""
        with self._lock:
            self.kinds["failed"] += 1
            self.errors.append(traceback.format_exc())


def send_calls(address: str, turns: Turns, seed: str, directory: Path) -> None:
    """Sends all of them; `directory` is that of the server's shared memory."""
    with Client(address) as client, grpc.insecure_channel(address) as channel:
        workers = [
            threading.Thread(
                target=call_sync,
                args=(_choose_calls(client, channel, Random(f"{seed}-{number}"), directory), turns),
                daemon=True,
            )
            for number in range(_THREADS)
        ]
        workers.append(threading.Thread(target=lambda: asyncio.run(call_async(address, turns, seed)), daemon=True))
        for worker in workers:
            worker.start()
        _await_end(workers, turns)


def _await_end(workers: list[threading.Thread], turns: Turns) -> None:
    """Awaits the end of all; where no call ends for a while, says where each thread is, and gives up."""
    done = -1
    while alive := [worker for worker in workers if worker.is_alive()]:
        alive[0].join(_STUCK_SECONDS)
        if alive[0].is_alive() and turns.done == done:
            faulthandler.dump_traceback()
            message = f"after {done} calls, none has ended for {_STUCK_SECONDS} seconds"
            raise RuntimeError(message)
        done = turns.done


def _choose_calls(client: Client, channel: grpc.Channel, random: Random, directory: Path) -> Callable[[], str]:
    """Returns what makes a call, of the SDK or by hand, and returns the name of its kind."""
    deck, raw_calls = Deck(random), RawCalls(channel, random)
    inference_calls = InferenceCalls(channel, random, directory)

    def call() -> str:
        share = random.random()
        if share < _RAW_SHARE:
            return raw_calls.run()
        return inference_calls.run() if share < _RAW_SHARE + _INFERENCE_SHARE else _run_sync(client, deck.deal())

    return call


def call_sync(call: Callable[[], str], turns: Turns) -> None:
    """Makes calls that block, until there are no more to make."""
    while turns.take():
        try:
            kind = call()
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding
            turns.fail()
        else:
            turns.end(kind)


async def call_async(address: str, turns: Turns, seed: str) -> None:
    """Makes calls that are awaited, until there are no more to make."""
    async with AsyncClient(address) as client:
        await asyncio.gather(
            *(_call_in_turn(client, turns, Random(f"{seed}-task-{number}")) for number in range(_TASKS))
        )


async def _call_in_turn(client: AsyncClient, turns: Turns, random: Random) -> None:
    deck = Deck(random)
    while turns.take():
        try:
            cancels = random.random() < _CANCELLED_SHARE
            kind = await (_cancel(client, deck.large(), random) if cancels else _run_async(client, deck.deal()))
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding
            turns.fail()
        else:
            turns.end(kind)


def _run_sync(client: Client, step: Step) -> str:
    try:
        answer: object = getattr(client, step.method)(*step.arguments, **step.keywords)
    except step.admitted as error:
        return f"{step.name}: {type(error).__name__}"
    except ReshapeError as error:
        answer = error
    judge(step, answer)
    return step.name


async def _run_async(client: AsyncClient, step: Step) -> str:
    try:
        answer: object = await getattr(client, step.method)(*step.arguments, **step.keywords)
    except step.admitted as error:
        return f"{step.name}: {type(error).__name__}"
    except ReshapeError as error:
        answer = error
    judge(step, answer)
    return step.name


async def _cancel(client: AsyncClient, step: Step, random: Random) -> str:
    task = asyncio.create_task(_run_async(client, step))
    await asyncio.sleep(random.choice((0, 0.0005, 0.002, 0.01)))
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return "cancelled task"
    return "cancelled task, too late"
