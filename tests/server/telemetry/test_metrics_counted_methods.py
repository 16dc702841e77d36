"""The methods that metrics count."""

from in_process import ANY_PORT, hurry_stop
from tensor_reshape.server.config import Config
from tensor_reshape.server.runner import Runner
from tensor_reshape.server.telemetry.metrics import list_methods


def test_every_served_method_is_counted_by_the_metrics():
    runner = Runner(Config(listen=(ANY_PORT,), drain_seconds=0, shutdown_grace_seconds=0))
    try:
        served = set(runner._services[0].methods.names)
    finally:
        hurry_stop(runner)
    assert served <= set(list_methods())
