"""Reads the fields of a JSON object by type, and knows which were asked for."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from weir_core.errors import InvalidField, Reason, WeirError

T = TypeVar("T")


class Fields:
    """The fields of one object; null counts as absent.

    Args:
        values: the object.
        path: what stands before names in errors, such as `messages[0].`.
    """

    def __init__(self, values: Mapping[str, Any], path: str = "") -> None:
        self._values = values
        self.path = path
        """What stands before names."""
        self._known: set[str] = set()

    def has_any(self, names: frozenset[str]) -> bool:
        """Whether one of them was sent: many that were not cost one look then."""
        return not names.isdisjoint(self._values)

    def raw(self, name: str) -> Any:
        """The value, or None."""
        self._known.add(name)
        return self._values.get(name)

    def text(self, name: str, default: str = "") -> str:
        """A string. Raises InvalidField."""
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.invalid(name, value, "a string")
        return value

    def integer(self, name: str) -> int | None:
        """An integer. Raises InvalidField."""
        value = self.raw(name)
        if value is not None and type(value) is not int:
            raise self.invalid(name, value, "an integer")
        return value

    def number(self, name: str) -> float | None:
        """A number. Raises InvalidField."""
        value = self.raw(name)
        if value is None:
            return None
        if type(value) not in (int, float):
            raise self.invalid(name, value, "a number")
        try:
            return float(value)
        except OverflowError:
            raise self.invalid(name, value, "a finite number") from None

    def boolean(self, name: str) -> bool:
        """A boolean; False when absent. Raises InvalidField."""
        value = self.raw(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.invalid(name, value, "true or false")
        return value

    def choice(self, name: str, choices: Mapping[str, T], default: T) -> T:
        """One of some words. Raises InvalidField."""
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, str) or value not in choices:
            raise self.invalid(name, value, f"one of {', '.join(choices)}")
        return choices[value]

    def array(self, name: str) -> list[Any]:
        """An array; empty when absent. Raises InvalidField."""
        value = self.raw(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.invalid(name, value, "an array")
        return value

    def nested(self, name: str) -> "Fields | None":
        """The fields of a nested object. Raises InvalidField."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.invalid(name, value, "an object")
        return Fields(value, f"{self.path}{name}.")

    def left_over(self) -> Iterator[tuple[str, Any]]:
        """Fields that nobody has read, without those that are null."""
        for name, value in self._values.items():
            if name not in self._known and value is not None:
                yield name, value

    def refuse_unknown(self) -> None:
        """Refuses fields that nobody asked for: a misspelt limit must not go unnoticed.

        Raises:
            WeirError: UNSUPPORTED_FIELD.
        """
        for name in self._values:
            if name not in self._known:
                raise self.unknown(name)

    def unknown(self, name: str) -> WeirError:
        """The error for a field that there is not."""
        return self.unsupported(name, "there is no such field")

    def invalid(self, name: str, value: object, bound: str) -> InvalidField:
        """The error for a value of this object."""
        return InvalidField(f"{self.path}{name}", value, bound)

    def unsupported(self, name: str, why: str) -> WeirError:
        """The error for a field that cannot be honoured."""
        field = f"{self.path}{name[:64]}"
        return WeirError(Reason.UNSUPPORTED_FIELD, f"{field} is not supported: {why}", field=field)
