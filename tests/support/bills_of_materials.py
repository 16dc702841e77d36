"""Bills of materials, as CycloneDX has them."""

from cyclonedx.validation import ValidationError


def find_fault(document: str) -> ValidationError | None:
    """Returns why a bill is none of CycloneDX 1.6; None where it is one."""
    # Here, because each process imports all test files, to find their tests, and this takes two seconds.
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(document)
