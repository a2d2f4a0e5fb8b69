"""Reads a directory file: YAML to a checked `Document`, or one line that says what is wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from weir_gateway.directory.checks import RuleBroken, check_document
from weir_gateway.directory.document import Document
from weir_gateway.directory.inheritance import with_time_zones
from weir_gateway.directory.places import Places, Step

SHIPPED_PLANS = Path(__file__).with_name("plans.yaml")
_MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong in a file.

    Attributes:
        line: from 1; 0 where it is not known.
        field: its path, such as `tenants[0].plan`; empty where the message names it.
        message: one line.
    """

    line: int
    field: str
    message: str

    def __str__(self) -> str:
        line = f"line {self.line}: " if self.line else ""
        field = f"{self.field}: " if self.field else ""
        return f"{line}{field}{self.message}"


class DirectoryFileError(Exception):
    """The file cannot be used; the text is one line: file, place within it, problem.

    Attributes:
        problems: all that was found, one or more.
    """

    def __init__(self, name: str, problems: Sequence[Problem]) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{name}: {problems[0]}{more}")
        self.problems = tuple(problems)


def read_document(path: Path) -> Document:
    """Reads and checks a file; the shipped plans and pool are there unless it replaces them.

    Raises:
        DirectoryFileError: it is unreadable, not YAML, or breaks a rule.
    """
    return parse_document(_read_text(path), str(path))


def parse_document(text: str, name: str) -> Document:
    """As `read_document`, from text; `name` is what errors call it.

    Raises:
        DirectoryFileError: see `read_document`.
    """
    document = _with_shipped(_validated(text, name), name)
    try:
        check_document(document)
    except RuleBroken as error:
        line = Places(text).line(error.path) or 0
        raise DirectoryFileError(name, [Problem(line, "", str(error))]) from None
    return with_time_zones(document)


def shipped_plans() -> frozenset[str]:
    """Ids of the plans that are there without a file."""
    return frozenset(plan.id for plan in _shipped().plans)


def _shipped() -> Document:
    return _validated(_read_text(SHIPPED_PLANS), SHIPPED_PLANS.name)


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise _unusable(str(path), "larger than 64 MiB")
        return content.decode("utf-8")
    except OSError as error:
        raise _unusable(str(path), error.strerror or "cannot be read") from None
    except UnicodeDecodeError:
        raise _unusable(str(path), "not UTF-8") from None


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        value = yaml.load(text, _UniqueKeyLoader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, f"column {mark.column + 1}: ") if mark else (0, "")
        raise _unusable(name, f"{column}{error.problem}", line) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _unusable(name, f"not YAML ({type(error).__name__})") from None
    if not value:
        # What an editor leaves for a moment must not lock everybody out.
        raise _unusable(name, "the file is empty; `tenants: []` would say that there are none")
    if not isinstance(value, dict):
        raise _unusable(name, "the file must hold a mapping")
    return value


def _validated(text: str, name: str) -> Document:
    value = _parsed(text, name)
    try:
        return Document.model_validate(value)
    except ValidationError as error:
        places = Places(text)
        found = error.errors(include_url=False, include_input=False)
        within = [entry["loc"] for entry in found]
        problems = [
            _problem(places, entry["loc"], entry["type"], entry["msg"])
            for entry in found
            if not (entry["type"] == "too_short" and _holds(entry["loc"], within))
        ]
        raise DirectoryFileError(name, problems) from None


def _holds(place: tuple[Step, ...], others: Sequence[tuple[Step, ...]]) -> bool:
    """Whether one of the others is within `place`: a list is short of its bad entries."""
    return any(len(other) > len(place) and other[: len(place)] == place for other in others)


def _problem(places: Places, location: tuple[Step, ...], kind: str, message: str) -> Problem:
    unknown = kind == "extra_forbidden"
    told = "there is no such field" if unknown else message.removeprefix("Value error, ")
    return Problem(places.line(location) or 0, _field(location), told)


def _field(location: tuple[Step, ...]) -> str:
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text or "file"


def _unusable(name: str, message: str, line: int = 0) -> DirectoryFileError:
    return DirectoryFileError(name, [Problem(line, "", message)])


def _with_shipped(document: Document, name: str) -> Document:
    shipped = _shipped()
    _refuse_repeats(document, name)
    plans = {plan.id: plan for plan in (*shipped.plans, *document.plans)}
    pools = {pool.name: pool for pool in (*shipped.pools, *document.pools)}
    return document.model_copy(
        update={"plans": tuple(plans.values()), "pools": tuple(pools.values())}
    )


def _refuse_repeats(document: Document, name: str) -> None:
    for field, names in (
        ("plans", [plan.id for plan in document.plans]),
        ("pools", [pool.name for pool in document.pools]),
    ):
        repeated = next((entry for entry in names if names.count(entry) > 1), None)
        if repeated is not None:
            raise DirectoryFileError(name, [Problem(0, field, f"{repeated!r} is there twice")])


class _UniqueKeyLoader(yaml.SafeLoader):
    """A SafeLoader for which a key that is there twice is an error, not the last one wins."""


def _construct_mapping(loader: _UniqueKeyLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, str) and key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key!r} is there twice", key_node.start_mark
            )
        if isinstance(key, str):
            seen.add(key)
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


_UniqueKeyLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)
