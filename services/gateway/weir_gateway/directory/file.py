"""Reads a directory file: YAML to a checked `Document`, or one line that says what is wrong."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from weir_gateway.directory.checks import check_document
from weir_gateway.directory.document import Document

SHIPPED_PLANS = Path(__file__).with_name("plans.yaml")
_MAX_BYTES = 64 * 1024 * 1024


class DirectoryFileError(Exception):
    """The file cannot be used; the text is one line: file, path within it, problem."""


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
    shipped = _validated(_parsed(_read_text(SHIPPED_PLANS), SHIPPED_PLANS.name), "plans.yaml")
    document = _with_shipped(_validated(_parsed(text, name), name), shipped)
    try:
        check_document(document)
    except ValueError as error:
        raise DirectoryFileError(f"{name}: {error}") from None
    return document


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise DirectoryFileError(f"{path}: larger than 64 MiB")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DirectoryFileError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DirectoryFileError(f"{path}: not UTF-8") from None


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        value = yaml.load(text, _UniqueKeyLoader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        raise DirectoryFileError(f"{name}:{where} {error.problem}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise DirectoryFileError(f"{name}: not YAML ({type(error).__name__})") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DirectoryFileError(f"{name}: the file must hold a mapping")
    return value


def _validated(value: dict[str, Any], name: str) -> Document:
    try:
        return Document.model_validate(value)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        first = problems[0]
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            message = "there is no such field"
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise DirectoryFileError(f"{name}: {_path(first['loc'])}: {message}{more}") from None


def _path(location: tuple[int | str, ...]) -> str:
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text or "file"


def _with_shipped(document: Document, shipped: Document) -> Document:
    plans = {plan.id: plan for plan in (*shipped.plans, *document.plans)}
    pools = {pool.name: pool for pool in (*shipped.pools, *document.pools)}
    _refuse_repeats(document)
    return document.model_copy(
        update={"plans": tuple(plans.values()), "pools": tuple(pools.values())}
    )


def _refuse_repeats(document: Document) -> None:
    for field, names in (
        ("plans", [plan.id for plan in document.plans]),
        ("pools", [pool.name for pool in document.pools]),
    ):
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise DirectoryFileError(f"{field}: {repeated!r} is there twice")


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
