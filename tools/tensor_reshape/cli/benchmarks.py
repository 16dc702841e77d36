"""`tensor-reshape bench`: one call, made again and again to a running server."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tensor_reshape.cli.consoles import escape_unprintable, find_console
from tensor_reshape.cli.histograms import PERCENTILES, draw_histogram, find_percentile, format_latency
from tensor_reshape.cli.loads import Pace, Round, run_tasks, run_threads
from tensor_reshape.cli.parameters import JSON_OPTION, SHAPE, Connection, DataTypeName, connection_options
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import OPERATIONS
from tensor_reshape.rules.sizes import round_size

if TYPE_CHECKING:
    from tensor_reshape.client import AsyncClient, Client

_INFER = "infer_shape"
_COLUMNS = 80
_CLOSED = "closed loop: each waits for its answer, then asks again; what a slow answer delays is in no latency (--rate)"
_OPEN = "open loop: {rate:g} calls/s are due, whatever became of those before; latencies count from when a call was due"


class Question(NamedTuple):
    """The call that is made.

    Attributes:
        call: `infer_shape`, or the name of an operation.
        data: the data's shape.
        shape: the target.
        special_zero: of the operation.
        data_type: of the data.
        transfer: how the elements travel.
    """

    call: str
    data: Sequence[int]
    shape: Sequence[int]
    special_zero: bool
    data_type: DataType
    transfer: str

    def bind(self, client: "Client | AsyncClient") -> Callable[[], Any]:
        """Returns what makes the call."""
        if self.call == _INFER:
            return partial(client.infer_shape, self.data, self.shape, special_zero=self.special_zero)
        method, how = getattr(client, self.call), {} if self.transfer == "auto" else {"transfer": self.transfer}
        return partial(method, self._make_array(), self.shape, special_zero=self.special_zero, **how)

    def describe(self) -> dict[str, Any]:
        """Returns what is asked, as JSON has it."""
        return {
            "call": self.call,
            "data": list(self.data),
            "shape": list(self.shape),
            "special_zero": self.special_zero,
            "data_type": str(self.data_type),
            "transfer": self.transfer,
        }

    def _make_array(self) -> Any:  # noqa: ANN401 - numpy is imported where it is needed
        import numpy as np  # noqa: PLC0415 - help does without

        from tensor_reshape.wire.arrays import DTYPES  # noqa: PLC0415 - as above

        if self.data_type not in DTYPES:
            message = f"no array holds {self.data_type}"
            raise click.UsageError(message)
        return np.zeros(self.data, DTYPES[self.data_type])


class Load(NamedTuple):
    """How the call is made.

    Attributes:
        callers: how many make it at a time.
        seconds: how long a round takes.
        rounds: how many there are.
        warm_up: seconds before them that are not counted.
        rate: calls a second that are due in all; None: each caller waits for its answer.
    """

    callers: int
    seconds: float
    rounds: int
    warm_up: float
    rate: float | None


@click.command()
@click.option(
    "--call",
    type=click.Choice([*OPERATIONS, _INFER]),
    default="static_reshape",
    show_default=True,
    help="What is made.",
)
@click.option("--data", type=SHAPE, default="32,8,8", show_default=True, help="The data's shape.")
@click.option("--shape", type=SHAPE, default="0,-1", show_default=True, help="The target.")
@click.option("--special-zero/--no-special-zero", default=True, show_default=True, help="Of the operation.")
@click.option("--data-type", type=DataTypeName(), default="f32", show_default=True, help="Of the data.")
@click.option(
    "--transfer",
    type=click.Choice(["auto", "inline", "stream", "view"]),
    default="auto",
    show_default=True,
    help="How the elements travel.",
)
@click.option(
    "--callers", type=click.IntRange(1, 1000), default=1, show_default=True, help="How many make the call at a time."
)
@click.option("--asyncio", "is_async", is_flag=True, help="They are tasks of one thread; without it, threads.")
@click.option(
    "--seconds", type=click.FloatRange(0.01, 600), default=5.0, show_default=True, help="How long a round takes."
)
@click.option("--rounds", type=click.IntRange(1, 100), default=1, show_default=True, help="How many, one by one.")
@click.option(
    "--warm-up", type=click.FloatRange(0, 60), default=0.5, show_default=True, help="Seconds that are not counted."
)
@click.option(
    "--rate",
    type=click.FloatRange(0, 1e6, min_open=True),
    help="Calls a second that are due in all: an open loop. Without it each caller waits for its answer.",
)
@JSON_OPTION
@connection_options
def bench(connection: Connection, *, is_async: bool, as_json: bool, **options: Any) -> None:
    """Measure a running server: latencies and throughput of one call."""
    load = Load(*(options.pop(name) for name in Load._fields))
    question = Question(**options)
    if is_async:
        rounds = asyncio.run(_measure_tasks(connection, question, load))
    else:
        rounds = _measure_threads(connection, question, load)
    if as_json:
        setting = {
            **question.describe(),
            **load._asdict(),
            "asyncio": is_async,
            "loop": "closed" if load.rate is None else "open",
        }
        click.echo(json.dumps({**setting, "results": [_describe(one) for one in rounds]}))
    else:
        kind = "tasks" if is_async else "threads"
        _print(question, f"{load.callers} {kind}", load.rate, rounds)
    if any(one.failed for one in rounds):
        raise click.exceptions.Exit(1)


def _measure_threads(connection: Connection, question: Question, load: Load) -> list[Round]:
    with connection.open() as client:
        call = question.bind(client)
        call()  # a mistake, or a server that is not there, is an error of its own, and no failed round
        run_threads(call, load.callers, Pace(load.warm_up, load.rate))  # a rate is the most that it is ever asked for
        return [run_threads(call, load.callers, Pace(load.seconds, load.rate)) for _ in range(load.rounds)]


async def _measure_tasks(connection: Connection, question: Question, load: Load) -> list[Round]:
    async with connection.open_async() as client:
        call = question.bind(client)
        await call()
        await run_tasks(call, load.callers, Pace(load.warm_up, load.rate))
        return [await run_tasks(call, load.callers, Pace(load.seconds, load.rate)) for _ in range(load.rounds)]


def _describe(one: Round) -> dict[str, Any]:
    ordered = sorted(one.latencies)
    latencies = {f"p{percent:g}": find_percentile(ordered, percent) / 1e9 for percent in PERCENTILES} if ordered else {}
    if ordered:
        latencies |= {"min": ordered[0] / 1e9, "max": ordered[-1] / 1e9, "mean": sum(ordered) / len(ordered) / 1e9}
    return {
        "calls": len(ordered),
        "failed": one.failed,
        "missed": one.missed,
        "seconds": one.seconds,
        "calls_per_second": len(ordered) / one.seconds,
        "latency_seconds": latencies,
    }


def _print(question: Question, callers: str, rate: float | None, rounds: list[Round]) -> None:
    console = find_console(sys.stdout)
    columns = _COLUMNS if console is None else console.width
    size = 0 if question.call == _INFER else question.data_type.count_bytes(prod(question.data))
    click.echo(f"{question.call}, {callers}; elements: {round_size(size)} each way")
    click.echo(_CLOSED if rate is None else _OPEN.format(rate=rate))
    for number, one in enumerate(rounds, 1):
        lines = [f"round {number}", *_write_round(one, size, columns)]
        click.echo("\n".join(lines))


def _write_round(one: Round, size: int, columns: int) -> Iterator[str]:
    ordered = sorted(one.latencies)
    each = len(ordered) / one.seconds
    flow = f", {round_size(int(each * size))}/s each way" if size else ""
    yield f"{len(ordered)} calls in {one.seconds:.2f} s: {each:.0f}/s{flow}"
    if one.failed or one.missed:
        yield f"{one.failed} failed, {one.missed} missed" + (
            f"; the first error: {escape_unprintable(str(one.error))}" if one.error else ""
        )
    if ordered:
        told = [f"p{percent:g} {format_latency(find_percentile(ordered, percent))}" for percent in PERCENTILES]
        yield ", ".join([*told, f"max {format_latency(ordered[-1])}"])
        yield from draw_histogram(ordered, columns)
