"""`bench` against a real server."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from command_line import NOBODY, ask, run_command
from server_processes import ServerProcess
from tensor_reshape.cli.parameters import Connection

SHORT = ("--seconds", "0.1", "--warm-up", "0")


@pytest.mark.parametrize("way", [(), ("--asyncio",)], ids=str)
def test_each_call_is_measured_by_threads_and_by_tasks(server: ServerProcess, way: tuple[str, ...]):
    for call in ("static_reshape", "dynamic_reshape", "reshape", "infer_shape"):
        outcome = ask(server, "bench", "--call", call, "--callers", "2", *SHORT, *way, "--json")
        told = json.loads(outcome.output)
        (result,) = told["results"]
        assert (outcome.code, told["call"], told["loop"], result["failed"]) == (0, call, "closed", 0)
        latencies = [result["latency_seconds"][name] for name in ("min", "p50", "p90", "p99", "p99.9", "max")]
        assert latencies == sorted(latencies)
        assert latencies[0] > 0
        assert result["calls_per_second"] == pytest.approx(result["calls"] / result["seconds"])


def test_text_names_the_kind_of_loop(server: ServerProcess):
    closed = ask(server, "bench", *SHORT, "--rounds", "2").text
    opened = ask(server, "bench", *SHORT, "--rate", "100").text
    assert ("closed loop: each waits" in closed, "round 2" in closed, "p99.9" in closed) == (True, True, True)
    assert "open loop: 100 calls/s are due" in opened


def test_rate_holds_during_the_warm_up(monkeypatch: pytest.MonkeyPatch):
    calls = list[object]()
    monkeypatch.setattr(Connection, "open", lambda _self: nullcontext(SimpleNamespace(infer_shape=count)))

    def count(*arguments: object, **_options: object) -> None:
        calls.append(arguments)

    limits = ("--rate", "10", "--warm-up", "0.3", "--seconds", "0.1", "--callers", "4")
    assert run_command("bench", "--call", "infer_shape", *limits).code == 0
    assert len(calls) <= 1 + 3 + 1


def test_elements_may_travel_as_a_stream(server: ServerProcess):
    outcome = ask(server, "bench", "--transfer", "stream", "--data", "2,3", "--shape", "3,-1", *SHORT, "--json")
    assert json.loads(outcome.output)["transfer"] == "stream"


def test_bench_ends_with_the_exit_code_of_its_first_error(server: ServerProcess):
    refused = ask(server, "bench", "--shape", "5,-1", *SHORT)
    assert (refused.code, refused.output, "NOT_DIVISIBLE" in refused.errors[0]) == (3, b"", True)
    assert ask(server, "bench", "--data-type", "nf4", *SHORT).code == 2
    assert run_command("bench", *NOBODY, *SHORT).code == 5
