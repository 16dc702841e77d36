"""The description of a server, for its callers and in its log."""

import logging
from pathlib import Path

import pytest

from tensor_reshape.rules.limits import MAX_BATCH_BYTES, MAX_BATCH_ITEMS, MAX_RANK, MAX_TENSOR_BYTES
from tensor_reshape.server.config import CORE, PUBLIC, Config
from tensor_reshape.server.server_info import announce, describe_server
from tensor_reshape.wire.servers import Feature


def test_description_has_the_limits_and_features_of_the_server():
    told = describe_server(Config(max_message_bytes=4096), CORE)
    limits = told.limits
    assert (limits.max_message_bytes, limits.max_output_bytes, limits.max_tensor_bytes) == (
        4096,
        4096,
        MAX_TENSOR_BYTES,
    )
    assert (limits.max_batch_bytes, limits.max_batch_items) == (MAX_BATCH_BYTES, MAX_BATCH_ITEMS)
    assert told.operations["reshape"].max_rank == MAX_RANK
    for reflection in (True, False):
        assert (Feature.REFLECTION in describe_server(Config(reflection=reflection), CORE).features) == reflection
    assert told.grpc_api == CORE


def test_record_and_a_warning_say_why_the_public_parts_of_grpcio_serve(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO):
        announce((), Config(), "another grpcio", health_address=None, http_address=None, metrics_address=None)
    warning, told = map(vars, caplog.records)
    assert (warning["levelname"], warning["cause"], told["grpc_api"]) == ("WARNING", "another grpcio", PUBLIC)


def test_record_has_version_serving_limits_and_addresses(caplog: pytest.LogCaptureFixture):
    config = Config(io_engine="event", workers=3, max_calls=7)
    with caplog.at_level(logging.INFO):
        announce(("a:1", "b:2"), config, "", health_address="c:3", http_address="e:5", metrics_address="d:4")
    (told,) = [vars(record) for record in caplog.records if record.message == "serving"]
    expected = {
        "grpc_api": CORE,
        "io_engine": "event",
        "workers": 3,
        "addresses": "a:1,b:2",
        "health_address": "c:3",
        "http_address": "e:5",
        "metrics_address": "d:4",
        "tls": "none",
        "tokens": "none",
        "max_calls": 7,
        "max_message_bytes": config.max_message_bytes,
        "memory_budget_bytes": config.memory_budget_bytes,
    }
    assert {name: told[name] for name in expected} == expected
    assert told["version"]


def test_record_without_side_ports_does_not_name_them(caplog: pytest.LogCaptureFixture, tmp_path: Path):
    config = Config(listen=("unix:/tmp/a",), token_file=tmp_path / "tokens")
    with caplog.at_level(logging.INFO):
        announce(("unix:/tmp/a",), config, "", health_address=None, http_address=None, metrics_address=None)
    told = vars(caplog.records[-1])
    assert told["tokens"] == "required"
    assert told.keys().isdisjoint({"health_address", "http_address", "metrics_address"})
