"""The reference of `weir`'s commands, from the Typer application."""

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import typer
from table_cell import cell, escaped

from weir_cli.app import app

_WORDS = {"str": "text", "bool": "flag", "int": "integer", "float": "number", "Path": "path"}


def command_line() -> str:
    """Every command with its arguments and options, groups after the plain commands."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    plain = {name: one for name, one in commands.items() if not _inner(one)}
    groups = {name: one for name, one in commands.items() if _inner(one)}
    lines: list[str] = []
    for name, command in (plain | groups).items():
        lines += _section(command, f"weir {name}", 2)
    return "\n".join(lines).strip()


def _inner(command: Any) -> dict[str, Any]:
    return {name: one for name, one in getattr(command, "commands", {}).items() if not one.hidden}


def _section(command: Any, path: str, depth: int) -> Iterator[str]:
    yield from ("", f"{'#' * depth} {path}", "", _said(command.help or ""))
    if not _inner(command) or command.invoke_without_command:
        yield from _usage(command, path)
    for name, inner in _inner(command).items():
        yield from _section(inner, f"{path} {name}", depth + 1)


def _usage(command: Any, path: str) -> Iterator[str]:
    shown = [one for one in command.params if not getattr(one, "hidden", False)]
    pieces = [] if not shown else ["[OPTIONS]"] if any(map(_is_option, shown)) else []
    pieces += [_argument(one) for one in shown if not _is_option(one)]
    yield from ("", "```text", " ".join([path, *pieces]), "```")
    if shown:
        yield from ("", "| argument or option | values | default | what it is |")
        yield "|---|---|---|---|"
        yield from map(_row, shown)


def _is_option(parameter: Any) -> bool:
    return parameter.param_type_name == "option"


def _argument(parameter: Any) -> str:
    name = _metavar(parameter) + ("..." if parameter.nargs == -1 else "")
    return name if parameter.required else f"[{name}]"


def _row(parameter: Any) -> str:
    told = parameter.help or ""
    if parameter.envvar:
        names = parameter.envvar if isinstance(parameter.envvar, list) else [parameter.envvar]
        told = f"{told} Environment: {', '.join(f'`{one}`' for one in names)}.".strip()
    cells = (_names(parameter), _values(parameter), _default(parameter), told)
    return f"| {' | '.join(cell(one) for one in cells)} |"


def _names(parameter: Any) -> str:
    if _is_option(parameter):
        return ", ".join(f"`{one}`" for one in (*parameter.opts, *parameter.secondary_opts))
    return _alternatives(_metavar(parameter))


def _alternatives(text: str) -> str:
    # A bar would end the cell of the table.
    return " or ".join(f"`{one}`" for one in text.split("|"))


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _values(parameter: Any) -> str:
    if parameter.metavar and _is_option(parameter):
        return _alternatives(parameter.metavar)
    kind = parameter.type_descriptor.annotation
    for part in get_args(kind):
        kind = part if part is not type(None) else kind
    if isinstance(kind, type) and issubclass(kind, Enum):
        text = " / ".join(f"`{one.value}`" for one in kind)
    else:
        text = _WORDS.get(getattr(kind, "__name__", ""), getattr(kind, "__name__", "text"))
    bounds = ((">=", parameter.min), ("<=", parameter.max))
    text = ", ".join([text, *(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)])
    several = getattr(parameter, "multiple", False) or parameter.nargs == -1
    return f"{text}, several" if several else text


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    value = parameter.default
    if callable(value) or value in (None, "", (), []):
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    value = value.value if isinstance(value, Enum) else value
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"`{text.replace(str(Path.home()), '~')}`"


def _said(text: str) -> str:
    # What stands after Args is for readers of the code.
    said = re.split(r"\n\s*(?:Args|Raises):\n", text)[0].replace("\b", "").strip()
    return "\n\n".join(escaped(" ".join(one.split())) for one in said.split("\n\n"))
