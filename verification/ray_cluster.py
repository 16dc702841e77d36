"""Deploys deploy/ray/serve.yaml on a Ray cluster of two nodes, kills one of them under load, and measures the cost.

The program needs Ray, so `scripts/verify ray` makes an environment with it. The nodes are processes of this machine.
One node has the proxy that receives the calls, because two proxies cannot share a port. The other one has replicas, and
is killed. The run passes if every result is right, and if the service recovers and adds replicas under load.
"""

import argparse
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import ray
import yaml
from ray import serve
from ray.cluster_utils import Cluster
from ray.serve.context import _get_global_client
from ray.serve.schema import ServeDeploySchema

from interruptions import Figures, keep_running
from server_processes import find_free_port, run_server
from tensor_reshape.client import Client, InvalidRequestError, Reason
from tensor_reshape.wire.arrays import Array
from waits import await_that

FILE = Path(__file__).parents[1] / "deploy/ray/serve.yaml"
NAME = "reshape"
_HEAD_CPUS, _NODE_CPUS = 1, 4  # one replica fits on the node with the proxy; the others are on the node that is killed
_STORE_BYTES = 512 * 1024 * 1024
# A node waits half a minute for its agents to choose these ports, which is too short on a machine with few cores.
_PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")
_SMALL, _MIB = np.arange(256, dtype=np.float32), np.arange(1 << 18, dtype=np.float32)
_STREAM = np.arange(1 << 22, dtype=np.float32)
_CALLERS = 24
_REPLICAS = 3
_BLOCKS = 7
_await = partial(await_that, seconds=180.0, pause_seconds=0.2)


def call_until(finished: threading.Event, target: str, figures: Figures) -> None:
    with Client(target) as client:
        while not finished.is_set():
            with figures.measure("unary"):
                output = client.static_reshape(_SMALL, [16, -1], special_zero=False)
                assert np.array_equal(output, _SMALL.reshape(16, 16))


def main() -> int:
    """Runs the scenario. The status is 1 if a check fails."""
    parser = argparse.ArgumentParser("scripts/verify ray", description=__doc__)
    duration = "duration of the load before the node is killed, and after the recovery"
    parser.add_argument("--seconds", type=float, default=10.0, help=duration)
    arguments = parser.parse_args()
    settings = yaml.safe_load(FILE.read_text())
    with ExitStack() as stack:
        cluster = stack.enter_context(run_cluster())
        deploy(settings)
        target = f"127.0.0.1:{settings['grpc_options']['port']}"
        show_answers(target)
        kill_node(cluster, target, arguments.seconds)
        show_costs(target)
    return 0


@contextmanager
def run_cluster() -> Iterator[Cluster]:
    """Runs the node with the proxy and an empty node until the end of the block."""
    head = {**build_node(_HEAD_CPUS), "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(**build_node(_NODE_CPUS))
    ray.init(address=cluster.address, namespace="serve", log_to_driver=False)
    try:
        yield cluster
    finally:
        serve.shutdown()
        ray.shutdown()
        cluster.shutdown()


def build_node(cpus: int) -> dict[str, int]:
    return {"num_cpus": cpus, "object_store_memory": _STORE_BYTES, **{name: find_free_port() for name in _PORTS}}


def deploy(settings: dict[str, Any]) -> None:
    """Deploys the file, except its setting for the location of the proxies."""
    serve.start(proxy_location="HeadOnly", grpc_options=settings["grpc_options"])
    began = time.monotonic()
    schema = ServeDeploySchema.model_validate({"applications": settings["applications"]})
    _get_global_client().deploy_apps(schema, _blocking=True)
    _await(lambda: serve.status().applications[NAME].status == "RUNNING")
    print(f"deployed in {time.monotonic() - began:.1f} s", flush=True)


def show_answers(target: str) -> None:
    """Sends calls through the proxy, and checks their results."""
    with Client(target, timeout=60) as client:
        _await(lambda: client.static_reshape(_SMALL, [16, -1], special_zero=False).shape == (16, 16))
        output = client.reshape(_STREAM, [-1, 2], special_zero=False, transfer="stream")
        assert np.array_equal(output.reshape(-1), _STREAM)
        try:
            client.infer_shape((2, 3), (4, -1), special_zero=False)
        except InvalidRequestError as error:
            assert error.reason is Reason.NOT_DIVISIBLE  # noqa: PT017 - not a test
            print("a message, a stream of 16 MiB and a rejection with its details came through", flush=True)


def kill_node(cluster: Cluster, target: str, seconds: float) -> None:
    """Kills the node with the most replicas under load and adds another node; prints the effect on callers."""
    (node,) = cluster.worker_nodes
    figures, finished = Figures(), threading.Event()
    with keep_running([partial(call_until, finished, target, figures)] * _CALLERS, finished):
        began = time.monotonic()
        _await(lambda: count_replicas() >= _REPLICAS)
        scaled = time.monotonic() - began
        time.sleep(seconds)
        before, killed = figures.calls.total(), time.monotonic()
        cluster.remove_node(node, allow_graceful=False)
        _await(lambda: figures.calls.total() > before + _CALLERS)
        answered = time.monotonic() - killed
        _await(lambda: count_replicas() == 1)
        cluster.add_node(**build_node(_NODE_CPUS))
        _await(lambda: count_replicas() >= _REPLICAS)
        replaced = time.monotonic() - killed
        time.sleep(seconds)
    print(
        f"{_REPLICAS} replicas after {scaled:.1f} s of load; a node killed: {figures.calls.total()} calls answered, "
        f"{len(figures.failures)} lost {dict(Counter(figures.failures)) or ''}, "
        f"slowest {figures.slowest_seconds['unary']:.1f} s; first success after {answered:.1f} s, "
        f"{_REPLICAS} replicas on another node after {replaced:.1f} s",
        flush=True,
    )


def show_costs(target: str) -> None:
    """Prints how many times as long a call takes through Ray Serve as on the plain server, measured in turn."""
    with (
        run_server(env={"GRPC_EXPERIMENTS": "event_engine_listener"}) as server,
        Client(target, timeout=60) as through,
        Client(server.address) as own,
    ):
        for name, array, count in (("1 KiB", _SMALL, 100), ("1 MiB", _MIB, 20), ("16 MiB, a stream", _STREAM, 2)):
            ratios = []
            for _ in range(_BLOCKS):
                took = [time_calls(client, array, count) for client in (through, own)]
                ratios.append(took[0] / took[1])
            print(f"{name}: {median(ratios):.1f} times as long as the plain server", flush=True)


def time_calls(client: Client, array: Array, count: int) -> float:
    began = time.monotonic()
    for _ in range(count):
        client.reshape(array, [-1, 2], special_zero=False)
    return time.monotonic() - began


def count_replicas() -> int:
    details = _get_global_client().get_serve_details()
    replicas = details["applications"][NAME]["deployments"]["Reshape"]["replicas"]
    return sum(replica["state"] == "RUNNING" for replica in replicas)


if __name__ == "__main__":
    sys.exit(main())
