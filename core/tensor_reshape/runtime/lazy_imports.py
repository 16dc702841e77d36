"""Lazy imports: a package imports a name only when the name is first used (PEP 562).

This saves time, because the modules of these names load slowly. The package also imports these names under
`TYPE_CHECKING`, so that type checkers find them. A name may need an extra that is not installed, so this module also
returns the command that installs an extra.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def build_getters(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Returns the functions `__getattr__` and `__dir__` for a package.

    Args:
        package: the name of the package.
        homes: a mapping from each name to the module from which the name is imported.
    """

    def resolve_lazy(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        # The value becomes an attribute of the package, so later uses of the name do not call this function.
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return resolve_lazy, list_names


def describe_missing(user: str, extra: str, error: ImportError) -> str:
    """Returns a text with the reason why `user` needs an extra, and with the command that installs this extra."""
    return f"{user} needs the extra {extra}, because {error.name} is missing: {advise_install(extra)}"


def advise_install(extra: str) -> str:
    """Returns the command that installs an extra.

    pip keeps the installed package and adds the packages that the extra needs. The command therefore also works if no
    package index contains tensor-reshape. Double quotes work in all shells, including those of Windows.
    """
    return f'pip install "tensor-reshape[{extra}]"'
