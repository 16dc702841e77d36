"""What every module of the repository keeps to."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    path
    for folder in ("core", "client", "server", "protos", "tests", "verification", "examples", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
    if "v1" not in path.parts
)
MAX_LINES = 400


def test_modules_are_found():
    assert ROOT / "core" / "tensor_reshape" / "rules" / "errors.py" in MODULES


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_is_short(module: Path):
    assert len(module.read_text().splitlines()) <= MAX_LINES
