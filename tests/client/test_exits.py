"""A process with open clients can exit, whatever their state; each test uses a separate process."""

import subprocess
import sys

import pytest

from server_processes import ServerProcess
from tensor_reshape.runtime.experiments import find_release

SECONDS = 120  # a hanging process never ends
# Exits during calls of other threads: `go_on` returns after its thread has made one call, and the thread continues.
BEGIN = """
import asyncio, sys, threading
import numpy as np
from tensor_reshape.client import AsyncClient, CallTimeoutError, Client, ShapeQuery, TensorReshapeError

address, small, large = sys.argv[1], np.zeros(64, np.uint8), np.zeros(4 << 20, np.uint8)
query = ShapeQuery(data_shape=[6], shape=[2, 3], special_zero=False)

def go_on(call):
    has_called = threading.Event()
    def run():
        while True:
            try:
                call()
            except (TensorReshapeError, ValueError):  # the client is closed at exit
                pass
            has_called.set()
    threading.Thread(target=run, daemon=True).start()
    has_called.wait()

def reshape(array=small, way="inline"):
    client.reshape(array, [-1], special_zero=False, transfer=way)

def open_and_close():
    with Client(address) as other:
        other.reshape(small, [-1], special_zero=False)
"""
SYNC = "client = Client(address, chunk_bytes=1 << 16)"
LOOPS = "event loops in threads"
ENDS = {
    "after being ready": f"{SYNC}\nclient.wait_until_ready()",
    "calls": f"{SYNC}\nfor _ in range(4): go_on(reshape)",
    "stock calls": "client = Client(address, grpc_api='public')\nfor _ in range(4): go_on(reshape)",
    "streams": f"{SYNC}\nfor _ in range(3): go_on(lambda: reshape(large, 'stream'))",
    "batches": f"{SYNC}\nfor _ in range(3): go_on(lambda: client.infer_shapes([query] * 3000))",
    "submitted calls": f"{SYNC}\ncalls = [client.submit(reshape) for _ in range(20)]",
    "clients that come and go": f"{SYNC}\nreshape()\nfor _ in range(3): go_on(open_and_close)",
    "streams of asyncio": """
async def leave():
    global client, tasks
    client = AsyncClient(address)
    await client.reshape(small, [-1], special_zero=False)
    tasks = [asyncio.ensure_future(client.reshape(large, [-1], special_zero=False, transfer="stream"))]
    await asyncio.sleep(0)
asyncio.run(leave())
""",
    LOOPS: """
async def ask():
    async with AsyncClient(address) as client:
        await client.reshape(large, [-1], special_zero=False, transfer="stream")
for _ in range(3): go_on(lambda: asyncio.run(ask()))
""",
}


def run(address: str, program: str) -> None:
    command = [sys.executable, "-c", f"{BEGIN}\n{program}\nprint('over', flush=True)", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout) == (0, "over\n"), done.stderr


@pytest.mark.parametrize("name", ENDS)
def test_python_process_with_open_clients_exits(server: ServerProcess, name: str):
    if name == LOOPS and (find_release() or (0, 0)) < (1, 85):
        pytest.skip("asyncio calls in daemon threads can keep a process with grpcio 1.80 from ending")
    run(server.address, ENDS[name])


@pytest.mark.parametrize("call", ["reshape()", "client.wait_until_ready(timeout=0.05)"])
def test_python_process_exits_after_a_call_timed_out_unconnected(call: str):
    # No server listens there, so the error after the timeout shows the state of the connection.
    program = f"""
import socket
listener = socket.create_server(("127.0.0.1", 0))
client = Client(f"127.0.0.1:{{listener.getsockname()[1]}}", timeout=0.05)
try:
    {call}
except TensorReshapeError as error:
    assert "is not connected" in str(error)
"""
    run("", program)
