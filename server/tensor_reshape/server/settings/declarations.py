"""The class for the declaration of a setting, and the properties that all settings have.

- A setting is a field of a dataclass. The annotation of the field contains a `Declaration`, for example
  `Annotated[int, Declaration(...)]`. The dataclass field has the name, the type and the default of the setting.
- The flags, `--help`, the environment variables, the validation and the table in the documentation are all generated
  from the list of settings.
- The name of a setting ends with its unit, `_bytes` or `_seconds`. A number without a unit is a count or a fraction.
"""

from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, get_args

VARIABLE_PREFIX = "TENSOR_RESHAPE"
"""Prefix of the names of environment variables for settings. An underscore follows the prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """Facts about a setting in addition to its type and default.

    Attributes:
        help: the text that explains the setting in `--help` and the documentation.
        least: the smallest valid number, or None for no limit.
        most: the largest valid number, or None for no limit.
        choices: the valid words. An empty tuple admits any text.
        ignores_case: whether the words may also be written in capitals.
        metavar: the placeholder of a value in `--help`. If `metavar` is empty, `--help` shows the placeholder for the
            type.
        system_default: the description of a default that depends on the system.
    """

    help: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    ignores_case: bool = False
    metavar: str = ""
    system_default: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, which is a dataclass field with its declaration.

    Attributes:
        name: the name of the field.
        type: the type of one value of the setting, which is bool, int, float, str or Path.
        is_repeatable: whether users may give the setting several times, so that its value is a tuple.
        default: the default of the field.
        declaration: the help text, the bounds and other facts about the setting.
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
        """The description of the valid values, or an empty text if every value of the type is valid."""
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
        # Every comparison with NaN is false, so the check is not `value < least`, which would accept NaN.
        return (declared.least is None or value >= declared.least) and (declared.most is None or value <= declared.most)


def list_settings(declaring: type) -> tuple[Setting, ...]:
    """Returns the settings of a dataclass in the order of its fields. Every field must be a setting."""
    settings = []
    for field in fields(declaring):
        annotated, declaration = get_args(field.type)
        # For tuple[str, ...] and Path | None, `get_args` returns the type of a value. Types such as int have no
        # arguments.
        (kind, *_) = [one for one in get_args(annotated) if one not in {..., NoneType}] or [annotated]
        settings.append(Setting(field.name, kind, isinstance(field.default, tuple), field.default, declaration))
    return tuple(settings)
