"""Two servers behind one target, of which one after the other is restarted or killed under load."""

import json
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from interruptions import HOST, RESTART_SECONDS, Figures, keep_calling, let_listen, prepare_server
from late_machines import measure_lateness
from plain_requests import INFER, INFERRED
from server_processes import ServerProcess, run_server
from tensor_reshape.wire.methods import SERVICE

_LEAST_INTERRUPTIONS = 2  # one of each
_STOCK_CALLERS = 4
_REST_SECONDS = 0.002
_ROUND_ROBIN: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
_HEALTH: dict[str, Any] = {**_ROUND_ROBIN, "healthCheckConfig": {"serviceName": SERVICE}}
# A call that was on its way to a server that stops ends with either; see docs/server.md.
_RETRIES: dict[str, Any] = {
    **_ROUND_ROBIN,
    "methodConfig": [
        {
            "name": [{"service": SERVICE}],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.1s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
            },
        }
    ],
}
STOCK_CONFIGS = {"stock": _ROUND_ROBIN, "stock that watches health": _HEALTH, "stock that retries": _RETRIES}
"""What channels of grpcio that know nothing of the SDK are told: to go round the servers alone, or besides."""


@dataclass
class Pair:
    """The servers, each on a port that stays its own.

    Attributes:
        flags: of each.
        stack: ends them.
        servers: those that serve now.
    """

    flags: Sequence[str]
    stack: ExitStack
    servers: list[ServerProcess] = field(default_factory=list)

    @property
    def target(self) -> str:
        """Both, as a client takes them."""
        return "ipv4:" + ",".join(server.address for server in self.servers)

    def replace(self, number: int, ending: signal.Signals, figures: Figures) -> None:
        """Ends one with a signal after a while, and has another take its port."""
        following = self.stack.enter_context(prepare_server(self.servers[number].address, *self.flags))
        time.sleep(RESTART_SECONDS)
        begin = time.monotonic()
        code = self.servers[number].stop(ending)
        stopped = time.monotonic()
        assert code == (0 if ending is signal.SIGTERM else -ending), code
        let_listen(following)
        self.servers[number] = following
        figures.note_restart(stopped - begin, time.monotonic() - stopped)


def run_replicas(ending: signal.Signals, seconds: float, *flags: str, **settings: Any) -> Figures:
    """Ends one of two servers after the other under load, and starts another in its place.

    Args:
        ending: SIGTERM for a rolling restart, SIGKILL for a loss.
        seconds: how long; each is ended once at least.
        flags: of the servers.
        settings: of the clients, besides the SDK's defaults.
    """
    figures, began = Figures(has_replica=True), time.monotonic()
    with measure_lateness() as meter, _run_pair(flags) as pair, keep_calling(pair.target, figures, **settings):
        _replace_all(pair, ending, began + seconds, figures)
    figures.lateness = meter.find_lateness(began, time.monotonic())
    return figures


def run_stock_callers(seconds: float, credentials: grpc.ChannelCredentials | None, *flags: str) -> Figures:
    """As `run_replicas` with SIGTERM, with callers that know nothing of the SDK."""
    figures, began = Figures(has_replica=True), time.monotonic()
    with _run_pair(flags) as pair, _keep_stock_callers(pair.target, credentials, figures):
        _replace_all(pair, signal.SIGTERM, began + seconds, figures)
    return figures


def _replace_all(pair: Pair, ending: signal.Signals, end: float, figures: Figures) -> None:
    while time.monotonic() < end or figures.interruptions < _LEAST_INTERRUPTIONS:
        pair.replace(figures.interruptions % 2, ending, figures)


@contextmanager
def _run_pair(flags: Sequence[str]) -> Iterator[Pair]:
    with ExitStack() as stack:
        pair = Pair(flags, stack)
        pair.servers += [stack.enter_context(run_server(*flags, listen=(f"{HOST}:0",))) for _ in range(2)]
        yield pair


@contextmanager
def _keep_stock_callers(target: str, credentials: grpc.ChannelCredentials | None, figures: Figures) -> Iterator[None]:
    finished = threading.Event()
    callers = [
        threading.Thread(target=_call, args=(target, credentials, kind, figures, finished))
        for kind in STOCK_CONFIGS
        for _ in range(_STOCK_CALLERS)
    ]
    for caller in callers:
        caller.start()
    try:
        yield
    finally:
        finished.set()
        for caller in callers:
            caller.join()


def _call(
    target: str, credentials: grpc.ChannelCredentials | None, kind: str, figures: Figures, finished: threading.Event
) -> None:
    options = [
        ("grpc.service_config", json.dumps(STOCK_CONFIGS[kind])),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.ssl_target_name_override", "localhost"),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 300),
    ]
    channel = (
        grpc.insecure_channel(target, options)
        if credentials is None
        else grpc.secure_channel(target, credentials, options)
    )
    with channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/InferShape")
        while not finished.wait(_REST_SECONDS):
            begin = time.monotonic()
            try:
                assert call(INFER, timeout=30, wait_for_ready=True) == INFERRED
            except Exception as error:  # noqa: BLE001 - whatever it is, a caller would notice
                figures.note_failure(kind, error)
            else:
                figures.note_call(kind, time.monotonic() - begin)
