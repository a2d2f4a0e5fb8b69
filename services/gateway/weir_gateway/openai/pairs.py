"""`metadata` of OpenAI's objects: pairs that a client keeps with them."""

from weir_core.errors import InvalidField
from weir_gateway.intake.shape import Shape
from weir_gateway.openai.fields import Fields
from weir_gateway.openai.tool_fields import check_writable

_MOST, _LONGEST_NAME, _LONGEST_VALUE = 16, 64, 512


def metadata_of(fields: Fields) -> dict[str, str]:
    """The pairs of a body, none if it has none. Raises InvalidField."""
    pairs = fields.raw("metadata")
    if pairs is None:
        return {}
    if not isinstance(pairs, dict) or len(pairs) > _MOST:
        raise fields.invalid("metadata", Shape(pairs), f"an object of at most {_MOST} pairs")
    for name, value in pairs.items():
        if len(name) > _LONGEST_NAME:
            bound = f"names of at most {_LONGEST_NAME} characters"
            raise fields.invalid("metadata", Shape(name), bound)
        if not isinstance(value, str) or len(value) > _LONGEST_VALUE:
            told = name if name.isascii() and name.isprintable() else "one of its names"
            bound = f"a string of at most {_LONGEST_VALUE} characters"
            raise InvalidField(f"metadata.{told}", Shape(value), bound)
    check_writable(fields, "metadata", pairs)
    return pairs
