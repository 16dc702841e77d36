"""Names of a package that are imported when somebody asks for them (PEP 562), since what is behind them takes long.

Type checkers, which know nothing of this, are told by imports under `TYPE_CHECKING`.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def build_getters(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Returns the `__getattr__` and the `__dir__` of a package.

    Args:
        package: its name.
        homes: the module of each name that is imported late.
    """

    def resolve_lazy(name: str) -> object:
        if name not in homes:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # the next time it is found without this
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return resolve_lazy, list_names
