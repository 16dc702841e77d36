"""The public names of `tensor_reshape.client`, and the modules that it imports for them."""

import subprocess
import sys

import tensor_reshape.client as sdk
from server_processes import ServerProcess

HEAVY = "grpc", "numpy", "ml_dtypes", "google.protobuf", "asyncio"


def run(*lines: str) -> list[str]:
    command = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


def test_all_exported_names_of_the_client_package_exist():
    assert [name for name in sdk.__all__ if not hasattr(sdk, name)] == []


def test_infer_locally_imports_only_the_standard_library():
    assert run(
        "import sys",
        "from tensor_reshape.client import Dim, InvalidRequestError, Reason, ShapeQuery, infer_locally",
        "queries = [ShapeQuery(data_shape=['N', 4], shape=[n, -1], special_zero=True, explain=True) for n in (0, 3)]",
        "queries.append(ShapeQuery(data_shape=[7], shape=[2, -1], special_zero=False))",
        "print(*infer_locally(queries)[:2], infer_locally(queries)[2].reason)",
        f"print([name for name in {HEAVY} if name in sys.modules])",
        # Names of other modules do not need grpc, either.
        "from tensor_reshape.client import HealthStatus, PackedTensor, Progress, ServerInfo, Transfer",
        "print('grpc' in sys.modules)",
    ) == ["[N, 4] [3, 4*N/3] NOT_DIVISIBLE", "[]", "False"]


def test_drawings_are_imported_when_a_result_is_drawn(server: ServerProcess):
    assert run(
        "import sys",
        "from tensor_reshape.client import Client, ShapeQuery, infer_locally",
        "queries = [ShapeQuery(data_shape=[6], shape=[n, -1], special_zero=False, explain=True) for n in (2, 4)]",
        f"with Client({server.address!r}) as client:",
        "    results = infer_locally(queries) + client.infer_shapes(queries)",
        "    shape = client.infer_shape([6], [-1], special_zero=False)",
        "def is_imported():",
        "    return any(name.startswith('tensor_reshape.drawings') for name in sys.modules)",
        "print(is_imported(), shape._repr_svg_()[:4], is_imported())",
    ) == ["False <svg True"]
