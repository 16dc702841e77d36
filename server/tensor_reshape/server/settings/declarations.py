"""The declaration of a setting, and the forms that all settings share.

- A setting is a field of a dataclass. Its annotation has a `Declaration`: `Annotated[int, Declaration(...)]`. The name,
  the type and the default are those of the field.
- The flags, `--help`, the environment variables, the validation and the table in the documentation are all generated
  from the list of settings.
- The end of the name has the unit: `_bytes` or `_seconds`. Other numbers are counts.
"""

from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, get_args

VARIABLE_PREFIX = "TENSOR_RESHAPE"
"""Prefix of the environment variables, before an underscore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """Facts about a setting in addition to its type and default.

    Attributes:
        help: the meaning, for `--help` and the documentation.
        least: the smallest valid number; None: no limit.
        most: the largest valid number; None: no limit.
        choices: the valid words; empty: any text.
        ignores_case: whether the words may be written in capitals.
        metavar: the placeholder of a value in `--help`; empty: chosen by the type.
        is_directory: whether a path must be a directory instead of a file.
        system_default: description of a default that depends on the system.
    """

    help: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    ignores_case: bool = False
    metavar: str = ""
    is_directory: bool = False
    system_default: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: a field with its declaration.

    Attributes:
        name: the name of the field.
        type: the type of one value: bool, int, float, str or Path.
        is_repeatable: whether the field holds a tuple of such values.
        default: the default of the field.
        declaration: the other facts.
    """

    name: str
    type: type
    is_repeatable: bool
    default: Any
    declaration: Declaration

    @property
    def flag(self) -> str:
        """The command-line flag."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"{VARIABLE_PREFIX}_{self.name.upper()}"

    @property
    def is_size(self) -> bool:
        """Whether the setting is a size in bytes, which users may write with a unit."""
        return self.name.endswith("_bytes")

    @property
    def bounds(self) -> str:
        """Description of the valid values; empty: every value of the type."""
        declared = self.declaration
        if declared.choices:
            return " or ".join(declared.choices)
        if declared.least is None:
            return ""
        return f"at least {declared.least}" if declared.most is None else f"{declared.least} to {declared.most}"

    def admits(self, value: Any) -> bool:  # noqa: ANN401 - of the setting's type
        """Returns whether a value of the setting's type is within its bounds."""
        declared = self.declaration
        if declared.choices and value not in declared.choices:
            return False
        # Not `value < least`, because NaN must be rejected and every comparison with NaN is false.
        return (declared.least is None or value >= declared.least) and (declared.most is None or value <= declared.most)


def list_settings(declaring: type) -> tuple[Setting, ...]:
    """Returns the settings that a dataclass declares, in the order of its fields. Every field must be a setting."""
    settings = []
    for field in fields(declaring):
        annotated, declaration = get_args(field.type)
        # The value type is the argument of tuple[str, ...] and of Path | None. int and similar types have no arguments.
        (kind, *_) = [one for one in get_args(annotated) if one not in {..., NoneType}] or [annotated]
        settings.append(Setting(field.name, kind, isinstance(field.default, tuple), field.default, declaration))
    return tuple(settings)
