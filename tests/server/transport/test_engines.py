"""The choice of the I/O engine by the setting, the addresses and the environment."""

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


def test_io_engine_setting_lists_every_engine():
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
def test_polling_io_engine_is_chosen_only_for_local_addresses(address: str, engine: str):
    assert choose(AUTO, [address], None).name == engine


@pytest.mark.parametrize("addresses", [PUBLIC, PUBLIC[::-1]])
def test_one_network_address_selects_the_event_io_engine(addresses: tuple[str, ...]):
    assert choose(AUTO, addresses, None).name == EVENT


@pytest.mark.parametrize("addresses", [LOCAL, PUBLIC])
@pytest.mark.parametrize("asked", [EVENT, POLLING])
def test_io_engine_setting_overrides_the_choice_by_address(asked: str, addresses: tuple[str, ...]):
    assert choose(asked, addresses, None).name == asked


@pytest.mark.parametrize("variable", [None, ""])
def test_polling_io_engine_sets_the_grpc_experiments_variable(variable: str | None):
    assert choose(AUTO, LOCAL, variable) == (POLLING, LISTENER, "")


@pytest.mark.parametrize("variable", [LISTENER, f"other, {LISTENER}", f"{LISTENER},-other"])
def test_matching_grpc_experiments_variable_is_unchanged(variable: str):
    assert choose(AUTO, LOCAL, variable) == (POLLING, variable, "")


@pytest.mark.parametrize("variable", [None, "", "-other"])
def test_event_io_engine_sets_no_environment_variable(variable: str | None):
    assert choose(AUTO, PUBLIC, variable) == (EVENT, variable, "")


@pytest.mark.parametrize(
    ("addresses", "variable", "engine"),
    [(LOCAL, "-other", EVENT), (LOCAL, "event_engine_listener", EVENT), (PUBLIC, LISTENER, POLLING)],
)
def test_conflicting_grpc_experiments_variable_is_kept_and_reported(
    addresses: tuple[str, ...], variable: str, engine: str
):
    assert choose(AUTO, addresses, variable) == (
        engine,
        variable,
        f"the environment already has GRPC_EXPERIMENTS={variable}",
    )


@pytest.mark.parametrize(("asked", "variable"), [(POLLING, "-other"), (EVENT, LISTENER), (EVENT, f"x,{LISTENER}")])
def test_io_engine_setting_that_contradicts_grpc_experiments_is_rejected(asked: str, variable: str):
    with pytest.raises(
        ConfigError,
        match=f"^--io-engine {asked} is not available: the environment already has GRPC_EXPERIMENTS={variable}",
    ):
        choose(asked, LOCAL, variable)


@pytest.mark.usefixtures("unknown_grpcio")
def test_untested_grpcio_keeps_its_default_io_engine():
    obstacle = "grpcio 9.99.0 was not tested with the polling engine"
    assert choose(AUTO, LOCAL, None) == (EVENT, None, obstacle)
    assert choose(AUTO, PUBLIC, None) == (EVENT, None, "")
    with pytest.raises(ConfigError, match=obstacle):
        choose(POLLING, LOCAL, None)


def test_already_imported_grpc_keeps_its_io_engine():
    obstacle = "grpc was imported before the server started, for example by an instrumentation"
    assert choose(AUTO, LOCAL, None, is_imported=True) == (EVENT, None, obstacle)
    with pytest.raises(ConfigError, match=obstacle):
        choose(POLLING, LOCAL, None, is_imported=True)


def test_already_imported_grpc_with_the_requested_engine_is_accepted():
    assert choose(AUTO, PUBLIC, None, is_imported=True) == (EVENT, None, "")
    assert choose(AUTO, LOCAL, LISTENER, is_imported=True) == (POLLING, LISTENER, "")


@pytest.mark.usefixtures("unknown_grpcio")
def test_environment_selects_the_polling_engine_for_any_grpcio_release():
    assert choose(AUTO, LOCAL, LISTENER) == (POLLING, LISTENER, "")
    assert choose(POLLING, PUBLIC, LISTENER) == (POLLING, LISTENER, "")
