"""What a server says of itself, to its callers and in its log."""

import logging
from pathlib import Path

import pytest

from tensor_reshape.rules.limits import MAX_BATCH_BYTES, MAX_BATCH_ITEMS
from tensor_reshape.server.config import Config
from tensor_reshape.server.introductions import announce, describe_server
from tensor_reshape.wire.servers import Feature


def test_callers_are_told_the_limits_that_hold():
    told = describe_server(Config(max_message_bytes=4096, max_tensor_bytes=9999, max_rank=5))

    limits = told.limits
    assert (limits.max_message_bytes, limits.max_output_bytes, limits.max_tensor_bytes) == (4096, 4096, 9999)
    assert (limits.max_batch_bytes, limits.max_batch_items) == (MAX_BATCH_BYTES, MAX_BATCH_ITEMS)
    assert told.operations["reshape"].max_rank == 5


@pytest.mark.parametrize("reflection", [True, False])
def test_callers_are_told_what_is_served_besides(reflection: bool):
    assert (Feature.REFLECTION in describe_server(Config(reflection=reflection)).features) == reflection


def test_auto_is_told_as_what_it_came_to():
    assert describe_server(Config(serving="auto")).serving in {"inline", "threads"}
    assert describe_server(Config(serving="threads")).serving == "threads"


def test_one_record_has_version_serving_engine_limits_workers_and_listeners(caplog: pytest.LogCaptureFixture):
    config = Config(serving="threads", engine="event", workers=3, max_rank=7)
    with caplog.at_level(logging.INFO):
        announce(("a:1", "b:2"), config, health_address="c:3", http_address="e:5", metrics_address="d:4")

    (record,) = [record for record in caplog.records if record.message == "serving"]
    told = vars(record)
    assert (told["serving"], told["engine"], told["workers"]) == ("threads", "event", 3)
    assert (told["addresses"], told["health_address"], told["tls"]) == ("a:1,b:2", "c:3", "none")
    assert (told["max_rank"], told["max_message_bytes"], told["memory_budget_bytes"]) == (
        7,
        config.max_message_bytes,
        config.memory_budget_bytes,
    )
    assert (told["metrics_address"], told["http_address"], told["tokens"]) == ("d:4", "e:5", "none")
    assert told["version"]


def test_what_is_not_listened_on_is_not_named_and_tokens_that_are_asked_for_are(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
):
    config = Config(listen=("unix:/tmp/a",), token_file=tmp_path / "tokens")
    with caplog.at_level(logging.INFO):
        announce(("unix:/tmp/a",), config, health_address=None, http_address=None, metrics_address=None)

    told = vars(caplog.records[-1])
    assert told["tokens"] == "required"
    assert told.keys().isdisjoint({"health_address", "http_address", "metrics_address"})
