"""`bench` against a real server."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from command_line import ask, run_command
from server_processes import ServerProcess
from tensor_reshape.cli.parameters import Connection

SHORT = ("--seconds", "0.3", "--warm-up", "0")


@pytest.mark.parametrize("way", [(), ("--asyncio",)], ids=str)
@pytest.mark.parametrize("call", ["static_reshape", "dynamic_reshape", "reshape", "infer_shape"])
def test_each_call_is_measured_by_threads_and_by_tasks(server: ServerProcess, call: str, way: tuple[str, ...]):
    outcome = ask(server, "bench", "--call", call, "--callers", "2", *SHORT, *way, "--json")
    told = json.loads(outcome.output)
    (result,) = told["results"]
    latency = result["latency_seconds"]
    assert (outcome.code, told["call"], told["loop"], result["failed"]) == (0, call, "closed", 0)
    assert (
        0 < latency["min"] <= latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["p99.9"] <= latency["max"]
    )
    assert result["calls_per_second"] == pytest.approx(result["calls"] / result["seconds"])


def test_people_are_told_what_kind_of_loop_it_was(server: ServerProcess):
    closed = ask(server, "bench", *SHORT, "--rounds", "2").text
    opened = ask(server, "bench", *SHORT, "--rate", "100").text
    assert ("closed loop: each waits" in closed, "round 2" in closed, "p99.9" in closed) == (True, True, True)
    assert "open loop: 100 calls/s are due" in opened


def test_a_rate_that_a_server_cannot_keep_is_told(server: ServerProcess):
    (result,) = json.loads(ask(server, "bench", *SHORT, "--rate", "1000000", "--json").output)["results"]
    assert result["missed"] > 0


def test_a_rate_holds_while_it_warms_up(monkeypatch: pytest.MonkeyPatch):
    calls = list[object]()
    monkeypatch.setattr(Connection, "open", lambda _self: nullcontext(SimpleNamespace(infer_shape=count)))

    def count(*arguments: object, **_options: object) -> None:
        calls.append(arguments)

    limits = ("--rate", "10", "--warm-up", "0.3", "--seconds", "0.1", "--callers", "4")
    assert run_command("bench", "--call", "infer_shape", *limits).code == 0
    assert len(calls) <= 1 + 3 + 1


def test_the_elements_may_travel_as_a_stream(server: ServerProcess):
    outcome = ask(server, "bench", "--transfer", "stream", "--data", "2,3", "--shape", "3,-1", *SHORT, "--json")
    assert json.loads(outcome.output)["transfer"] == "stream"


def test_a_mistake_is_refused_and_not_measured(server: ServerProcess):
    outcome = ask(server, "bench", "--shape", "5,-1", *SHORT)
    assert (outcome.code, outcome.output, "NOT_DIVISIBLE" in outcome.errors[0]) == (3, b"", True)


def test_a_type_that_no_array_holds_is_an_error_of_usage(server: ServerProcess):
    assert ask(server, "bench", "--data-type", "nf4", *SHORT).code == 2


def test_a_server_that_is_not_there_is_no_round():
    assert run_command("bench", "--server", "127.0.0.1:1", "--timeout", "0.3", *SHORT).code == 5
