"""Rules for every module of the repository."""

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SOURCE_ROOTS = PROJECT["tool"]["hatch"]["build"]["dev-mode-dirs"]
GENERATED = "v1"
MODULES = sorted(
    path
    for folder in (*SOURCE_ROOTS, "protos", "tests", "verification", "examples", "benchmarks", "docs")
    for path in (ROOT / folder).rglob("*.py")
    if GENERATED not in path.parts
)
MAX_LINES = 700
PRODUCT = {
    path.relative_to(ROOT / root / "tensor_reshape").as_posix(): path
    for root in SOURCE_ROOTS
    for path in MODULES
    if path.is_relative_to(ROOT / root / "tensor_reshape") and path.name != "__init__.py"
}
"""The modules of the product by their path in the namespace package."""


@cache
def parse_modules() -> dict[str, ast.Module]:
    return {module: ast.parse(path.read_text()) for module, path in PRODUCT.items()}


TESTED_ELSEWHERE = {
    "rules/questions.py": "rules/test_inference.py",  # fields, and the check of known queries
    "rules/targets.py": "rules/test_inference.py",  # the conformance cases have each kind of item and each rejection
    "server/calls/results.py": "server/telemetry/test_call_logs.py",  # fields and protocols without a function
    "server/options.py": "server/test_main.py",  # the options of the command `serve`
    "server/ray/applications.py": "packaging/test_ray.py",  # it imports Ray, which is not installed for other tests
    "server/runner.py": "e2e/test_lifecycle.py",  # it starts, drains and stops a whole server
    "server/service/method_tables.py": "server/service/test_methods.py",  # tables
}
"""Modules without a test file of their name, and the file that tests each of them."""


def has_test_file(module: str) -> bool:
    """Whether a test file has the name of a module, in the folder that mirrors its package."""
    path = Path(module)
    return (ROOT / "tests" / path.parent / f"test_{path.stem.strip('_')}.py").exists()


def test_python_modules_are_at_most_700_lines_long():
    lines = {str(module.relative_to(ROOT)): len(module.read_text().splitlines()) for module in MODULES}
    assert {module: count for module, count in lines.items() if count > MAX_LINES} == {}


def test_each_module_has_a_test_file_named_after_it():
    assert [module for module in sorted(PRODUCT.keys() - TESTED_ELSEWHERE.keys()) if not has_test_file(module)] == []


def test_class_names_are_unique():
    names = Counter(
        node.name for tree in parse_modules().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_modules_import_each_other_in_no_circle():
    """Imports for type checkers and imports within functions count, too."""
    graph = {
        module: {one for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for one in list_imported(node)}
        for module, tree in parse_modules().items()
    }
    TopologicalSorter({module: (imported & graph.keys()) - {module} for module, imported in graph.items()}).prepare()


def list_imported(node: ast.ImportFrom) -> Iterator[str]:
    """Yields the names in an import that may be modules of the product."""
    path = str(node.module).removeprefix("tensor_reshape.").replace(".", "/")
    yield from (f"{path}.py", *(f"{path}/{one.name}.py" for one in node.names))


def test_source_roots_form_a_typed_namespace_package():
    for root in SOURCE_ROOTS:
        namespace = ROOT / root / "tensor_reshape"
        # This file would hide the packages of the other roots at run time, and no type checker would notice.
        assert not (namespace / "__init__.py").exists(), root
        portions = {path for path in namespace.iterdir() if path.is_dir()} - {
            namespace / GENERATED,
            namespace / "__pycache__",
        }
        assert portions, root
        assert [
            path for path in portions if not {"__init__.py", "py.typed"} <= {one.name for one in path.iterdir()}
        ] == []


def test_every_tool_configuration_lists_all_source_roots():
    tools = PROJECT["tool"]
    wheel = tools["hatch"]["build"]["targets"]["wheel"]
    packages = [f"{root}/tensor_reshape" for root in SOURCE_ROOTS]
    assert (wheel["sources"], wheel["only-include"], tools["ruff"]["namespace-packages"]) == (
        SOURCE_ROOTS,
        packages,
        packages,
    )
    paths = {
        "ruff": tools["ruff"]["src"],
        "mypy": tools["mypy"]["mypy_path"],
        "mypy files": tools["mypy"]["files"],
        "pyright": tools["pyright"]["extraPaths"],
        "sdist": tools["hatch"]["build"]["targets"]["sdist"]["only-include"],
    }
    assert {name: [root for root in SOURCE_ROOTS if root not in known] for name, known in paths.items()} == {
        name: [] for name in paths
    }


def list_functions(path: Path) -> Iterator[ast.FunctionDef]:
    """Yields the functions and methods of a module."""
    return (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))


def test_public_reject_functions_return_an_exception_type():
    returned = {
        f"{module}: {function.name}": ast.unparse(function.returns or ast.Constant(None))
        for module, path in PRODUCT.items()
        for function in list_functions(path)
        if function.name.startswith("reject_")
    }
    assert {name: kind for name, kind in returned.items() if not kind.endswith(("Error", "Exception"))} == {}
