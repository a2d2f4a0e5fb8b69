"""Reads the JSON object of one call, a character at a time."""

import json
import re
from collections.abc import Collection
from enum import Enum, auto
from typing import Any

_HEADER = re.compile(
    r'\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*\{', re.DOTALL
)
_PAIRS = {"}": "{", "]": "["}
_OUTSIDE_STRINGS = re.compile(r"[\sA-Za-z0-9,:+.\-]")
_ARGUMENTS = ("arguments", "parameters")


class State(Enum):
    """How far the object is."""

    OPEN = auto()
    DONE = auto()
    BROKEN = auto()


class CallReader:
    """Knows name and arguments as soon as they are certain.

    Where the object begins with its name, the arguments are told as they come; in any other
    order they are told when it is complete. It is broken when its brackets do not match, when
    something stands outside of strings that is no JSON, or when it is no call of a known tool.

    Args:
        names: of the tools.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._raw: list[str] = []
        self._brackets: list[str] = []
        self._in_string = False
        self._escaped = False
        self._nested = False
        self._tells = False
        self._told: list[str] = []
        self.state = State.OPEN
        self.name: str | None = None

    @property
    def raw(self) -> str:
        """What was read and is in no call: all of it before the name is known."""
        return "".join(self._raw)

    def take(self) -> str:
        """The arguments' text since the last time."""
        text = "".join(self._told)
        self._told.clear()
        return text

    def push(self, char: str) -> None:
        """Reads one character; the first is the opening brace."""
        self._raw.append(char)
        if self._in_string:
            self._in_the_string(char)
        elif not self._between(char):
            self.state = State.BROKEN
            return
        if self._tells:
            self._tell(char)
        if not self._brackets:
            self._complete()

    def _in_the_string(self, char: str) -> None:
        if self._escaped:
            self._escaped = False
        elif char == "\\":
            self._escaped = True
        elif char == '"':
            self._in_string = False

    def _between(self, char: str) -> bool:
        if char == '"':
            self._in_string = True
        elif char in "{[":
            self._brackets.append(char)
            self._see_header()
        elif char in _PAIRS:
            return self._brackets.pop() == _PAIRS[char]
        else:
            return _OUTSIDE_STRINGS.match(char) is not None
        return True

    def _see_header(self) -> None:
        """At the first nested bracket: whether the name stood before it."""
        if self._nested or len(self._brackets) != 2:
            return
        self._nested = True
        found = _HEADER.fullmatch(self.raw)
        name = _loads(found.group(1)) if found else None
        if isinstance(name, str) and name in self._names:
            self.name = name
            self._tells = True

    def _tell(self, char: str) -> None:
        self._told.append(char)
        self._raw.clear()
        self._tells = len(self._brackets) > 1

    def _complete(self) -> None:
        self.state = State.DONE
        if self.name is not None:
            return
        name, arguments = _call(_loads(self.raw))
        if arguments is None or name not in self._names:
            self.state = State.BROKEN
            return
        self.name = name
        self._told.append(arguments)


def _call(value: Any) -> tuple[str, str | None]:
    """Name and arguments of an object; no arguments if it is no call."""
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str):
        return "", None
    given: Any = next((value[key] for key in _ARGUMENTS if value.get(key) is not None), {})
    if isinstance(given, str):
        # Some models write the arguments as JSON in a string, as OpenAI's API does.
        return name, given if isinstance(_loads(given), dict) else None
    return name, json.dumps(given, ensure_ascii=False) if isinstance(given, dict) else None


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
