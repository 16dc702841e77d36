"""The tables of the server's settings, one for each group in which they are setting."""

from collections.abc import Iterator

from tensor_reshape.rules.sizes import format_size
from tensor_reshape.server.config import Config, Setting, list_settings
from verification.document.tables import collapse_lines, join_cells

# A dataclass takes the fields of its bases in the reverse order: this is the order of `--help`.
GROUPS = Config.__bases__[::-1]


def build_configuration() -> Iterator[str]:
    """Yields the tables."""
    for group in GROUPS:
        summary, _, details = (group.__doc__ or "").partition("\n\n")
        yield from (f"### {collapse_lines(summary).rstrip('.')}", "")
        if details:
            yield from (collapse_lines(details), "")
        yield from ("| flag | values | default | meaning |", "|---|---|---|---|")
        yield from (_build_row(setting) for setting in list_settings(group))
        yield ""


def _build_row(setting: Setting) -> str:
    flags = f"`{setting.flag}`"
    if setting.type is bool:
        flags += f" `--no-{setting.flag.removeprefix('--')}`"
    return join_cells((flags, describe_values(setting), describe_default(setting), setting.help))


def describe_values(setting: Setting) -> str:
    """Returns the allowed values of a setting."""
    if not setting.is_size:
        return " ".join(f"`{choice}`" for choice in setting.choices) or setting.bounds
    ends = [format_size(int(end)) for end in (setting.least, setting.most) if end is not None]
    return f"at least {ends[0]}" if len(ends) == 1 else " to ".join(ends)


def describe_default(setting: Setting) -> str:
    """Returns the default as text, or in words if it depends on the system."""
    if setting.system_default:
        return setting.system_default
    default = setting.default
    if setting.type is bool:
        return "on" if default else "off"
    values = default if setting.is_repeatable else (default,)
    return " ".join(f"`{format_size(value) if setting.is_size else value}`" for value in values if value is not None)
