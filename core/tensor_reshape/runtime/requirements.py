"""Compares the installed packages with the requirements of tensor-reshape, without importing the packages."""

import re
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec

# Generated code cannot be imported if protobuf is older than the generator of the code, or two major versions newer.
# The metadata of googleapis-common-protos also excludes newer versions of protobuf that work.
_CHECKED_BOUNDS = {"tensor-reshape": (">=", "<"), "googleapis-common-protos": (">=",)}
"""The packages with generated code, and the operators of the bounds for protobuf that are checked."""


def describe_unmet_requirements() -> str:
    """Returns a line with the packages that are missing or do not fit, and the command that installs them.

    The result is empty if nothing is wrong. Packages of extras are not checked.
    """
    if find_spec("tensor_reshape.v1") is None:  # tensor-reshape-protos, which has the same files, was uninstalled
        return "tensor_reshape.v1 is missing. Run pip install --force-reinstall --no-deps tensor-reshape"
    faults, wanted = [], []
    for owner, operators in _CHECKED_BOUNDS.items():
        for requirement in _list_requirements(owner):
            (name,) = re.findall(r"^[\w-]+", requirement)
            try:
                installed = version(name)
            except PackageNotFoundError:
                faults.append(f"{name} is not installed")
            else:
                if name != "protobuf" or _is_allowed(installed, requirement, operators):
                    continue
                faults.append(f"{owner} does not work with protobuf {installed}")
            wanted.append(f'"{requirement}"')
    return f"{', '.join(faults)}. Run pip install {' '.join(wanted)}" if faults else ""


def _list_requirements(package: str) -> list[str]:
    """Returns the requirements of an installed package without those of its extras."""
    try:
        return [requirement for requirement in requires(package) or () if ";" not in requirement]
    except PackageNotFoundError:
        return []


def _is_allowed(installed: str, requirement: str, operators: tuple[str, ...]) -> bool:
    """Whether a version is within those bounds of a requirement that have one of the `operators`."""
    release = _read_release(installed)
    return all(
        release >= _read_release(bound) if operator == ">=" else release < _read_release(bound)
        for operator, bound in re.findall(r"(>=|<)([\d.]+)", requirement)
        if operator in operators
    )


def _read_release(text: str) -> tuple[int, ...]:
    """Returns the numbers of a version, for example (7, 36, 2) for "7.36.2rc1"."""
    (release,) = re.findall(r"^\d+(?:\.\d+)*", text)
    return tuple(map(int, release.split(".")))
