"""What a setting of the server is declared with, and the forms that all settings have in common.

- A setting is a field of a dataclass, and its annotation carries a `Declaration`: `Annotated[int, Declaration(...)]`.
  Its name, its type and its default are the field's; the declaration says the rest.
- Everything that names settings is made from the list of them: the flags and `--help`, the environment variables, the
  validation, and the table in the documentation. So a setting is declared in one place, and used where it holds.
- The unit is the end of the name, `_bytes` or `_seconds`. Other numbers are counts.
"""

from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, get_args

VARIABLE_PREFIX = "TENSOR_RESHAPE"
"""What the environment variable of each setting begins with, before an underscore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What a field says of its setting, beside its type and its default.

    Attributes:
        help: what it means, as `--help` and the documentation print it.
        least: the smallest number that is taken; None: any.
        most: the largest number that is taken; None: any.
        choices: the words that are taken; empty: any.
        ignores_case: whether a flag may write the words in capitals.
        metavar: what `--help` calls a value; empty: by its type.
        is_directory: whether a path is one, and no file.
        system_default: in words, what the default depends on where the system decides it, and not the field.
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
    """One setting: a field, and its declaration.

    Attributes:
        name: of the field.
        type: of one value: bool, int, float, str or Path.
        is_repeatable: whether the field holds a tuple of such values.
        default: the field's.
        declaration: what else is known.
    """

    name: str
    type: type
    is_repeatable: bool
    default: Any
    declaration: Declaration

    @property
    def flag(self) -> str:
        """How the setting is written on a command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """How it is written in the environment."""
        return f"{VARIABLE_PREFIX}_{self.name.upper()}"

    @property
    def is_size(self) -> bool:
        """Whether it is a size in bytes, which people may write with a unit."""
        return self.name.endswith("_bytes")

    @property
    def bounds(self) -> str:
        """Which values are taken, in words; empty: any of the type."""
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
        # Not `value < least`: NaN is neither less nor more, and is within no bounds.
        return (declared.least is None or value >= declared.least) and (declared.most is None or value <= declared.most)


def list_settings(declaring: type) -> tuple[Setting, ...]:
    """Returns the settings that a dataclass declares, in the order of its fields; each field has to be one."""
    settings = []
    for field in fields(declaring):
        annotated, declaration = get_args(field.type)
        # tuple[str, ...] and Path | None hold one type of value; int and its like have no arguments.
        (kind, *_) = [one for one in get_args(annotated) if one not in {..., NoneType}] or [annotated]
        settings.append(Setting(field.name, kind, isinstance(field.default, tuple), field.default, declaration))
    return tuple(settings)
