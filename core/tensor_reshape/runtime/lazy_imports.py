"""Lazy imports: names of a package that are imported at their first use (PEP 562), because their modules load slowly.

For type checkers, the package also imports these names under `TYPE_CHECKING`.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def build_getters(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Returns the `__getattr__` and the `__dir__` of a package.

    Args:
        package: the name of the package.
        homes: the module of each lazily imported name.
    """

    def resolve_lazy(name: str) -> object:
        if name not in homes:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # later uses do not call this function
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return resolve_lazy, list_names
