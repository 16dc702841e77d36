import pytest

from both_clients import CALLERS


@pytest.fixture(params=CALLERS)
def kind(request: pytest.FixtureRequest) -> str:
    """Of the client, for `open_client`."""
    return str(request.param)
