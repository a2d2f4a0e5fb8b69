"""`ls`, `get`, `put` and `rm` of one kind of object of the directory."""

from pathlib import Path
from typing import Annotated, Any

import typer

from weir_cli.administration import CALL_S, Address, StateDirOption, administer, who
from weir_cli.directory_nouns import Noun, read_form
from weir_cli.directory_text import Format, Printed, print_forms

_PAGE = 1_000

Name = Annotated[str, typer.Argument(help="Its id or name; of a user TENANT/USER.")]
FileOption = Annotated[
    Path,
    typer.Option("-f", "--file", help="YAML or JSON, as an entry of the directory file."),
]
Expected = Annotated[
    int,
    typer.Option(
        "--expect-version", min=0, help="Refuse if it changed after this version of the directory."
    ),
]


def objects_app(noun: Noun, about: str) -> typer.Typer:
    """The commands of a kind."""
    app = typer.Typer(help=about, no_args_is_help=True)
    add_commands(app, noun)
    return app


def add_commands(app: typer.Typer, noun: Noun) -> None:
    """Adds the commands of a kind to a group."""

    @app.command(help=f"List every {noun.name}.")
    def ls(
        output: Printed = Format.TABLE, state_dir: StateDirOption = None, address: Address = ""
    ) -> None:
        found = administer(address, state_dir, lambda stub: list_all(stub, noun))
        print_forms([noun.form(one) for one in found], output, noun.columns)

    @app.command(help=f"Show one {noun.name}, with -o yaml as `put` reads it.")
    def get(
        name: Name,
        output: Printed = Format.TABLE,
        state_dir: StateDirOption = None,
        address: Address = "",
    ) -> None:
        request = noun.request("Get", **noun.key(name))
        answer = administer(address, state_dir, lambda stub: _ask(stub, noun, "Get", request))
        print_forms(noun.form(getattr(answer, noun.name)), output, noun.columns)

    @app.command(help=f"Create or replace a {noun.name}.")
    def put(
        file: FileOption,
        expect_version: Expected = 0,
        state_dir: StateDirOption = None,
        address: Address = "",
    ) -> None:
        message = noun.read(read_form(file))
        fields = {noun.name: message, "expected_version": expect_version}
        request = noun.request("Put", **fields)
        answer = administer(address, state_dir, lambda stub: _ask(stub, noun, "Put", request))
        named = getattr(message, "id", "") or message.name
        print(f"{noun.name} {named} is stored, version {answer.directory_version}")

    @app.command(help=f"Remove a {noun.name} with what belongs to it.")
    def rm(name: Name, state_dir: StateDirOption = None, address: Address = "") -> None:
        request = noun.request("Delete", **noun.key(name))
        answer = administer(address, state_dir, lambda stub: _ask(stub, noun, "Delete", request))
        print(f"{noun.name} {name} is removed, version {answer.directory_version}")


async def list_all(stub: Any, noun: Noun) -> list[Any]:
    """Every object of a kind."""
    found: list[Any] = []
    token = ""
    while True:
        request = noun.request("List", page_size=_PAGE, page_token=token)
        answer = await _ask(stub, noun, "List", request)
        found.extend(getattr(answer, f"{noun.name}s"))
        token = answer.next_page_token
        if not token:
            return found


async def _ask(stub: Any, noun: Noun, verb: str, request: Any) -> Any:
    return await noun.call(stub, verb)(request, timeout=CALL_S, metadata=who())
