"""The parameters of a query string, read strictly."""

from collections.abc import Mapping, Sequence

from weir_core.errors import InvalidField, Reason, WeirError

_LONGEST = 128
_LONGEST_TOLD = 80
_MOST_DIGITS = 19
_BOOLEANS = {"true": True, "false": False}
_MOST_ASKED = 999_999

PAGE = ("page_size", "page_token")
"""Parameters of lists that have pages."""


class Query:
    """A query string; parameters that there are not are refused.

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
            told = unknown[:_LONGEST_TOLD]
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise WeirError(
                Reason.UNSUPPORTED_FIELD,
                f"the query has no field {told!r}; {takes}",
                field=told,
            )

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def word(self, name: str) -> str:
        """An id or another word; empty when absent. Raises InvalidField."""
        value = self._values.get(name, "")
        if len(value) > _LONGEST or not value.isascii() or not (value.isprintable() or not value):
            raise InvalidField(name, value, f"up to {_LONGEST} printable ASCII characters")
        return value

    def integer(self, name: str, *, default: int, most: int, least: int = 1) -> int:
        """A number from `least`, which is not below 0, to `most`. Raises InvalidField."""
        text = self._values.get(name)
        if text is None:
            return default
        digits = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
        if digits and least <= int(text) <= most:
            return int(text)
        raise InvalidField(name, text, f"a number from {least} to {most}")

    def boolean(self, name: str) -> bool:
        """`true` or `false`; false when absent. Raises InvalidField."""
        return _BOOLEANS[self.choice(name, tuple(_BOOLEANS), default="false")]

    def choice(self, name: str, words: Sequence[str], *, default: str) -> str:
        """One of some words. Raises InvalidField."""
        value = self._values.get(name, default)
        if value not in words:
            raise InvalidField(name, value, f"one of {', '.join(words)}")
        return value

    def page(self) -> tuple[int, str]:
        """Size, 0 for the default, and token of the page that is asked for; needs `PAGE`.

        Raises:
            InvalidField: the size is no number.
        """
        size = self.integer("page_size", default=0, least=0, most=_MOST_ASKED)
        return size, self._values.get("page_token", "")
