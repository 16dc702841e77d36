"""Which engine is to read the connections, by what is asked for, the addresses, and the environment."""

from functools import partial

import pytest

from tensor_reshape.runtime import experiments
from tensor_reshape.server.config import SETTINGS, ConfigError
from tensor_reshape.server.transport.engines import AUTO, EVENT, POLLING, choose_engine

LOCAL = ("127.0.0.1:50051", "unix:/run/server.sock")
PUBLIC = ("127.0.0.1:50051", "0.0.0.0:50051")
LISTENER = "-event_engine_listener"
choose = partial(choose_engine, is_imported=False)


@pytest.fixture
def unknown_grpcio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "find_version", lambda: "9.99.0")


def test_the_setting_has_every_engine():
    (setting,) = [setting for setting in SETTINGS if setting.name == "io_engine"]
    assert setting.declaration.choices == (AUTO, EVENT, POLLING)


@pytest.mark.parametrize(
    ("address", "engine"),
    [
        ("127.0.0.1:0", POLLING),
        ("127.255.0.1:0", POLLING),
        ("localhost:0", POLLING),
        ("[::1]:0", POLLING),
        ("unix:server.sock", POLLING),
        ("0.0.0.0:0", EVENT),
        ("[::]:0", EVENT),
        ("10.0.0.1:0", EVENT),
        ("reshape.example:0", EVENT),
        ("localhost.example:0", EVENT),
        ("nowhere", EVENT),
    ],
)
def test_only_addresses_of_this_machine_have_the_polling_engine(address: str, engine: str):
    assert choose(AUTO, [address], None).name == engine


@pytest.mark.parametrize("addresses", [PUBLIC, PUBLIC[::-1]])
def test_one_address_that_others_can_reach_is_enough(addresses: tuple[str, ...]):
    assert choose(AUTO, addresses, None).name == EVENT


@pytest.mark.parametrize("addresses", [LOCAL, PUBLIC])
@pytest.mark.parametrize("asked", [EVENT, POLLING])
def test_what_is_asked_for_goes_before_the_addresses(asked: str, addresses: tuple[str, ...]):
    assert choose(asked, addresses, None).name == asked


@pytest.mark.parametrize("variable", [None, ""])
def test_the_polling_engine_is_had_by_the_environment(variable: str | None):
    assert choose(AUTO, LOCAL, variable) == (POLLING, LISTENER, "")


@pytest.mark.parametrize("variable", [LISTENER, f"other, {LISTENER}", f"{LISTENER},-other"])
def test_an_environment_that_has_it_is_left_as_it_is(variable: str):
    assert choose(AUTO, LOCAL, variable) == (POLLING, variable, "")


@pytest.mark.parametrize("variable", [None, "", "-other"])
def test_the_event_engine_needs_nothing_of_the_environment(variable: str | None):
    assert choose(AUTO, PUBLIC, variable) == (EVENT, variable, "")


@pytest.mark.parametrize(
    ("addresses", "variable", "engine"),
    [(LOCAL, "-other", EVENT), (LOCAL, "event_engine_listener", EVENT), (PUBLIC, LISTENER, POLLING)],
)
def test_an_environment_that_goes_against_the_addresses_is_left_as_it_is(
    addresses: tuple[str, ...], variable: str, engine: str
):
    assert choose(AUTO, addresses, variable) == (
        engine,
        variable,
        f"the environment already has GRPC_EXPERIMENTS={variable}",
    )


@pytest.mark.parametrize(("asked", "variable"), [(POLLING, "-other"), (EVENT, LISTENER), (EVENT, f"x,{LISTENER}")])
def test_what_is_asked_for_against_the_environment_is_refused(asked: str, variable: str):
    with pytest.raises(
        ConfigError,
        match=f"^--io-engine {asked} is not available: the environment already has GRPC_EXPERIMENTS={variable}",
    ):
        choose(asked, LOCAL, variable)


@pytest.mark.usefixtures("unknown_grpcio")
def test_a_grpcio_that_was_not_tried_keeps_its_engine():
    obstacle = "grpcio 9.99.0 was not tested with the polling engine"
    assert choose(AUTO, LOCAL, None) == (EVENT, None, obstacle)
    assert choose(AUTO, PUBLIC, None) == (EVENT, None, "")
    with pytest.raises(ConfigError, match=obstacle):
        choose(POLLING, LOCAL, None)


def test_an_imported_grpc_keeps_its_engine():
    obstacle = "grpc was imported before the server started, for example by an instrumentation"
    assert choose(AUTO, LOCAL, None, is_imported=True) == (EVENT, None, obstacle)
    with pytest.raises(ConfigError, match=obstacle):
        choose(POLLING, LOCAL, None, is_imported=True)


def test_an_imported_grpc_that_has_the_engine_is_no_obstacle():
    assert choose(AUTO, PUBLIC, None, is_imported=True) == (EVENT, None, "")
    assert choose(AUTO, LOCAL, LISTENER, is_imported=True) == (POLLING, LISTENER, "")


@pytest.mark.usefixtures("unknown_grpcio")
def test_whoever_sets_the_environment_himself_has_the_polling_engine_of_any_grpcio():
    assert choose(AUTO, LOCAL, LISTENER) == (POLLING, LISTENER, "")
    assert choose(POLLING, PUBLIC, LISTENER) == (POLLING, LISTENER, "")
