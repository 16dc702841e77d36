"""p50 of the smallest calls, against a bare grpcio echo.

Both servers run in processes of their own and are called in turn, round by round, so that the machine's drift hits
both: only the ratios mean anything. `bare echo` is a stock grpcio server that answers the request's bytes, called
through a stock channel: what grpcio itself costs. Run: `python benchmarks/latency.py [--rounds N] [--calls N]`.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

import grpc
import numpy as np

from tensor_reshape.client import Client
from tensor_reshape.rules.operations import STATIC_RESHAPE
from tensor_reshape.rules.questions import Question, ShapeRequest
from tensor_reshape.wire import inference, reshapes
from tensor_reshape.wire.arrays import view_array
from tensor_reshape.wire.methods import INFER_SHAPE, OPERATION_METHODS

WARM_UP_CALLS = 200
Work = Callable[[], object]
Send: TypeAlias = "grpc.UnaryUnaryMultiCallable[bytes, bytes]"


def serve_echo(address: str) -> None:
    """Serves a method that answers with its request, as little as grpcio can do."""
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(lambda request, _: request)
    server = grpc.server(ThreadPoolExecutor(max_workers=16))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo", {"Echo": handler}),))
    server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()


@contextmanager
def run_process(*arguments: str) -> Iterator[None]:
    """Runs this interpreter with `arguments` until the end of the block."""
    process = subprocess.Popen([sys.executable, *arguments], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def build_works(client: Client, ours: grpc.Channel, echo: grpc.Channel) -> dict[str, Work]:
    """Returns what is timed, by name: the SDK with all it does, and the same bytes through a stock channel."""
    empty = np.empty(0, np.float32)
    question = Question(operation=STATIC_RESHAPE, data=(0,), target=(0,), special_zero=False)
    reshape_request = reshapes.encode_reshape_request(reshapes.ReshapeCall(question, view_array(empty, "data")))
    partial = Question(operation=STATIC_RESHAPE, data=(0,), target=(0,), special_zero=False)
    infer_request = inference.build_infer_request(ShapeRequest(partial)).SerializeToString()
    send_echo: Send = echo.unary_unary("/echo/Echo")
    send_reshape: Send = ours.unary_unary(OPERATION_METHODS[STATIC_RESHAPE].path)
    send_infer: Send = ours.unary_unary(INFER_SHAPE.path)
    return {
        "bare echo": lambda: send_echo(reshape_request),
        "StaticReshape, stock channel": lambda: send_reshape(reshape_request),
        "InferShape, stock channel": lambda: send_infer(infer_request),
        "StaticReshape, SDK": lambda: client.static_reshape(empty, (0,), special_zero=False),
        "InferShape, SDK": lambda: client.infer_shape((0,), (0,), special_zero=False),
    }


def time_calls(work: Work, calls: int) -> float:
    """Returns the median of `calls` calls, in seconds."""
    seconds = []
    for _ in range(calls):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def measure(works: dict[str, Work], rounds: int, calls: int) -> dict[str, list[float]]:
    """Returns the p50 of each round for each work."""
    for work in works.values():
        time_calls(work, WARM_UP_CALLS)
    medians: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            medians[name].append(time_calls(work, calls))
    return medians


def print_table(medians: dict[str, list[float]]) -> None:
    """Prints the median over the rounds, and the ratio to the echo of the same round with its spread."""
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, grpcio {grpc.__version__}"
    )
    print(f"{'':32}{'p50 us':>8}{'ratio':>8}{'min':>7}{'max':>7}")
    echo = medians["bare echo"]
    for name, values in medians.items():
        ratios = [value / base for value, base in zip(values, echo, strict=True)]
        p50 = statistics.median(values) * 1e6
        print(f"{name:32}{p50:8.0f}{statistics.median(ratios):8.2f}{min(ratios):7.2f}{max(ratios):7.2f}")


def main() -> None:
    """Runs both servers on unix sockets and compares them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--serve-echo", metavar="ADDRESS", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve_echo:
        serve_echo(arguments.serve_echo)
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours_address, echo_address = f"unix:{folder / 'ours.sock'}", f"unix:{folder / 'echo.sock'}"
        stack.enter_context(run_process("-m", "tensor_reshape.server", "--listen", ours_address))
        stack.enter_context(run_process(__file__, "--serve-echo", echo_address))
        ours, echo = (stack.enter_context(grpc.insecure_channel(name)) for name in (ours_address, echo_address))
        client = stack.enter_context(Client(ours_address))
        client.wait_until_ready()
        grpc.channel_ready_future(echo).result()
        print_table(measure(build_works(client, ours, echo), arguments.rounds, arguments.calls))


if __name__ == "__main__":
    main()
