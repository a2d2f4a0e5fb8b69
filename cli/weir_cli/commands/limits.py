"""`weir limits`: checks a directory file without a running stack; shows and adjusts limits."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from weir_cli.commands.adjust import adjust
from weir_cli.commands.show import show
from weir_cli.output import Output
from weir_gateway.directory.advice import advise
from weir_gateway.directory.file import DirectoryFileError, read_document
from weir_gateway.directory.places import Places

app = typer.Typer(
    help="Check limits, plans and prices; show and adjust what runs.", no_args_is_help=True
)


app.command("show")(show)
app.command("adjust")(adjust)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="Directory file.")],
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print.")] = Output.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on warnings too.")] = False,
) -> None:
    """Read FILE as the gateway would. Exit status 1 if it would be refused."""
    errors, warnings = _read(file)
    if output is Output.JSON:
        print(json.dumps({"file": str(file), "errors": errors, "warnings": warnings}, indent=2))
    else:
        _print_text(file, errors, warnings)
    if errors or (strict and warnings):
        raise typer.Exit(1)


def _read(file: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    try:
        document = read_document(file)
    except DirectoryFileError as error:
        return [
            {"line": problem.line or None, "field": problem.field, "message": problem.message}
            for problem in error.problems
        ], []
    places = Places(file.read_text(encoding="utf-8"))
    warnings = [
        {
            "line": places.line(advice.owner.path),
            "entry": advice.owner.name,
            "message": advice.message,
        }
        for advice in advise(document)
    ]
    return [], warnings


def _print_text(file: Path, errors: list[dict[str, Any]], warnings: list[dict[str, Any]]) -> None:
    for kind, found in (("error", errors), ("warning", warnings)):
        for entry in found:
            line = f":{entry['line']}" if entry["line"] else ""
            what = entry.get("field") or entry.get("entry")
            print(f"{file}{line}: {kind}: {f'{what}: ' if what else ''}{entry['message']}")
    if errors:
        print(f"{file}: {_counted(errors, 'error')}; it would be refused")
    else:
        print(f"{file}: good, {_counted(warnings, 'warning')}")


def _counted(found: list[dict[str, Any]], what: str) -> str:
    return f"{len(found) or 'no'} {what}{'' if len(found) == 1 else 's'}"
