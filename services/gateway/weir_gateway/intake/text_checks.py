"""Text that can be written as UTF-8."""

from weir_core.errors import InvalidField


def check_text(field: str, text: str) -> None:
    """Refuses lone surrogates: what cannot be written as UTF-8.

    Raises:
        InvalidField: the text has one.
    """
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidField(
            field,
            f"\\u{ord(text[error.start]):04x} at character {error.start}",
            "text without lone surrogates, as these are not UTF-8",
        ) from None
