import pytest

from both_clients import CALLERS


@pytest.fixture(params=CALLERS)
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of the client, for `open_client`."""
    return str(request.param)
