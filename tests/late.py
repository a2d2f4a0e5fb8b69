"""Libraries that take seconds to import: in the process whose tests use them, and in no other."""

from importlib import import_module
from typing import Any


class _Late:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # pytest looks for marks of its own
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)


def late_import(name: str) -> Any:
    """A module that is imported when it is first asked for something."""
    return _Late(name)
