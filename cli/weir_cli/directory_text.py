"""Objects of the directory, printed as a table, or in the form of the directory file."""

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
import yaml

from weir_cli.output import table


class Format(StrEnum):
    """For a person, for a program, and for an editor."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


Printed = Annotated[Format, typer.Option("-o", "--output", help="How to print.")]
Form = dict[str, Any]


def print_forms(found: Sequence[Form] | Form, output: Format, columns: Sequence[str]) -> None:
    """Prints one object or several; `columns` are the fields that the table shows."""
    if output is Format.JSON:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    elif output is Format.YAML:
        print(yaml.safe_dump(found, sort_keys=False, allow_unicode=True).rstrip())
    else:
        forms = [found] if isinstance(found, dict) else found
        heads = [column.upper().replace("_", " ") for column in columns]
        print(table([heads, *([_cell(form.get(name)) for name in columns] for form in forms)]))


def _cell(value: object) -> str:
    if value in (None, "", [], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ",".join(_in_list(one) for one in value)
    if isinstance(value, dict):
        return ",".join(f"{name}={one}" for name, one in value.items())
    return str(value)


def _in_list(value: object) -> str:
    if isinstance(value, dict):
        return str(value.get("id") or value.get("version") or value.get("resource"))
    return str(value)
