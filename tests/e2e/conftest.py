from collections.abc import Iterator

import pytest

from server_processes import ServerProcess, run_server


@pytest.fixture(scope="session")
def small_server(serving: str) -> Iterator[ServerProcess]:
    """A server whose messages are small, and whose tensors are not much larger."""
    limits = ["--max-message-bytes", "4096", "--max-tensor-bytes", "300000"]
    with run_server("--serving", serving, *limits) as process:
        yield process
