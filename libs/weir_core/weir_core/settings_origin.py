"""Where the value of each setting of a process comes from."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

Source = Literal["default", "file", "environment", "argument"]

_OWN_VARIABLES = {
    "cluster_token": "WEIR_CLUSTER_TOKEN",
    "admin_secret": "WEIR_ADMIN_SECRET",
    "otlp_endpoint": "OTEL_EXPORTER_OTLP_ENDPOINT",
}
"""Variables without the prefix of a service, by setting."""


@dataclass(frozen=True, slots=True)
class Origins:
    """What a process was given.

    Attributes:
        prefix: of its environment variables.
        arguments: names of settings among its arguments.
        file: values of its file.
        made: the settings were made by code: what it passed counts as arguments.
    """

    prefix: str = ""
    arguments: frozenset[str] = frozenset()
    file: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    made: bool = False

    @classmethod
    def of(cls, prefix: str, argv: Sequence[str], file: Mapping[str, Any]) -> "Origins":
        """Of a process that was started with these arguments and this file."""
        return cls(prefix, frozenset(_named(argv)), file)

    def source(self, name: str, *, given: bool) -> Source:
        """Where a value comes from.

        Args:
            name: of the setting, with the names of its groups: `queue.max_items`.
            given: it was passed to the settings by whoever made them.
        """
        if name in self.arguments:
            return "argument"
        if (
            self.variable(name).lower() in _environment()
            or _OWN_VARIABLES.get(name, "") in os.environ
        ):
            return "environment"
        if _holds(self.file, name.split(".")):
            return "file"
        return "argument" if given and self.made else "default"

    def variable(self, name: str) -> str:
        """The environment variable that sets a setting."""
        return f"{self.prefix}{name.replace('.', '__')}".upper()


def _environment() -> frozenset[str]:
    return frozenset(variable.lower() for variable in os.environ)


def _named(argv: Sequence[str]) -> Iterator[str]:
    """Settings that arguments name; `--no-drain` is `drain` too."""
    for argument in argv:
        if argument.startswith("--"):
            name = argument[2:].partition("=")[0].replace("-", "_")
            yield name
            if name.startswith("no_"):
                yield name.removeprefix("no_")


def _holds(values: Mapping[str, Any], path: Sequence[str]) -> bool:
    found: Any = values
    for part in path:
        if not isinstance(found, Mapping) or part not in found:
            return False
        found = found[part]
    return True
