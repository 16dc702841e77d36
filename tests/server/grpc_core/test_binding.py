"""The supported releases of grpcio, and the private names that the server needs."""

import sys
from importlib.metadata import requires

import grpc
import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types
from packaging.requirements import Requirement

from tensor_reshape.server.grpc_core.binding import (
    FIRST_RELEASE,
    NAMES,
    NEXT_RELEASE,
    CoreUnavailableError,
    check_release,
    load,
)


@pytest.mark.parametrize("version", ["1.80.0", "1.83.2", "1.85.1", "1.85.0rc1"])
def test_tested_grpcio_release_is_accepted(version: str):
    check_release(version)


@pytest.mark.parametrize("version", ["1.79.3", "1.86.0", "1.86.0rc1", "0.99.0", "2.0.0", "unknown", ""])
def test_untested_grpcio_release_is_rejected(version: str):
    with pytest.raises(
        CoreUnavailableError, match=r"was not tested: the tested releases are 1\.80 and newer, below 1\.86"
    ):
        check_release(version)


def test_pyproject_bounds_match_the_tested_grpcio_releases():
    (grpcio,) = [one for one in map(Requirement, requires("tensor-reshape") or ()) if one.name == "grpcio"]
    first, following = (".".join(map(str, bound)) for bound in (FIRST_RELEASE, NEXT_RELEASE))
    assert {str(bound) for bound in grpcio.specifier} == {f">={first}", f"<{following}"}


def test_installed_grpcio_binding_has_every_required_name():
    assert load() is cygrpc


@pytest.mark.parametrize("name", NAMES)
def test_missing_name_in_the_grpcio_binding_is_reported(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(cygrpc, name)
    with pytest.raises(CoreUnavailableError, match=rf"^grpcio {grpc.__version__} has no cygrpc\.{name}$"):
        load()


def test_grpcio_without_the_cython_binding_is_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr("grpc._cython.cygrpc")
    monkeypatch.setitem(sys.modules, "grpc._cython.cygrpc", None)
    with pytest.raises(CoreUnavailableError, match=r"has no grpc\._cython\.cygrpc"):
        load()


def test_untested_grpcio_is_rejected_before_importing_its_binding(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(grpc, "__version__", "1.79.0")
    monkeypatch.delattr(cygrpc, "Server")
    with pytest.raises(CoreUnavailableError, match=r"grpcio 1\.79\.0 was not tested"):
        load()
