"""The fields of a query string, read strictly."""

from collections.abc import Mapping, Sequence

from weir_core.errors import InvalidField, Reason, WeirError

_LONGEST = 128


class Query:
    """A query string; fields that there are not are refused.

    Args:
        values: by name.
        known: the names that there are.

    Raises:
        WeirError: UNSUPPORTED_FIELD.
    """

    def __init__(self, values: Mapping[str, str], known: Sequence[str]) -> None:
        self._values = values
        unknown = next((name for name in values if name not in known), None)
        if unknown is not None:
            raise WeirError(
                Reason.UNSUPPORTED_FIELD,
                f"the query has no field {unknown[:64]!r}; it takes {', '.join(known)}",
                field=unknown[:64],
            )

    def word(self, name: str) -> str:
        """An id or another word; empty when absent. Raises InvalidField."""
        value = self._values.get(name, "")
        if len(value) > _LONGEST or not value.isascii() or not (value.isprintable() or not value):
            raise InvalidField(name, value, f"up to {_LONGEST} printable ASCII characters")
        return value

    def integer(self, name: str, *, default: int, most: int) -> int:
        """A number from 1 on. Raises InvalidField."""
        text = self._values.get(name)
        if text is None:
            return default
        if text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most:
            return int(text)
        raise InvalidField(name, text, f"a number from 1 to {most}")

    def choice(self, name: str, words: Sequence[str], *, default: str) -> str:
        """One of some words. Raises InvalidField."""
        value = self._values.get(name, default)
        if value not in words:
            raise InvalidField(name, value, f"one of {', '.join(words)}")
        return value
